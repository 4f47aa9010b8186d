// Failures: why generations of the run have ended, which failure began it, and
// how many restarts are left.
//
// When one rank dies, others fail with it and often report sooner. So a
// generation that failed has a blame window of one lease: a heavier cause (see
// Weight) of the same generation that is heard within it takes the blame. A
// lost node is the heaviest, and costs no restart.
//
// A restart is charged for each failure of a rank, max_restarts at most. A
// generation that made progress gives them back.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Failures {
 public:
  // Of a run that goes on.
  void SetCharged(uint32_t restarts) { charged_ = restarts; }
  uint32_t charged() const { return charged_; }
  // The generation that runs has made progress.
  void GiveBack() { charged_ = 0; }

  // The generation of this world ends because of `cause`, a rank's failure.
  // `permanent`: it would fail again. Returns whether a restart is charged and
  // another generation may be formed.
  bool EndByRank(const v1::World& world, const v1::RootCause& cause,
                 bool permanent, absl::Time now, const Limits& limits);
  // It ends because a node of it was lost.
  void EndByLoss(const v1::World& world, const v1::RootCause& cause,
                 absl::Time now, const Limits& limits);

  // What was heard of the generation that ended last. Where that takes the
  // blame, returns what had it before.
  std::optional<v1::RootCause> TakeRank(const std::string& node,
                                        const v1::RankExited& exited,
                                        absl::Time now);
  std::optional<v1::RootCause> TakeLoss(const std::string& node,
                                        v1::ReasonCode code,
                                        const std::string& reason,
                                        absl::Time now);
  // Whether TakeRank judges what is said of this generation.
  bool IsInWindow(uint64_t generation, absl::Time now) const {
    return window_.has_value() && now <= window_->until &&
           generation == window_->world.generation();
  }

  // Why the last generation failed. Not before one has.
  const v1::RootCause& cause() const { return window_->cause; }
  // When its blame window ends.
  absl::Time window_ends() const { return window_->until; }
  // Of all generations, the latest last; Limits::causes_max at most.
  const std::vector<v1::RootCause>& causes() const { return causes_; }
  // How the job ends because of it.
  v1::End EndOf(const Limits& limits) const;

 private:
  struct Window {
    v1::World world;
    v1::RootCause cause;
    bool charged = false;
    absl::Time until;
  };

  void Open(const v1::World& world, const v1::RootCause& cause, bool charged,
            absl::Time until);
  v1::RootCause Replace(const v1::RootCause& cause);

  uint32_t charged_ = 0;
  std::optional<Window> window_;
  std::vector<v1::RootCause> causes_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_FAILURES_H_
