// Adoption: whether the job may still continue a run that this daemon has no
// memory of, and which agents wait for that decision.
//
// A daemon whose journal is lost has a new run for a job. Agents that come back
// from the old run claim their world (see Claims). Their streams wait until
// over half of that world's members are back, or until reattach_grace is over.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_ADOPTION_ADOPTION_H_
#define ROLLCALL_DAEMON_CORE_ADOPTION_ADOPTION_H_

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/adoption/claims.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Adoption {
 public:
  // The daemon has no memory of the job and has a shared secret.
  void Allow() { possible_ = true; }
  // Adoption is no longer possible: the job has a world, or has ended, or too
  // few agents came in time.
  void Forgo() { possible_ = false; }
  bool possible() const { return possible_; }

  // An agent of another run attends.
  enum class Answer {
    kNone,  // No run is adopted, or the agent has no proof that it was in one.
    kRedial,  // A run may be adopted, but the agent proves no world of it; for
              // example a spare.
    kKept,    // Its stream waits.
  };
  struct Taken {
    Answer answer = Answer::kNone;
    // An earlier stream of the same agent. It does not wait any more.
    std::optional<SessionId> older;
  };
  Taken Take(const Attend& attend, const v1::JobSettings& settings,
             absl::Time now, const Limits& limits);
  // The stream has ended.
  void Drop(SessionId session);
  // The world to adopt; nullptr: none yet. `time_is_over`: do not wait for
  // further claims. Valid until the next non-const call.
  const Claims::Claimed* Chosen(bool time_is_over) const {
    return claims_.Chosen(time_is_over);
  }
  // Returns the waiting agents in the order of their arrival, without their
  // worlds, and forgets them.
  std::vector<Attend> TakeAll();

  // Whether agents wait.
  bool waiting() const { return !claimants_.empty(); }
  // Until when the daemon waits for agents. The wait begins with the first
  // agent that shows a credential, and is not extended. InfiniteFuture: none
  // has come.
  absl::Time until() const { return until_; }
  // The time is over, or there is nothing to wait for.
  void End() { until_ = absl::InfiniteFuture(); }
  // The daemon itself was delayed by this time.
  void PutOff(absl::Duration late) { until_ += late; }

  void CheckInvariants() const;

 private:
  bool possible_ = false;
  Claims claims_;
  std::map<SessionId, Attend> claimants_;
  absl::Time until_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADOPTION_ADOPTION_H_
