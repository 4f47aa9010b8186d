// WaitingNews: when waiting nodes are told what they wait for, and with what
// text.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_WAITING_NEWS_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_WAITING_NEWS_H_

#include <string>
#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class WaitingNews {
 public:
  // When the nodes are told next; InfiniteFuture: no node waits.
  absl::Time due() const { return due_; }
  void TellAt(absl::Time at) { due_ = at; }
  void Stop() { due_ = absl::InfiniteFuture(); }
  // Whether this text differs from the last one that was sent. From now on,
  // this text is the last one.
  bool IsNew(std::string text) {
    if (text == told_) return false;
    told_ = std::move(text);
    return true;
  }
  // Other nodes wait now, so the next text is sent to them in any case.
  void Reset() { told_.clear(); }

 private:
  absl::Time due_ = absl::InfiniteFuture();
  std::string told_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_WAITING_NEWS_H_
