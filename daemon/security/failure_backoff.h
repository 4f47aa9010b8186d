// FailureBackoff: how long the answer "wrong token" is delayed, by the address
// that the token came from.
//
// The first few failures are answered at once, because people mistype. After
// that, each delay is twice the one before, up to kDelayMax. A valid token is
// never delayed, even if other clients behind the same address fail. Pure; one
// thread at a time.
//
// The latest kAddressesMax addresses are remembered, each for kForgotten after
// its last failure.
#ifndef ROLLCALL_DAEMON_SECURITY_FAILURE_BACKOFF_H_
#define ROLLCALL_DAEMON_SECURITY_FAILURE_BACKOFF_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class FailureBackoff {
 public:
  // Failures that are answered without delay.
  static constexpr int kFree = 3;
  static constexpr absl::Duration kDelayMin = absl::Milliseconds(100);
  // Shorter than a client's timeout, and than ConnectionLimits::handshake_time.
  static constexpr absl::Duration kDelayMax = absl::Milliseconds(800);
  static constexpr absl::Duration kForgotten = absl::Minutes(1);
  static constexpr size_t kAddressesMax = 4096;

  // A wrong token came from `address`. Returns the delay of the answer.
  absl::Duration Failed(const std::string& address, absl::Time now);
  // Remembered failures of this address.
  int failures(const std::string& address) const;
  size_t addresses() const { return entries_.size(); }

 private:
  struct Entry {
    int failures = 0;
    absl::Time last;
  };
  void Forget(absl::Time now);
  void ForgetOldest();

  std::map<std::string, Entry> entries_;
  std::set<std::pair<absl::Time, std::string>> by_age_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_FAILURE_BACKOFF_H_
