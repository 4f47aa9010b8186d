// LastSteps: the last step of a job's runs, from the events of the job.
//
// It outlives a run, so that the next run of the job (after a requeue, for
// example) can be compared with it. The name of a run that has finished is free
// for another training, so its step is forgotten.
//
// A value, pure. Thread rule: one thread at a time. Events may come from a file
// that was changed by hand; a step that is no number is ignored.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_LAST_STEPS_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_LAST_STEPS_H_

#include <string>

#include "daemon/core/failures/progress.h"
#include "daemon/server/events/log_line.h"

namespace rollcall {

class LastSteps {
 public:
  // One event of the job (see log_line.h), in order. `run`: empty: not known.
  void Take(const std::string& run, const LogFields& event);

  const LastStep& last() const { return last_; }

 private:
  LastStep last_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_LAST_STEPS_H_
