// Failures: why generations of the run have ended, which failure was the root
// cause, and how many restarts are left.
//
// When one rank dies, others fail because of it and often report first. So a
// generation that failed has a blame window of one lease. If a heavier cause
// (see Weight) of the same generation is reported in the window, it becomes the
// root cause. A lost node is the heaviest cause, and costs no restart.
//
// Each failure of a rank charges one restart, up to max_restarts. A generation
// that made progress sets the count back to 0.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/failures/reasons.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Failures {
 public:
  // For a run that continues: the restarts that were already charged.
  void SetCharged(uint32_t restarts) { charged_ = restarts; }
  uint32_t charged() const { return charged_; }
  // The running generation has made progress.
  void GiveBack() { charged_ = 0; }

  // The generation of this world ends because of `cause`, a rank's failure.
  // `permanent`: the rank would fail again. Returns whether a restart was
  // charged and another generation may be formed.
  bool EndByRank(const v1::World& world, const v1::RootCause& cause,
                 bool permanent, absl::Time now, const Limits& limits);
  // The generation ends because one of its nodes was lost.
  void EndByLoss(const v1::World& world, const v1::RootCause& cause,
                 absl::Time now, const Limits& limits);

  // The job fails before its first world because of `cause`.
  void EndBeforeFirst(const v1::RootCause& cause) { causes_ = {cause}; }

  // A further failure in the generation that ended last. If this failure
  // becomes the root cause, returns the former root cause.
  std::optional<v1::RootCause> TakeRank(const std::string& node,
                                        const v1::RankExited& exited,
                                        absl::Time now);
  std::optional<v1::RootCause> TakeLoss(const std::string& node,
                                        v1::ReasonCode code,
                                        const std::string& reason,
                                        absl::Time now);
  // When the failure of the root cause was reported, if a change at this node
  // still belongs to it: the node is the root cause's, and the blame window is
  // open. nullopt: it does not.
  std::optional<absl::Time> TakesChangesOf(const std::string& node,
                                           absl::Time now) const;
  // What changed at the node of the root cause. Requires that a generation has
  // failed.
  void SetNodeChanges(const std::string& changes) {
    window_->cause.set_node_changes(changes);
    causes_.back().set_node_changes(changes);
  }
  // Whether TakeRank still accepts failures of this generation.
  bool IsInWindow(uint64_t generation, absl::Time now) const {
    return window_.has_value() && now <= window_->until &&
           generation == window_->world.generation();
  }

  // Why the current generation was formed, and why the next one will be.
  Reasons& reasons() { return reasons_; }
  const Reasons& reasons() const { return reasons_; }
  // The root cause of the last failed generation. Requires that one has failed.
  const v1::RootCause& cause() const { return window_->cause; }
  // When the blame window of that generation ends. Requires that one has
  // failed.
  absl::Time window_ends() const { return window_->until; }
  // The job fails unless another cause is found. This many members were asked
  // to stop.
  void AwaitStops(size_t members) { unstopped_ = members; }
  // One of these members has stopped or is lost.
  void NoteStopped() { --unstopped_; }
  // Whether all of these members have stopped, or the blame window has ended.
  // Requires that a generation has failed.
  bool WindowIsOver(absl::Time now) const {
    return unstopped_ == 0 || now >= window_->until;
  }
  // The causes of all generations, latest last; at most Limits::causes_max.
  const std::vector<v1::RootCause>& causes() const { return causes_; }
  // The job's end because of this cause.
  v1::End EndOf(const Limits& limits) const;

 private:
  struct Window {
    v1::World world;
    v1::RootCause cause;
    // When this cause was reported.
    absl::Time at;
    bool charged = false;
    absl::Time until;
  };

  void Open(const v1::World& world, const v1::RootCause& cause, bool charged,
            absl::Time now, const Limits& limits);
  v1::RootCause Replace(const v1::RootCause& cause, absl::Time now);

  uint32_t charged_ = 0;
  std::optional<Window> window_;
  Reasons reasons_{v1::REASON_CODE_FIRST, "the first world"};
  size_t unstopped_ = 0;
  std::vector<v1::RootCause> causes_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_
