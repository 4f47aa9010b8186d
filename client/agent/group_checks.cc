#include "client/agent/group_checks.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/processes/process_tree/exit_watch.h"
#include "daemon/base/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/files/await_ready.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr char kGroupProgram[] = "rollcall-train";
constexpr char kGroupVariable[] = "ROLLCALL_GROUP_CHECK";
constexpr size_t kGroupOutputBytesMax = 64 << 10;
// How long a killed program may take to end. After that it is left alone: it
// waits in the kernel for a device.
constexpr absl::Duration kGroupKillPatience = absl::Seconds(1);
// The longest time that a measurement can take.
constexpr double kGroupSecondsMax = 3600;

std::optional<absl::Duration> TimeIn(const nlohmann::json& line,
                                     const char* name) {
  const auto value = line.find(name);
  if (value == line.end() || !value->is_number()) return std::nullopt;
  const double seconds = value->get<double>();
  if (!std::isfinite(seconds) || seconds < 1e-9 || seconds > kGroupSecondsMax) {
    return std::nullopt;
  }
  return absl::Seconds(seconds);
}

std::string LastLineOf(absl::string_view text) {
  text = absl::StripTrailingAsciiWhitespace(text);
  const size_t end = text.rfind('\n');
  if (end != absl::string_view::npos) text.remove_prefix(end + 1);
  return std::string(text);
}

// Waits at most kGroupKillPatience for the killed process to end. Returns
// whether it has.
bool AwaitKilled(pid_t pid) {
  const ExitWatch watch(pid);
  return AwaitReady(watch.fd(), POLLIN, MonotonicNow() + kGroupKillPatience);
}

}  // namespace

std::string GroupCheckProgram() {
  char self[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (size <= 0) return "";
  const std::string path(self, size);
  std::string program =
      absl::StrCat(path.substr(0, path.rfind('/') + 1), kGroupProgram);
  return access(program.c_str(), X_OK) == 0 ? program : "";
}

std::optional<v1::AgentMessage> ReadGroupLine(absl::string_view line,
                                              uint64_t round) {
  const nlohmann::json parsed = nlohmann::json::parse(
      line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  v1::AgentMessage message;
  if (const auto port = parsed.find("listening"); port != parsed.end()) {
    if (!port->is_number_unsigned() || port->get<uint64_t>() == 0 ||
        port->get<uint64_t>() > UINT16_MAX) {
      return std::nullopt;
    }
    message.mutable_group_listening()->set_round(round);
    message.mutable_group_listening()->set_port(port->get<uint32_t>());
    return message;
  }
  v1::GroupChecked& checked = *message.mutable_group_checked();
  checked.set_round(round);
  if (const auto error = parsed.find("error"); error != parsed.end()) {
    if (!error->is_string()) return std::nullopt;
    checked.set_error(Printable(error->get_ref<const std::string&>(),
                                Limits::node_reason_bytes_max));
    if (checked.error().empty()) checked.set_error("it gave no reason");
    const auto peer = parsed.find("peer");
    checked.set_peer(peer != parsed.end() && peer->is_boolean() &&
                     peer->get<bool>());
    return message;
  }
  const std::optional<absl::Duration> product = TimeIn(parsed, "product_s");
  if (!product.has_value()) return std::nullopt;
  ToProto(*product, checked.mutable_product());
  // A node that is checked alone has no all-reduce.
  if (!parsed.contains("all_reduce_s")) return message;
  const std::optional<absl::Duration> all_reduce =
      TimeIn(parsed, "all_reduce_s");
  if (!all_reduce.has_value()) return std::nullopt;
  ToProto(*all_reduce, checked.mutable_all_reduce());
  return message;
}

GroupChecks::GroupChecks(Options options, Said said)
    : options_(std::move(options)),
      said_(std::move(said)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

GroupChecks::~GroupChecks() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    Wake();
  }
  if (thread_.joinable()) thread_.join();
}

// With the lock: a thread that takes what is wanted has seen all wakes so far,
// so a later one means something newer.
void GroupChecks::Wake() {
  changed_.NotifyAll();
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void GroupChecks::Run(v1::GroupCheck check,
                      std::vector<std::string> environment) {
  const uint64_t round = check.round();
  {
    MutexLock lock(mutex_);
    wanted_ = Wanted{std::move(check), std::move(environment)};
    Wake();
  }
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& error) {
    Fail(round, absl::StrCat("no thread could be started: ", error.what()));
  }
}

void GroupChecks::End() {
  {
    MutexLock lock(mutex_);
    wanted_.reset();
    Wake();
  }
}

void GroupChecks::Fail(uint64_t round, const std::string& why) {
  v1::AgentMessage message;
  message.mutable_group_checked()->set_round(round);
  message.mutable_group_checked()->set_error(
      Printable(why, Limits::node_reason_bytes_max));
  said_(std::move(message));
}

void GroupChecks::Loop() {
  for (;;) {
    Wanted wanted;
    {
      MutexLock lock(mutex_);
      while (!ending_ && !wanted_.has_value()) changed_.Wait(mutex_);
      if (ending_) return;
      wanted = *std::exchange(wanted_, std::nullopt);
      uint64_t times = 0;
      (void)!read(wake_.get(), &times, sizeof(times));
    }
    RunOnce(wanted);
  }
}

void GroupChecks::RunOnce(const Wanted& wanted) {
  const v1::GroupCheck& check = wanted.check;
  std::vector<std::string> environment = wanted.environment;
  environment.push_back(
      absl::StrCat(kGroupVariable, "=", check.place(), " ", check.port(), " ",
                   absl::ToInt64Milliseconds(FromProto(check.limit())), " ",
                   absl::BytesToHexString(check.secret()), " ",
                   absl::StrJoin(check.addresses(), " ")));
  const std::vector<std::string> argv = {options_.program, "--check-group"};
  const SystemUser* user = options_.user ? &*options_.user : nullptr;
  absl::StatusOr<ForkedRank> program =
      ForkRank(argv, environment, /*cgroup_entrance=*/-1, user);
  if (!program.ok()) {
    return Fail(check.round(), std::string(program.status().message()));
  }
  Release(*program);
  std::string errors;
  const Ended how = Follow(*program, check, errors);
  // The program has answered or its time is over. Its pid is killed too, in
  // case it does not lead its session yet.
  kill(-program->pid, SIGKILL);
  kill(program->pid, SIGKILL);
  const bool ended = AwaitKilled(program->pid);
  const ExitStatus status = ended ? PeekExit(program->pid) : ExitStatus();
  if (ended) Reap(program->pid);
  if (how != Ended::kSilent) return;
  if (!ended || program->out.open()) {
    return Fail(
        check.round(),
        absl::StrCat(kGroupProgram, " did not end within ",
                     absl::FormatDuration(absl::Ceil(
                         FromProto(check.limit()), absl::Milliseconds(100)))));
  }
  if (const int error = ExecError(*program); error != 0) {
    return Fail(check.round(),
                ExplainExecError(error, argv, environment, user).reason);
  }
  Fail(check.round(),
       absl::StrCat(kGroupProgram, " ended ",
                    status.signal != 0 ? "by signal " : "with code ",
                    status.signal != 0 ? status.signal : status.code,
                    errors.empty() ? "" : ": ", LastLineOf(errors)));
}

GroupChecks::Ended GroupChecks::Follow(ForkedRank& program,
                                       const v1::GroupCheck& check,
                                       std::string& errors) {
  const absl::Duration limit =
      std::clamp(FromProto(check.limit()), absl::ZeroDuration(),
                 absl::Seconds(kGroupSecondsMax));
  const absl::Time until = MonotonicNow() + limit;
  std::string lines;
  size_t total = 0;
  while (program.out.open() && total < kGroupOutputBytesMax) {
    const int64_t left_ms = absl::ToInt64Milliseconds(
        absl::Ceil(until - MonotonicNow(), absl::Milliseconds(1)));
    // A negative descriptor is ignored.
    pollfd polled[3] = {{program.out.get(), POLLIN, 0},
                        {program.err.get(), POLLIN, 0},
                        {wake_.get(), POLLIN, 0}};
    const int ready =
        poll(polled, 3, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    if (polled[2].revents != 0) return Ended::kWoken;
    for (Fd* pipe : {&program.out, &program.err}) {
      char piece[4096];
      const ssize_t got = read(pipe->get(), piece, sizeof(piece));
      if (got == 0) pipe->Close();
      if (got <= 0) continue;
      total += got;
      (pipe == &program.out ? lines : errors).append(piece, got);
    }
    for (size_t end; (end = lines.find('\n')) != std::string::npos;) {
      std::optional<v1::AgentMessage> said =
          ReadGroupLine(absl::string_view(lines).substr(0, end), check.round());
      lines.erase(0, end + 1);
      if (!said.has_value()) continue;
      const bool answered = said->has_group_checked();
      said_(*std::move(said));
      if (answered) return Ended::kAnswered;
    }
  }
  return Ended::kSilent;
}

}  // namespace rollcall
