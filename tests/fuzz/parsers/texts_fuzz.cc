// Files, pipes and answers that other programs write and ours read: a rank's
// error file, a check's thresholds, the output of the child that mints ids, a
// launcher's daemon.json, settings as JSON, the kernel's tables, and a rank's
// output. Also a job's status as text, which a daemon may have filled with
// anything; NCCL's answer about a job; the location of a state in etcd, and a
// run that was read from there.
//
// Oracle: nothing throws, nothing is longer than its bound, what must be UTF-8
// is UTF-8, and what is accepted is the same after it is written and read
// again.
#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/admin/job_history.h"
#include "client/admin/job_screen.h"
#include "client/admin/job_text.h"
#include "client/admin/text_width.h"
#include "client/agent/nccl/nccl.h"
#include "client/agent/nccl/ras_status.h"
#include "client/agent/processes/output/error_file.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "client/facts/bound_facts.h"
#include "client/facts/devices/gpu.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/isolated_query.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/netlink.h"
#include "client/facts/system/network.h"
#include "client/facts/system/system.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/launch_record.h"
#include "daemon/base/text/lines.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/journal/etcd/etcd_location.h"
#include "daemon/journal/run_record.h"
#include "nlohmann/json.hpp"
#include "rollcall/v1/journal.pb.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"
#include "trainer/check/thresholds.h"

namespace rollcall {
namespace {

absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

void ErrorFile(std::string_view text) {
  const std::string message = ParseErrorFile(text).message;
  Expect(message.size() <= Limits::stderr_tail_bytes, "a message has a bound");
  Expect(ValidUtf8(message) == message, "a message is UTF-8", message);
}

void ThresholdsFile(std::string_view text) {
  const absl::StatusOr<Thresholds> read = ParseThresholds("file", View(text));
  if (!read.ok()) {
    const std::string message(read.status().message());
    Expect(message.size() <= 300, "a message has a bound", message);
    Expect(ValidUtf8(message) == message, "a message is UTF-8", message);
    return;
  }
  for (const auto& number :
       {read->min_busbw_gbps, read->max_latency_us, read->link_outlier}) {
    Expect(!number || (*number >= kThresholdMin && *number <= kThresholdMax),
           "a threshold lies between its bounds", text);
  }
}

void Minted(std::string_view text) {
  const auto minted = ParseMintedIds(View(text));
  if (!minted.ok()) return;
  const auto again = ParseMintedIds(FormatMintedIds(minted));
  Expect(again.ok() && again->ids == minted->ids &&
             again->version == minted->version,
         "minted ids come back the same", text);
  for (const std::string& id : minted->ids) {
    Expect(id.size() == Limits::nccl_id_bytes, "an id has its size");
  }
}

// Settings as a launcher gives them to its daemon.
void Settings(std::string_view text) {
  v1::JobSettings settings;
  if (!google::protobuf::util::JsonStringToMessage(
           google::protobuf::StringPiece(text.data(), text.size()), &settings)
           .ok() ||
      !AdmitSettings(settings).ok()) {
    return;
  }
  std::string json;
  Expect(google::protobuf::util::MessageToJsonString(settings, &json).ok(),
         "settings can be written as JSON", text);
  v1::JobSettings again;
  Expect(google::protobuf::util::JsonStringToMessage(json, &again).ok() &&
             again.SerializeAsString() == settings.SerializeAsString(),
         "settings come back the same", json);
}

void Kernel(Feed& feed) {
  const std::string first = feed.String();
  const std::string second(feed.Rest());
  std::vector<NetworkLink> links;
  std::vector<NetworkAddress> addresses;
  std::set<int> routes;
  ParseLinks(View(first), links);
  ParseAddresses(View(first), addresses);
  ParseDefaultRoutes(View(first), routes);
  v1::Facts facts;
  AddInterfaces(links, addresses, routes, 256, facts);
  DecodeReports(View(first));
  v1::SystemLimits limits;
  ReadSwap(View(first), limits);
  AddMissing(facts, View(first), View(second), View(second));
  Expect(GidText(View(first)).empty() || IsIpv6(GidText(View(first))),
         "a GID is an IPv6 address", first);
  StateWord(View(first));
  RateGbps(View(first));
  BoundFacts(facts);
  Expect(AdmitFacts(facts).ok(), "what is gathered is admitted",
         facts.ShortDebugString());
  const std::string folder = OwnCgroupFolder(first, second);
  Expect(folder.empty() || folder[0] == '/', "a folder is absolute", folder);
  ChosenWord(first);
  Expect(CountVisibleGpus(8, View(first), View(second)) <= 8,
         "no more GPUs are visible than there are");
}

// A rank's output in pieces, and the last lines of it.
void Output(Feed& feed) {
  LineCutter cutter;
  Tail tail(Limits::stderr_tail_lines, Limits::stderr_tail_bytes);
  absl::Time now = absl::UnixEpoch();
  const auto take = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      Expect(line.size() <= kLineBytesMax, "a line has a bound");
      Expect(line.find('\n') == std::string::npos, "a line is one line", line);
      tail.Add(line);
    }
    PrefixedPieces(lines, "[a 0] ");
  };
  while (!feed.empty()) {
    now += absl::Milliseconds(feed.Byte()) * 10;
    take(cutter.Take(View(feed.Text()), now));
  }
  const std::string text = tail.Text(cutter.open_line());
  Expect(text.size() <= Limits::stderr_tail_bytes, "a tail has a bound");
  Expect(ValidUtf8(text) == text, "a tail is UTF-8", text);
  take(cutter.Finish());
}

void Status(std::string_view bytes) {
  v1::JobStatus status;
  if (!status.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  const std::string line = OneLine(StatusJson(status));
  Expect(!nlohmann::json::parse(line, nullptr, false).is_discarded() &&
             line.find('\n') == std::string::npos,
         "status is one line of JSON", line);
  StatusTable(status);
  WaitingText(status);
  UnpreparedText(status);
  StragglersText(status);
  ReformText(status);
  JobHistory history;
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  history.Heard(status, now);
  history.Heard(status, now + absl::Minutes(1));
  const ScreenSize size = {.rows = 30, .columns = 100};
  for (const ScreenLine& drawn :
       JobScreen(status, history, size, now + absl::Minutes(2))) {
    Expect(TextWidth(drawn.text) <= size.columns &&
               drawn.text == Printable(drawn.text, drawn.text.size()),
           "a line of the screen fits and has no control character",
           drawn.text);
  }
  v1::End end;
  end.set_reason(status.end_reason());
  *end.mutable_root_cause() = status.root_cause();
  FailureText(end);
}

// A folder of this process, for files that are read by their name.
class OwnFolder {
 public:
  OwnFolder() {
    const char* root = getenv("TMPDIR");
    path_ = absl::StrCat(root == nullptr ? "/tmp" : root, "/fuzz-XXXXXX");
    Expect(mkdtemp(path_.data()) != nullptr, "a temporary folder", path_);
  }
  ~OwnFolder() {
    unlink((path_ + "/daemon.json").c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void DaemonFile(std::string_view text) {
  static const OwnFolder folder;
  const std::string path = folder.path() + "/daemon.json";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  Expect(fd >= 0 && write(fd, text.data(), text.size()) ==
                        static_cast<ssize_t>(text.size()),
         "the file is written", path);
  close(fd);
  const auto running = ReadRunningJob(folder.path());
  Expect(running.ok() || running.status().code() == absl::StatusCode::kNotFound,
         "a damaged file is NOT_FOUND");
}

void LaunchFile(std::string_view text) {
  const auto record = ParseLaunchRecord(std::string(text));
  if (!record.ok()) {
    return Expect(absl::IsFailedPrecondition(record.status()),
                  "a damaged record is FAILED_PRECONDITION");
  }
  const std::string again = FormatLaunchRecord(*record);
  const auto twice = ParseLaunchRecord(again);
  Expect(twice.ok() && FormatLaunchRecord(*twice) == again,
         "what was read is written", again);
}

void Place(std::string_view text) {
  const auto place = EtcdLocation::Parse(text);
  if (!place.ok()) {
    const std::string said(place.status().message());
    return ExpectPrintable("why it is no place", said);
  }
  Expect(!place->endpoints.empty() &&
             place->endpoints.size() <= EtcdLocation::kEndpointsMax,
         "a place has endpoints", text);
  const auto again = EtcdLocation::Parse(place->Text());
  Expect(again.ok() && again->endpoints == place->endpoints &&
             again->Prefix() == place->Prefix(),
         "a place comes back the same", text);
}

void Run(std::string_view bytes) {
  v1::PackedRecord packed;
  // A size that needs more memory than this process has is left out. The record
  // has a limit of its own.
  if (packed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
      packed.bytes() > (1u << 20)) {
    return;
  }
  const auto run = UnpackRun("demo", std::string(bytes));
  if (!run.ok()) {
    return Expect(absl::IsFailedPrecondition(run.status()),
                  "a damaged run is FAILED_PRECONDITION");
  }
  const std::string again = *PackRun(*run);
  const auto twice = UnpackRun("demo", again);
  Expect(twice.ok() && *PackRun(*twice) == again, "a run comes back the same");
}

// The same, starting from the packed record's content.
void Record(std::string_view bytes) {
  v1::RunRecord record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  JournaledRun run;
  run.job = "demo";
  run.written_at = absl::FromUnixMicros(record.written_at().seconds());
  run.state.run = record.run();
  run.state.settings = record.settings();
  run.state.generation = record.generation();
  run.state.restarts_charged = record.restarts_charged();
  if (record.has_leaving()) run.state.leaving = record.leaving();
  if (record.has_finished()) run.state.finished = record.finished();
  if (record.has_end()) run.state.end = record.end();
  if (record.has_ran_proposal()) run.state.ran_proposal = record.ran_proposal();
  if (record.has_ran_world_commit())
    run.state.ran_world_commit = record.ran_world_commit();
  if (record.has_ran_finished()) run.state.ran_finished = record.ran_finished();
  Run(*PackRun(run));
}

void RasAnswer(std::string_view text) {
  const absl::StatusOr<RasStatus> status = ParseRasStatus(View(text));
  if (!status.ok()) return;
  size_t parts = status->communicators.size();
  std::set<int64_t> pids;
  std::set<std::string> hosts;
  for (const RasCommunicator& communicator : status->communicators) {
    parts += communicator.ranks.size() + communicator.missing.size();
    for (const RasRank& rank : communicator.ranks) {
      pids.insert(rank.pid);
      hosts.insert(rank.host);
    }
  }
  Expect(parts <= kRasPartsMax, "an answer has a bound");
  const std::string said = FindPlace(*status, {pids, hosts}).text;
  Expect(ValidUtf8(said) == said, "a place's text is UTF-8", said);
  Expect(said.size() < 4096, "a place's text has a bound");
}

void Prints(std::string_view text) {
  for (const bool multiline : {false, true}) {
    const std::string clean = Printable(text, text.size(), multiline);
    Expect(clean.size() <= text.size(), "cleaning adds nothing");
    Expect(Printable(clean, clean.size(), multiline) == clean,
           "clean stays clean", clean);
    Expect(ValidUtf8(clean) == clean, "clean is UTF-8", clean);
    Expect(Printable(text, 7, multiline).size() <= 7, "a bound is kept");
  }
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rollcall;
  Feed feed(data, size);
  switch (feed.Pick(11)) {
    case 0: {
      const std::string_view text = feed.Rest();
      ErrorFile(text);
      ThresholdsFile(text);
      break;
    }
    case 1:
      Minted(feed.Rest());
      break;
    case 2: {
      const std::string_view text = feed.Rest();
      Settings(text);
      RasAnswer(text);
      break;
    }
    case 3:
      Kernel(feed);
      break;
    case 4:
      Output(feed);
      break;
    case 5:
      Status(feed.Rest());
      break;
    case 6:
      Prints(feed.Rest());
      break;
    case 7: {
      const std::string_view text = feed.Rest();
      DaemonFile(text);
      LaunchFile(text);
      break;
    }
    case 8:
      Place(feed.Rest());
      break;
    case 9:
      Run(feed.Rest());
      break;
    default:
      Record(feed.Rest());
  }
  return 0;
}
