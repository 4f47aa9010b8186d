// Ending: how a job ended, what each agent is told, and how long the daemon
// waits for agents that have not heard of it.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ENDING_H_
#define ROLLCALL_DAEMON_CORE_JOB_ENDING_H_

#include <optional>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Ending {
 public:
  // The job ends now. `ranks_live`: ranks run that get stop_grace.
  void Begin(v1::End end, bool ranks_live, absl::Time now,
             const Limits& limits);
  // nullopt: the job has not ended.
  const std::optional<v1::End>& end() const { return end_; }
  // A person asks again to stop the job. `now`: ranks get no stop_grace.
  // Returns whether that changes anything: a job that lingers ends, and with
  // `now`, ranks that have stop_grace are killed. Requires that the job has
  // ended.
  bool StopAgain(bool now);

  // What this node's agent is told. Requires that the job has ended.
  // `excluded`: the node is excluded; it gets the job's exit code, as a member
  // does. `world_commit`: of the last world.
  // `knows_all_worlds`: the node was in no world that this daemon has not seen.
  v1::End For(const Node& node, bool excluded,
              const std::optional<v1::WorldCommit>& world_commit,
              bool knows_all_worlds, absl::Time now) const;

  // The job has failed, and agents leave its running ranks alone for a while:
  // until no agent attends (`streams`: some do), or a person asks again to stop
  // the job.
  bool Lingers(bool streams) const {
    return end_.has_value() && end_->has_linger() && !end_->now() && streams;
  }
  // How long agents still leave ranks alone; zero: no longer, or never.
  absl::Duration LingerLeft(absl::Time now) const;
  // Until when agents are waited for: those that attend, or, if none does,
  // those whose streams broke.
  absl::Time WaitsUntil(bool streams) const;
  // Whether the job is forgotten now; true once. `attached`: agents attend or
  // may come back.
  bool Forget(bool attached, bool streams, absl::Time now);
  // When to call Forget; InfiniteFuture: never again.
  absl::Time Due(bool streams) const {
    return forgotten_ ? absl::InfiniteFuture() : WaitsUntil(streams);
  }

 private:
  std::optional<v1::End> end_;
  // Until then agents leave running ranks alone.
  absl::Time lingers_until_ = absl::InfinitePast();
  absl::Time attended_until_ = absl::InfiniteFuture();
  absl::Time redial_until_ = absl::InfiniteFuture();
  bool forgotten_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ENDING_H_
