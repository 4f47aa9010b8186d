#include "daemon/server/leader/current_loop.h"

#include <utility>

namespace rollcall {

bool CurrentLoop::Post(LoopInput input) {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (inbox_ != nullptr) return inbox_->Post(std::move(input));
    why = why_;
  }
  Decline(input, why);
  return true;
}

void CurrentLoop::PostAlways(LoopInput input) {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (inbox_ != nullptr) return inbox_->PostAlways(std::move(input));
    why = why_;
  }
  Decline(input, why);
}

void CurrentLoop::Open(Inbox<LoopInput>& inbox) {
  {
    MutexLock lock(mutex_);
    inbox_ = &inbox;
  }
  if (changed_) changed_(true);
}

void CurrentLoop::Shut(absl::Status why) {
  {
    MutexLock lock(mutex_);
    inbox_ = nullptr;
    why_ = std::move(why);
  }
  if (changed_) changed_(false);
}

}  // namespace rollcall
