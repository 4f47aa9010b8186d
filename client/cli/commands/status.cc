// `rollcall status`: a job's state, once or at each change.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <variant>

#include "absl/time/clock.h"
#include "client/admin/admin_client.h"
#include "client/admin/event_text.h"
#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/cli/watch_patience.h"
#include "client/cli/watch_view.h"
#include "daemon/base/counted.h"
#include "daemon/base/mutex.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// False: the output cannot be written; Main reports the reason.
bool Show(const v1::JobStatus& status, bool json) {
  if (json) {
    std::printf("%s\n", OneLine(StatusJson(status)).c_str());
  } else {
    std::fputs(StatusTable(status).c_str(), stdout);
  }
  return std::fflush(stdout) == 0;
}

// Holds the latest state and the end of a watch until they are read. A slow
// reader misses states.
class Told {
 public:
  void Put(v1::JobStatus status) {
    MutexLock lock(mutex_);
    latest_ = std::move(status);
    changed_.NotifyOne();
  }
  void End(absl::Status end) {
    MutexLock lock(mutex_);
    end_ = std::move(end);
    changed_.NotifyOne();
  }
  // Blocks until there is a state or the end. A state is returned before the
  // end.
  std::variant<v1::JobStatus, absl::Status> Take() {
    MutexLock lock(mutex_);
    while (!latest_.has_value() && !end_.has_value()) changed_.Wait(mutex_);
    if (!latest_.has_value()) return *end_;
    v1::JobStatus status = *std::move(latest_);
    latest_.reset();
    return status;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<v1::JobStatus> latest_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// Watches once and returns how the watch ended; OK also if the output cannot be
// written. `heard`: set if a state arrived.
absl::Status WatchOnce(const std::string& endpoint, const JobAddress& address,
                       bool json, bool& heard) {
  Told told;
  JobWatch watch(
      endpoint, address,
      [&](v1::JobStatus status) { told.Put(std::move(status)); },
      [&](absl::Status end) { told.End(std::move(end)); });
  for (;;) {
    const std::variant<v1::JobStatus, absl::Status> next = told.Take();
    if (const auto* end = std::get_if<absl::Status>(&next)) return *end;
    heard = true;
    if (!Show(std::get<v1::JobStatus>(next), json)) return absl::OkStatus();
  }
}

// The pause between two attempts. No event tells when a daemon answers again.
void Pause(absl::Duration pause) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(mutex);
  never.WaitFor(mutex, pause);
}

// Repeats the watch, which ends when a daemon restarts or is replaced, or when
// it closes a viewer's connection after some megabytes.
int Watch(AdminClient& client, const JobAddress& address, bool json) {
  absl::Time last_heard = absl::Now();
  absl::Duration pause = kWatchPauseFirst;
  for (;;) {
    bool heard = false;
    const absl::Status end = WatchOnce(client.endpoint(), address, json, heard);
    if (end.ok()) return 0;
    if (heard) {
      last_heard = absl::Now();
      pause = kWatchPauseFirst;
    }
    if (!absl::IsUnavailable(end) ||
        absl::Now() - last_heard > kWatchPatience) {
      return FailAt(address, end);
    }
    Pause(pause);
    pause = std::min(2 * pause, kWatchPauseMax);
    // Finds the endpoint that answers now. An error is ignored: the next watch
    // reports it.
    client.Status(kCallTimeout).status().IgnoreError();
  }
}

int ShowEvents(AdminClient& client, const JobAddress& address,
               const StatusFlags& flags) {
  const auto events = client.Events(kCallTimeout, flags.since);
  if (!events.ok()) return FailAt(address, events.status());
  for (const std::string& line : events->lines()) {
    std::printf("%s\n", (flags.json ? line : EventText(line)).c_str());
  }
  std::fflush(stdout);
  if (events->lost() > 0) {
    std::fprintf(stderr,
                 "rollcall: %s could not be written to the daemon's "
                 "events.jsonl; check free space and permissions there\n",
                 Counted(events->lost(), "event").c_str());
  }
  return 0;
}

}  // namespace

int RunStatusCommand(const StatusFlags& flags) {
  auto address = JobToSee(flags.where, v1::ROLE_VIEWER);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  AdminClient client(*address);
  if (flags.events) return ShowEvents(client, *address, flags);
  auto status = client.Status(kCallTimeout, flags.pings);
  if (!status.ok()) return FailAt(*address, status.status());
  if (flags.watch && !flags.json && CanWatchOnScreen()) {
    return WatchOnScreen(client, *address, *std::move(status));
  }
  if (flags.watch) return Watch(client, *address, flags.json);
  Show(*status, flags.json);
  return 0;
}

}  // namespace rollcall
