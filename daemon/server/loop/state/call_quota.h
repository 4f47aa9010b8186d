// CallQuota: bounds the calls that each token has in progress.
//
// Thread rule: Take from any thread; its result may be destroyed on any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_CALL_QUOTA_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_CALL_QUOTA_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "daemon/base/mutex.h"

namespace rollcall {

class CallQuota {
 public:
  // Counts as one call until its last copy is destroyed. Null: the token has
  // too many calls.
  using Hold = std::shared_ptr<const void>;

  explicit CallQuota(size_t most) : most_(most) {}

  // Adds one call of this token. Returns null if it has too many.
  Hold Take(const std::string& token) {
    {
      MutexLock lock(counts_->mutex);
      size_t& count = counts_->by_token[token];
      if (count >= most_) return nullptr;
      ++count;
    }
    return Hold(new std::string(token),
                [counts = counts_](const std::string* of) {
                  const std::unique_ptr<const std::string> owned(of);
                  MutexLock lock(counts->mutex);
                  const auto at = counts->by_token.find(*of);
                  if (--at->second == 0) counts->by_token.erase(at);
                });
  }

 private:
  struct Counts {
    Mutex mutex;
    // Number of calls in progress, by token.
    std::map<std::string, size_t> by_token ABSL_GUARDED_BY(mutex);
  };

  const size_t most_;
  // Shared with the calls, which may outlive the quota.
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_CALL_QUOTA_H_
