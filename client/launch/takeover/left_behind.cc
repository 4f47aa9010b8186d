#include "client/launch/takeover/left_behind.h"

#include <unistd.h>

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/facts/system/system.h"
#include "client/launch/takeover/kept_run.h"

namespace rollcall {
namespace {

// Fails if a daemon runs that is known only from `daemon.json`.
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

LaunchPlace ThisPlace(const LaunchFolder& held) {
  LaunchPlace place;
  place.boot_id = BootId();
  place.process_one = getpid() == 1;
  std::tie(place.lock_device, place.lock_inode) = held.lock_file();
  return place;
}

absl::StatusOr<Found> LookAround(const LaunchFolder& held) {
  const std::string& folder = held.path();
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
  found.left.ended = EndOf(record->place, ThisPlace(held));
  // If all processes have ended, the recorded pids may belong to other
  // processes.
  if (found.left.ended == LaunchEnd::kUnknown) {
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
