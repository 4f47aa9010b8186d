// Ending: how a job ended, what each agent is told, and how long the daemon
// waits for agents that do not know of the end yet.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_ENDING_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_ENDING_H_

#include <optional>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Ending {
 public:
  // The job ends now. `stops`: ranks or set-up commands still run, and they get
  // stop_grace.
  void Begin(v1::End end, bool stops, absl::Time now, const Limits& limits);
  // nullopt: the job has not ended.
  const std::optional<v1::End>& end() const { return end_; }
  // A person asks again to stop the job. `now`: ranks get no stop_grace.
  // Returns whether that changes anything: a job that lingers ends, and with
  // `now`, ranks that have stop_grace are killed. Requires that the job has
  // ended.
  bool StopAgain(bool now);

  // The End that is sent to this node's agent. Requires that the job has ended.
  // `excluded`: the node is excluded; it gets the job's exit code, as a member
  // does. `world_commit`: that of the last world. `knows_all_worlds`: the node
  // was in no world that this daemon has not seen.
  v1::End For(const Node& node, bool excluded,
              const std::optional<v1::WorldCommit>& world_commit,
              bool knows_all_worlds, absl::Time now) const;

  // The job has failed, and agents leave its running ranks alone for a while.
  // That is over when no agent attends (`streams`: some do) or when a person
  // asks again to stop the job.
  bool Lingers(bool streams) const {
    return end_.has_value() && end_->has_linger() && !end_->now() && streams;
  }
  // How long agents still leave ranks alone; zero: they do not, or no longer
  // do.
  absl::Duration LingerLeft(absl::Time now) const;
  // Until when the daemon waits: for attended agents or, if there are none, for
  // agents whose streams broke.
  absl::Time WaitsUntil(bool streams) const;
  // Whether the job must be forgotten now; true only once. `attached`: agents
  // attend or may come back.
  bool Forget(bool attached, bool streams, absl::Time now);
  // When to call Forget; InfiniteFuture: never again.
  absl::Time Due(bool streams) const {
    return forgotten_ ? absl::InfiniteFuture() : WaitsUntil(streams);
  }

 private:
  std::optional<v1::End> end_;
  // Until this time agents leave running ranks alone.
  absl::Time lingers_until_ = absl::InfinitePast();
  absl::Time attended_until_ = absl::InfiniteFuture();
  absl::Time redial_until_ = absl::InfiniteFuture();
  bool forgotten_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_ENDING_H_
