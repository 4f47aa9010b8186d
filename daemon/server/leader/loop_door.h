// LoopDoor: what the services post to: the loop that is in force, or, while
// there is none, an answer that says why.
//
// A daemon of its own has one loop from start to end; one of several has a loop
// while it leads, and another one the next time.
//
// Thread rule: any thread. Never calls out under its lock.
#ifndef ROLLCALL_DAEMON_SERVER_LEADER_LOOP_DOOR_H_
#define ROLLCALL_DAEMON_SERVER_LEADER_LOOP_DOOR_H_

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/server/loop/loop.h"

namespace rollcall {

class LoopDoor {
 public:
  // As Inbox has them. While it is shut, what is posted counts as taken: it is
  // answered at once where somebody waits for an answer, and dropped otherwise.
  bool Post(LoopInput input);
  void PostAlways(LoopInput input);

  // From now on all goes to this one, which must be shut out before it ends.
  void Open(Inbox<LoopInput>& inbox);
  // From now on all is answered so; nothing is posted any more once it is back.
  void Shut(absl::Status why);

 private:
  Mutex mutex_;
  Inbox<LoopInput>* inbox_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status why_ ABSL_GUARDED_BY(mutex_) =
      absl::UnavailableError("the daemon is starting; dial again");
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LEADER_LOOP_DOOR_H_
