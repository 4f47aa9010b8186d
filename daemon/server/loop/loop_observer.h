// LoopObserver: sees what a loop decides, in its order; for the simulator,
// which holds it against the promises (daemon/core/invariants.h).
//
// It changes nothing. Thread rule: called by the thread that runs Loop::Start,
// and then by the loop's.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_LOOP_OBSERVER_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_LOOP_OBSERVER_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/job/events.h"
#include "daemon/core/job/job.h"
#include "daemon/journal/journal.h"

namespace rollcall {

class LoopObserver {
 public:
  virtual ~LoopObserver() = default;

  // The loop has read its journal and begins. `leads`: see Loop::Options.
  virtual void Begins(JournalStore* journal,
                      const std::function<bool()>& leads) = 0;
  // A run goes on from the journal, and these are its first actions.
  virtual void TookUp(const Job& job, const std::vector<Action>& actions,
                      absl::Time now) = 0;
  virtual void BeforeStep(const Job& job, const Event& event,
                          absl::Time now) = 0;
  virtual void AfterStep(const Job& job, const Event& event, absl::Time now,
                         const std::vector<Action>& actions) = 0;
  // All that the steps so far wanted is in the journal, and is carried out now.
  virtual void Durable() = 0;
  virtual void Sends(const v1::DaemonMessage& message) = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_LOOP_OBSERVER_H_
