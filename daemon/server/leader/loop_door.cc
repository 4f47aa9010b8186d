#include "daemon/server/leader/loop_door.h"

#include <utility>

namespace rollcall {

bool LoopDoor::Post(LoopInput input) {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (inbox_ != nullptr) return inbox_->Post(std::move(input));
    why = why_;
  }
  Decline(input, why);
  return true;
}

void LoopDoor::PostAlways(LoopInput input) {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (inbox_ != nullptr) return inbox_->PostAlways(std::move(input));
    why = why_;
  }
  Decline(input, why);
}

void LoopDoor::Open(Inbox<LoopInput>& inbox) {
  MutexLock lock(mutex_);
  inbox_ = &inbox;
}

void LoopDoor::Shut(absl::Status why) {
  MutexLock lock(mutex_);
  inbox_ = nullptr;
  why_ = std::move(why);
}

}  // namespace rollcall
