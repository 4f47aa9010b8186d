// `rollcall doctor`: finds problems of this node before a run does.
#include "client/doctor/doctor.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/admin/admin_client.h"
#include "client/admin/job_text.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/agent/hosts/hosts_resolver.h"
#include "client/agent/node_trials.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/doctor/doctor_text.h"
#include "client/facts/facts.h"
#include "client/facts/isolated_query.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/system.h"
#include "daemon/base/durations.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// The time for facts, out of the doctor's two seconds. Folders are checked in
// the rest of that time; if nothing hangs, facts take little of it.
constexpr absl::Duration kFactsPatience = absl::Milliseconds(1200);
constexpr absl::Duration kTrialsMin = absl::Milliseconds(300);
constexpr absl::Duration kResolverPatience = absl::Milliseconds(500);
// For each of the daemon's endpoints; used only if a daemon was named.
constexpr absl::Duration kDaemonPatience = absl::Seconds(2);

OwnName LookUpOwnName(const std::string& hostname) {
  OwnName own;
  own.name = hostname;
  const NameQuestion question{absl::AsciiStrToLower(hostname), false};
  const std::map<std::string, NameAnswer> answers =
      SystemResolver().Ask({question}, kResolverPatience);
  const auto answer = answers.find(question.name);
  if (answer == answers.end()) return own;
  switch (answer->second.kind) {
    case NameAnswer::Kind::kUnclear:
      break;
    case NameAnswer::Kind::kNotFound:
      own.kind = OwnName::Kind::kNotFound;
      break;
    case NameAnswer::Kind::kFound:
      own.kind = OwnName::Kind::kFound;
      own.addresses.assign(answer->second.addresses.begin(),
                           answer->second.addresses.end());
      break;
  }
  return own;
}

// Checks all folders at the same time, each in a copy of this process, because
// a file system may not answer.
std::vector<Trial> TryFolders(const std::string& check,
                              const std::vector<std::string>& folders,
                              absl::Duration patience) {
  std::vector<IsolatedQuery> queries;
  for (const std::string& folder : folders) {
    queries.push_back({[&check, &folder](const IsolatedQuery::Report&) {
      const Trial trial = TryFolder(check, folder, Severity::kFatal);
      v1::Facts told;
      if (!trial.error.empty()) AddMissing(told, check, trial.error, "");
      return told;
    }});
  }
  const std::vector<IsolatedAnswer> answers = AskIsolated(queries, patience);
  std::vector<Trial> trials;
  for (size_t i = 0; i < folders.size(); ++i) {
    Trial trial = FolderTrial(check, folders[i], Severity::kFatal);
    if (!answers[i].failure.empty()) {
      trial.error = absl::StrCat(folders[i], ": ", answers[i].failure);
      // A slow file system may answer a later check, so this is retryable.
      trial.severity = Severity::kRetryable;
    } else if (!answers[i].facts.missing().empty()) {
      trial.error = answers[i].facts.missing(0).reason();
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

// Tests the folder in which an agent would make its own folder (RunFolder::Make
// chooses the same one).
Trial TryRunFolder(absl::Duration patience) {
  const char* runtime_dir = getenv("XDG_RUNTIME_DIR");
  std::vector<std::string> parents = {"/tmp"};
  if (runtime_dir != nullptr && *runtime_dir != '\0') {
    parents.insert(parents.begin(), runtime_dir);
  }
  std::vector<std::string> folders;
  for (const std::string& parent : parents) {
    folders.push_back(absl::StrCat(parent, "/rollcall-doctor-", getpid()));
  }
  std::vector<Trial> trials = TryFolders("run-folder", folders, patience);
  size_t chosen = 0;
  while (chosen + 1 < trials.size() && !trials[chosen].error.empty()) ++chosen;
  trials[chosen].subject = parents[chosen];
  return trials[chosen];
}

// Tests whether a dead agent has left its block in the hosts file (after a
// power cut, for example).
Trial LookAtHostsFile() {
  Trial trial;
  trial.check = "hosts-file";
  trial.subject = "/etc/hosts";
  trial.severity = Severity::kWarning;
  trial.expected = "only blocks of agents that live";
  trial.why =
      "Its names lead to the addresses of a run that is over; other programs "
      "here find them first.";
  const std::vector<HostsBlock> dead = HostsFile(trial.subject).DeadBlocks();
  if (dead.empty()) return trial;
  std::vector<std::string> jobs;
  for (const HostsBlock& block : dead) {
    jobs.push_back(absl::StrCat("job ", block.job, ", run ", block.run,
                                ", generation ", block.generation));
  }
  trial.error = absl::StrCat("a block of agents that have died (",
                             absl::StrJoin(jobs, "; "), ")");
  trial.mend = absl::StrCat(
      "The next agent that may write the file takes it out; or remove the "
      "lines from `# rollcall begin job=",
      dead[0].job, "` to `# rollcall end job=", dead[0].job, "`.");
  return trial;
}

// Whether the flags or the environment name a daemon. A daemon found in this
// machine's state folders would have the same clock, so it is not asked.
bool NamesDaemon(const WhereFlags& where) {
  return !where.join_string.empty() || !where.endpoint.empty() ||
         !where.job.empty() || !where.state.empty() ||
         !where.given.join.empty();
}

// nullopt: the daemon answers but does not know the job yet.
std::optional<DaemonClock> AskClock(const JobAddress& address) {
  PrepareGrpc();
  AdminClient client(address);
  // The first call finds the endpoint that answers; the second call dials it
  // first.
  absl::StatusOr<v1::JobStatus> status = client.Status(kDaemonPatience);
  const absl::Time asked = absl::Now();
  if (status.ok()) status = client.Status(kDaemonPatience);
  const absl::Time answered = absl::Now();
  if (absl::IsNotFound(status.status())) return std::nullopt;
  DaemonClock clock;
  if (!status.ok()) {
    clock.unknown_reason = absl::StrCat("the daemon was asked for its time: ",
                                        status.status().message());
  } else if (!status->has_written_at()) {
    clock.unknown_reason =
        "the daemon does not tell its time; it is an older version";
  } else {
    clock = CompareClocks(asked, FromProto(status->written_at()), answered);
  }
  return clock;
}

}  // namespace

int RunDoctorCommand(const DoctorFlags& flags) {
  std::optional<JobAddress> daemon;
  if (NamesDaemon(flags.where)) {
    absl::StatusOr<JobAddress> address = JobToSee(flags.where, v1::ROLE_VIEWER);
    if (!address.ok()) return Fail(address.status());
    daemon = *std::move(address);
  }
  std::vector<std::string> folders;
  for (const std::string& given : flags.folders) {
    const std::string folder = AbsolutePath(given);
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(folder);
    }
  }
  const absl::Time start = absl::Now();
  NodeFactsOptions gather;
  gather.environment = PlainEnvironment();
  gather.devices.folders = folders;
  gather.devices.timeout = kFactsPatience;
  const v1::Facts facts = GatherNodeFacts(gather);
  DoctorOptions options;
  options.may_lock_memory = MayLockMemory();
  const auto left = [&start] {
    return std::max(kTrialsMin, start + kFactsPatience - absl::Now());
  };
  options.trials = {TryProcess(), TryRunFolder(left()), LookAtHostsFile()};
  for (Trial& trial : TryFolders("folder", folders, left())) {
    options.trials.push_back(std::move(trial));
  }
  // The resolver starts threads, so it is called only after all copies of this
  // process were made.
  if (!facts.hostname().empty()) {
    options.own_name = LookUpOwnName(facts.hostname());
  }
  // Comes last, because gRPC's threads do not exist in a copied process.
  if (daemon.has_value()) options.clock = AskClock(*daemon);
  const std::vector<Finding> findings = Diagnose(facts, options);
  if (flags.json) {
    std::printf("%s\n",
                OneLine(DoctorJson(facts.hostname(), findings)).c_str());
  } else {
    std::fputs(DoctorTable(findings, flags.all).c_str(), stdout);
  }
  return ExitCode(Worst(findings));
}

}  // namespace rollcall
