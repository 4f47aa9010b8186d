// LoopObserver: receives the decisions of a loop in their order. The simulator
// uses it to check the invariants (daemon/core/invariants.h), and the server to
// write spans (daemon/server/trace). An observer overrides the functions that
// it needs.
//
// It changes nothing. Thread rule: called by the thread that runs Loop::Start,
// and then by the loop's thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OBSERVER_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OBSERVER_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/job/job.h"
#include "daemon/journal/journal.h"

namespace rollcall {

class LoopObserver {
 public:
  virtual ~LoopObserver() = default;

  // The loop has read its journal and starts. `leads`: see LoopOptions.
  virtual void Begins(JournalStore* /*journal*/,
                      const std::function<bool()>& /*leads*/) {}
  // A run continues from the journal, and these are its first actions.
  virtual void TookUp(const Job& /*job*/,
                      const std::vector<Action>& /*actions*/,
                      absl::Time /*now*/) {}
  virtual void BeforeStep(const Job& /*job*/, const Event& /*event*/,
                          absl::Time /*now*/) {}
  virtual void AfterStep(const Job& /*job*/, const Event& /*event*/,
                         absl::Time /*now*/,
                         const std::vector<Action>& /*actions*/) {}
  // All journal entries of the steps so far are durable, and their other
  // actions are carried out now.
  virtual void Durable() {}
  virtual void Sends(const v1::DaemonMessage& /*message*/) {}
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OBSERVER_H_
