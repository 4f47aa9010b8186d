// CurrentLoop: the services post their inputs here. It passes them to the
// current loop, or answers them with an error if there is no loop.
//
// A daemon with its own state has one loop from start to end. A daemon that
// shares its state with others has a loop while it leads, and a new loop each
// time it leads again.
//
// Thread rule: any thread. Never calls out under its lock.
#ifndef ROLLCALL_DAEMON_SERVER_LEADER_CURRENT_LOOP_H_
#define ROLLCALL_DAEMON_SERVER_LEADER_CURRENT_LOOP_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/server/loop/loop.h"

namespace rollcall {

class CurrentLoop {
 public:
  // `changed`: called after each Open (true) and Shut (false), on the caller's
  // thread; may be empty.
  explicit CurrentLoop(std::function<void(bool open)> changed = {})
      : changed_(std::move(changed)) {}

  // As in Inbox. While there is no loop, inputs count as taken: those with a
  // waiting caller are answered at once, the others are dropped.
  bool Post(LoopInput input);
  void PostAlways(LoopInput input);

  // From now on inputs go to `inbox`. Call Shut before `inbox` is destroyed.
  void Open(Inbox<LoopInput>& inbox);
  // From now on inputs are answered with `why`. After Shut has returned,
  // nothing more is posted to the inbox.
  void Shut(absl::Status why);

 private:
  const std::function<void(bool open)> changed_;
  Mutex mutex_;
  Inbox<LoopInput>* inbox_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status why_ ABSL_GUARDED_BY(mutex_) =
      absl::UnavailableError("the daemon is starting; dial again");
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LEADER_CURRENT_LOOP_H_
