#include "daemon/server/loop/state/loop_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"

namespace rollcall {
namespace {

uint64_t CountOf(const v1::UnauthenticatedCounts& unauthenticated) {
  return unauthenticated.silent() + unauthenticated.garbage() +
         unauthenticated.crowded() + unauthenticated.unknown() +
         unauthenticated.hung_up();
}

}  // namespace

LoopState::LoopState(LoopOptions given, JournalStore* store, Logger& log)
    : options(std::move(given)),
      journal(store),
      logger(log),
      inbox(Limits::inbox_events_max, *options.machine),
      access({options.credential_key, options.proof_key}, options.tokens,
             options.keep_token, journal, logger, *options.machine),
      log_quota(options.limits.log),
      jobs(options.limits, options.only_job, options.only_settings,
           {options.credential_key, options.proof_key}, journal, logger,
           *options.machine, options.random),
      watches(
          jobs, options.limits.watcher_patience,
          [this](v1::JobStatus status) {
            return WithCounters(std::move(status));
          },
          [this] { return FailedConnections(); }),
      snapshots([this](const std::string& job, bool pings) {
        return FullStatus(job, pings);
      }),
      sessions(options.limits, logger) {}

void LoopState::Later(absl::Duration wait, std::function<void()> what) {
  const absl::Time now = Now();
  delayed.Add(now, now + wait, std::move(what));
}

void LoopState::Known(const Caller& caller) {
  if (!options.known || caller.peer.empty()) return;
  options.known(caller.peer, caller.admin ? "" : caller.token.id());
}

void LoopState::TellSuppressed(absl::Time now) {
  for (const LogQuota::Suppressed& of : log_quota.Due(now)) {
    logger.Write(
        Log::Level::kWarning,
        absl::StrCat("event=suppressed address=",
                     of.address.empty() ? "others" : of.address,
                     " lines=", of.lines,
                     " reason=\"messages from there caused too many lines\""));
  }
}

uint64_t LoopState::FailedConnections() const {
  if (!options.unauthenticated) return 0;
  return CountOf(options.unauthenticated());
}

v1::JobStatus LoopState::WithCounters(v1::JobStatus status) const {
  for (const auto& [code, count] : access.refused()) {
    (*status.mutable_refused())[code] = count;
  }
  if (options.unauthenticated)
    *status.mutable_unauthenticated() = options.unauthenticated();
  if (options.events != nullptr && !status.job().empty()) {
    auto summary =
        options.events->Summary(status.job(), status.run(), WallNow());
    if (summary.has_value()) *status.mutable_summary() = *std::move(summary);
  }
  ToProto(WallNow(), status.mutable_written_at());
  return status;
}

absl::StatusOr<v1::JobStatus> LoopState::FullStatus(const std::string& job,
                                                    bool pings) const {
  absl::StatusOr<v1::JobStatus> status = jobs.Status(job, Now());
  if (!status.ok()) return status;
  const auto live = jobs.live().find(job);
  if (pings && live != jobs.live().end()) {
    *status->mutable_pings() = live->second.job.Pings(Now());
  }
  return WithCounters(*std::move(status));
}

}  // namespace rollcall
