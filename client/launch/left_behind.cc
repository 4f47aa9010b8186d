#include "client/launch/left_behind.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/facts/system.h"
#include "client/launch/kept_run.h"
#include "client/launch/launch_folder.h"

namespace rollcall {
namespace {

// A daemon that nothing but `daemon.json` tells of.
absl::Status NoUnknownDaemon(const std::string& folder) {
  const auto running = ReadRunningJob(folder);
  if (!running.ok() || !IsLivingDaemon(running->daemon_pid)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", running->job, " still runs: its daemon is process ",
      running->daemon_pid, ", and ", folder, kLaunchFile,
      ", by which it could be taken back, is not there; end it with `rollcall "
      "stop --state ",
      folder, "`, or give this one another --state"));
}

absl::Status FindProcesses(const LaunchRecord& record, Found& found) {
  auto daemon = KnownProcess::Find(record.daemon);
  if (daemon.ok()) {
    found.left.daemon_lives = true;
    found.daemon = *std::move(daemon);
  } else if (!absl::IsNotFound(daemon.status())) {
    return daemon.status();
  }
  for (const AgentRecord& agent : record.agents) {
    auto process = KnownProcess::Find(agent.process);
    if (process.ok()) {
      found.left.living_agents.push_back(agent.name);
      found.agents.insert_or_assign(agent.name, *std::move(process));
    } else if (!absl::IsNotFound(process.status())) {
      return process.status();
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Found> LookAround(const std::string& folder) {
  Found found;
  found.left.folder = folder;
  auto record = ReadLaunchRecord(folder);
  if (absl::IsNotFound(record.status())) {
    if (absl::Status s = NoUnknownDaemon(folder); !s.ok()) return s;
    return found;
  }
  if (!record.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        record.status().message(),
        "; end what may still run with `rollcall stop --state ", folder,
        "` and remove that file, or give this launcher another --state"));
  }
  found.left.rebooted = record->boot_id != BootId();
  if (!found.left.rebooted) {
    if (absl::Status s = FindProcesses(*record, found); !s.ok()) return s;
  }
  if (!found.left.daemon_lives) {
    auto run = ReadKeptRun(folder, record->terms.job);
    if (!run.ok()) return run.status();
    if (run->has_value()) {
      found.left.run = (*run)->end.has_value() ? LeftBehind::Run::kEnded
                                               : LeftBehind::Run::kUnfinished;
    }
  }
  found.left.record = *std::move(record);
  return found;
}

}  // namespace rollcall
