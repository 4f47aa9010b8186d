// `rollcall doctor`: what is wrong with this node, before a run finds out.
#include "client/doctor/doctor.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/agent/hosts_resolver.h"
#include "client/agent/node_trials.h"
#include "client/cli/commands.h"
#include "client/cli/place.h"
#include "client/doctor/doctor_text.h"
#include "client/doctor/observe.h"
#include "client/facts/facts.h"
#include "client/facts/system.h"
#include "client/launch/admin_client.h"
#include "client/launch/job_text.h"
#include "daemon/core/durations.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// Of the two seconds that the doctor may take.
constexpr absl::Duration kResolverPatience = absl::Milliseconds(500);
// For each of the daemon's endpoints, and only where a daemon was named.
constexpr absl::Duration kDaemonPatience = absl::Seconds(2);

OwnName LookUpOwnName(const std::string &hostname) {
  OwnName own;
  own.name = hostname;
  const NameQuestion question{absl::AsciiStrToLower(hostname), false};
  const std::map<std::string, NameAnswer> answers =
      SystemResolver().Ask({question}, kResolverPatience);
  const auto answer = answers.find(question.name);
  if (answer == answers.end())
    return own;
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

// Where an agent would make its folder: as RunFolder::Make chooses it.
Trial TryRunFolder() {
  const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
  Trial trial;
  for (const std::string &parent :
       {std::string(runtime_dir == nullptr ? "" : runtime_dir),
        std::string("/tmp")}) {
    if (parent.empty())
      continue;
    trial = TryFolder("run-folder",
                      absl::StrCat(parent, "/rollcall-doctor-", getpid()),
                      Severity::kFatal, MadeFolders::kGo);
    trial.subject = parent;
    if (trial.error.empty())
      break;
  }
  return trial;
}

// A bare `rollcall doctor` asks no daemon: a job that it would find itself runs
// on this machine, by the same clock.
bool NamesDaemon(const WhereFlags &where) {
  return !where.join_string.empty() || !where.endpoint.empty() ||
         !where.job.empty() || !where.state.empty() ||
         !where.given.join.empty();
}

// Unset: the daemon answers, and does not know the job yet.
std::optional<DaemonClock> AskClock(const JobAddress &address) {
  PrepareGrpc();
  AdminClient client(address);
  // Finds the endpoint that answers, so that the second call dials that one.
  absl::StatusOr<v1::JobStatus> status = client.Status(kDaemonPatience);
  const absl::Time asked = absl::Now();
  if (status.ok())
    status = client.Status(kDaemonPatience);
  const absl::Time answered = absl::Now();
  if (absl::IsNotFound(status.status()))
    return std::nullopt;
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

} // namespace

int RunDoctorCommand(const DoctorFlags &flags) {
  std::optional<JobAddress> daemon;
  if (NamesDaemon(flags.where)) {
    absl::StatusOr<JobAddress> address = JobToSee(flags.where, v1::ROLE_VIEWER);
    if (!address.ok())
      return Fail(address.status());
    daemon = *std::move(address);
  }
  NodeFactsOptions gather;
  gather.environment = PlainEnvironment();
  v1::Facts facts = GatherNodeFacts(gather);
  DoctorOptions options;
  options.may_lock_memory = MayLockMemory();
  if (!facts.hostname().empty()) {
    options.own_name = LookUpOwnName(facts.hostname());
  }
  options.trials = {TryProcess(), TryRunFolder()};
  for (const std::string &given : flags.folders) {
    const std::string folder = AbsolutePath(given);
    options.trials.push_back(
        TryFolder("folder", folder, Severity::kFatal, MadeFolders::kGo));
    AddFolder(folder, facts);
  }
  // Last, since gRPC's threads do not go with a process that is copied.
  if (daemon.has_value())
    options.clock = AskClock(*daemon);
  const std::vector<Finding> findings = Diagnose(facts, options);
  if (flags.json) {
    std::printf("%s\n",
                OneLine(DoctorJson(facts.hostname(), findings)).c_str());
  } else {
    std::fputs(DoctorTable(findings, flags.all).c_str(), stdout);
  }
  return ExitCode(Worst(findings));
}

} // namespace rollcall
