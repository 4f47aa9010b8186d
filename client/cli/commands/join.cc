// `rollcall join`: attends a job as one node, in this process.
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/admin/job_text.h"
#include "client/admin/live_line.h"
#include "client/admin/messages.h"
#include "client/agent/processes/processes.h"
#include "client/agent/session.h"
#include "client/agent/shared_folder.h"
#include "client/cli/commands.h"
#include "client/cli/digest.h"
#include "client/cli/job_lookup.h"
#include "client/cli/written_folders.h"
#include "client/doctor/doctor.h"
#include "client/doctor/doctor_text.h"
#include "client/facts/bound_facts.h"
#include "client/facts/facts.h"
#include "client/facts/later_same_files.h"
#include "client/facts/same_files.h"
#include "client/launch/spawn/spawn.h"
#include "daemon/base/durations.h"
#include "daemon/base/live_bell.h"
#include "daemon/base/processes/system_user.h"
#include "daemon/core/admission/grammar.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

WrittenFolders FoldersOf(const JoinFlags& flags) {
  char here[PATH_MAX] = {};
  const bool known = getcwd(here, sizeof(here)) != nullptr;
  return FindWrittenFolders(flags.local, flags.command, PlainEnvironment(),
                            known ? here : "");
}

NodeFactsOptions FactsOptionsOf(const LocalFlags& local) {
  NodeFactsOptions options;
  options.environment = PlainEnvironment();
  DeviceFactsOptions& devices = options.devices;
  if (!local.sysroot.empty()) devices.sysroot = local.sysroot;
  devices.verbs_library = local.verbs_lib;
  devices.nvml_library = local.nvml_lib;
  devices.nccl_library = local.nccl_lib;
  return options;
}

// Gathers everything that this node reports about itself, before it dials.
v1::Facts NodeFacts(NodeFactsOptions options, const WrittenFolders& folders) {
  std::vector<std::string>& wanted = options.devices.folders;
  wanted = folders.named;
  wanted.insert(wanted.end(), folders.others.begin(), folders.others.end());
  v1::Facts facts = GatherNodeFacts(options);
  facts.set_advertised_address(AdvertisedAddress(options.environment));
  return facts;
}

// The launcher's node always has a seat, and the other nodes are compared with
// it. So a run can begin only if this node can use the files.
absl::Status CheckSameFiles(const v1::Facts& facts) {
  const std::string text =
      UnusableFileText({facts.same_files().begin(), facts.same_files().end()});
  return text.empty() ? absl::OkStatus() : absl::FailedPreconditionError(text);
}

// What to find out of the files of --same and the folders of --shared, each
// once.
std::vector<SameQuery> SameQueries(const LocalFlags& local) {
  std::vector<SameQuery> queries;
  const auto add = [&](SameQuery query) {
    for (const SameQuery& known : queries) {
      if (known.path == query.path) return;
    }
    queries.push_back(std::move(query));
  };
  for (const std::string& file : local.same) {
    const std::string path = AbsolutePath(file);
    add({path, [path] { return ReadSameFile(path); }});
  }
  for (const std::string& folder : local.shared) {
    const std::string path = AbsolutePath(folder);
    add({SharedFolderPath(path), [path] { return LookAtSharedFolder(path); }});
  }
  return queries;
}

// The doctor's findings about communication variables and about free space in
// the run's folders: for named folders all findings, for the others only that
// they are full.
std::vector<std::string> StartWarnings(const v1::Facts& facts,
                                       const WrittenFolders& folders) {
  std::vector<std::string> warnings;
  for (const Finding& finding : Diagnose(facts, DoctorOptions())) {
    const auto& others = folders.others;
    const bool other =
        std::count(others.begin(), others.end(), finding.subject) > 0;
    if ((finding.check == "free-space" &&
         finding.severity > (other ? Severity::kWarning : Severity::kOk)) ||
        (finding.check == "communication-variables" &&
         finding.severity >= Severity::kWarning)) {
      warnings.push_back(absl::StrCat("WARNING: ", OneLineText(finding)));
    }
  }
  for (const v1::SameFile& file : facts.same_files()) {
    if (file.error().empty()) continue;
    warnings.push_back(SameFileWarning(file));
  }
  return warnings;
}

NcclEnv NcclEnvOf(const std::string& text) {
  return text == "all"    ? NcclEnv::kAll
         : text == "none" ? NcclEnv::kNone
                          : NcclEnv::kNeeded;
}

// The settings that NCCL will read from its configuration files in a rank.
std::map<std::string, std::pair<std::string, std::string>> NcclConf(
    const std::optional<SystemUser>& user,
    const std::vector<std::string>& environment) {
  if (!user) return ReadNcclConf(environment);
  const AsUser as(&*user);
  return ReadNcclConf(EnvironmentOf(*user, environment));
}

bool MayEnterHere(const SystemUser& user) {
  const AsUser as(&user);
  struct stat here;
  return stat("./.", &here) == 0;
}

v1::Hello MakeHello(const JoinFlags& flags, const JobAddress& address,
                    const std::string& node, const v1::Facts& facts) {
  v1::Hello hello;
  hello.set_job(address.job);
  hello.set_node(node);
  *hello.mutable_token() = address.token;
  hello.set_ranks(RanksHere(flags.local.nproc_per_node, facts));
  hello.set_command_digest(CommandDigest(flags.command));
  *hello.mutable_settings() = flags.settings;
  hello.set_launcher(flags.launcher);
  hello.set_once(flags.local.once);
  hello.set_setting_up(!flags.local.setup.empty());
  hello.set_version(ROLLCALL_VERSION);
  return hello;
}

// Reports to stderr what happens. The reader is a user at this node, or the
// launcher that started this agent and that reports on the run itself.
class Teller {
 public:
  Teller(const JoinFlags& flags, const std::string& node)
      : messages_(STDOUT_FILENO, STDERR_FILENO, flags.live_fd),
        node_(flags.started_by_launcher ? absl::StrCat("[", node, "] ") : ""),
        told_by_launcher_(flags.started_by_launcher),
        // Agents on one machine would all print the same warnings.
        quiet_(flags.started_by_launcher && !flags.launcher && !flags.remote),
        ranks_json_(flags.local.json && !flags.started_by_launcher) {}

  // The number of ranks that attach. Call it before Tell.
  void ExpectAttached(uint32_t ranks) { ranks_ = ranks; }

  void Tell(const Report& report) {
    switch (report.kind) {
      case Report::Kind::kWaiting:
        if (!told_by_launcher_) line_.Show(report.text, "");
        return;
      case Report::Kind::kUnreachable:
        // Only the agent knows this, so a launcher does not report it.
        if (told_by_launcher_) break;
        line_.Show(report.text, "");
        return;
      case Report::Kind::kSocket:
        return TellSocket(report.text);
      case Report::Kind::kState:
        if (told_by_launcher_) return;
        break;
      case Report::Kind::kWarning:
        if (quiet_) return;
        break;
      case Report::Kind::kError:
        break;
    }
    line_.Print(absl::StrCat(node_, report.text));
  }

  // The ranks write above the live line.
  int bell() const { return line_.bell(); }

  void TellEnd(const AgentResult& result) {
    line_.Clear();
    if (result.exit_code == 0) return;
    if (result.end) {
      if (!told_by_launcher_) line_.Print(FailureText(*result.end));
      return;
    }
    line_.Print(absl::StrCat(node_, result.reason));
  }

 private:
  void TellSocket(const std::string& path) {
    if (ranks_json_) {
      const nlohmann::ordered_json json = {{"socket", path}, {"ranks", ranks_}};
      std::printf("%s\n", OneLine(json).c_str());
      std::fflush(stdout);
    }
    line_.Print(absl::StrCat(
        node_, "ranks attach with ROLLCALL_SOCKET=", path, " and LOCAL_RANK=0",
        ranks_ > 1 ? absl::StrCat(" to ", ranks_ - 1) : ""));
  }

  Messages messages_;
  LiveLine line_{messages_, LiveLine::OnTerminal()};
  const std::string node_;
  const bool told_by_launcher_;
  const bool quiet_;
  const bool ranks_json_;
  uint32_t ranks_ = 1;
};

void PrintResult(const AgentResult& result) {
  const nlohmann::ordered_json json = {
      {"exit_code", result.exit_code},
      {"code", result.end ? Word(result.end->code()) : "not_attended"},
      {"reason", result.end ? result.end->reason() : result.reason}};
  std::printf("%s\n", OneLine(json).c_str());
}

}  // namespace

int RunJoinCommand(JoinFlags& flags) {
  if (!flags.started_by_launcher) {
    WarnOfCommandLine(flags.local, flags.command);
  }
  if (absl::Status passed = PassAttempt(); !passed.ok()) return Fail(passed);
  if (absl::Status own = TakeOwnVariables(flags.settings); !own.ok()) {
    return Fail(own);
  }
  const bool subreaper = BecomeSubreaper();
  flags.live_fd = OwnLiveBell(flags.live_fd);
  if (!AwaitStart(flags.start_fd)) return kExitRendezvous;
  if (flags.secret_fd >= 0) {
    absl::StatusOr<std::string> join = TakePassedSecret(flags.secret_fd);
    if (!join.ok()) return Fail(join.status());
    flags.where.given.join.swap(*join);
  }
  auto address = JobToJoin(flags.where, v1::ROLE_WORKER);
  // After this, the daemon's pin and a worker's token are enough.
  flags.where.given.Forget();
  if (!address.ok()) return Fail(address.status());
  auto node = NodeName(flags.local.name);
  if (!node.ok()) return Fail(node.status());
  const auto user = RankUser(flags.local.rank_user);
  if (!user.ok()) return Fail(user.status());
  if (absl::Status there = CheckLibrary(flags.local.nccl_lib); !there.ok()) {
    return Fail(there);
  }

  if (address->job.empty()) {
    return Fail(absl::InvalidArgumentError(
        "this daemon serves many jobs; name one with --job ID"));
  }
  const WrittenFolders folders = FoldersOf(flags);
  AgentOptions options;
  options.facts = FactsOptionsOf(flags.local);
  const auto nccl_conf = NcclConf(*user, options.facts.environment);
  for (const auto& [name, setting] : nccl_conf) {
    options.facts.nccl_conf.push_back(absl::StrCat(name, "=", setting.first));
  }
  // Called while this process has one thread, because folders are read in a
  // copy of it.
  v1::Facts facts = NodeFacts(options.facts, folders);
  const std::vector<SameQuery> same = SameQueries(flags.local);
  for (const SameQuery& query : same) {
    // A relative path may be below a folder with another name.
    const absl::Status good = AdmitPlainText("--same or --shared", query.path,
                                             Limits::same_path_bytes_max);
    if (!good.ok()) return Fail(good);
  }
  const SystemUser* const reader = *user ? &**user : nullptr;
  if (flags.local.setup.empty() || same.empty()) {
    GatherSameFiles(same, reader, options.limits.same_files_time, facts);
  } else {
    auto later =
        LaterSameFiles::Prepare(same, reader, options.limits.same_files_time);
    if (!later.ok()) return Fail(later.status());
    options.later_same_files = *std::move(later);
  }
  if (flags.launcher) {
    if (absl::Status own = CheckSameFiles(facts); !own.ok()) return Fail(own);
  }
  BoundFacts(facts);
  options.hello = MakeHello(flags, *address, *node, facts);
  Teller teller(flags, *node);
  teller.ExpectAttached(options.hello.ranks());
  for (const std::string& warning : StartWarnings(facts, folders)) {
    teller.Tell({Report::Kind::kWarning, warning});
  }
  if (*user && !MayEnterHere(**user)) {
    teller.Tell({Report::Kind::kWarning,
                 absl::StrCat("WARNING: ", UserText(**user),
                              " may not enter the working folder, in which "
                              "ranks start; change to another one first")});
  }
  options.endpoints = address->endpoints;
  options.trust = address->trust;
  options.command = flags.command;
  options.attach = flags.local.attach;
  options.socket = flags.local.socket;
  options.environment = PlainEnvironment();
  options.join_timeout = flags.settings.has_join_timeout()
                             ? FromProto(flags.settings.join_timeout())
                             : options.limits.join_timeout;
  options.hosts_file = flags.local.no_hosts ? "" : flags.local.hosts_file;
  options.hosts_names = flags.local.hosts_names;
  options.rank_user = *user;
  options.setup = flags.local.setup;
  options.setup_retries = flags.local.setup_retries;
  options.log_dir = flags.local.log_dir;
  options.nccl_library = flags.local.nccl_lib;
  options.network = {NcclEnvOf(flags.local.nccl_env), nccl_conf, facts};
  options.output_to_stderr = flags.local.json;
  options.live_bell = flags.started_by_launcher ? flags.live_fd : teller.bell();
  options.subreaper = subreaper;
  options.preempt_signal = flags.local.preempt_signal;
  options.report = [&teller](const Report& report) { teller.Tell(report); };
  PrepareGrpc();
  const AgentResult result = RunAgent(std::move(options));
  teller.TellEnd(result);
  if (flags.local.json && !flags.started_by_launcher) PrintResult(result);
  return result.exit_code;
}

}  // namespace rollcall
