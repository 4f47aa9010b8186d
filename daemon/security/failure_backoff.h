// FailureBackoff: how long somebody waits to be told that a token was wrong,
// by the address that it came from.
//
// The first few are told at once, since people mistype; then each waits twice
// as long as the one before. A right token is never held up by the wrong ones
// of others behind the same address. Pure; one thread at a time.
//
// Bounded: at most `addresses_max` are remembered, the latest; an address that
// has failed no more for a while is forgotten.
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
  static constexpr int kFree = 3;
  static constexpr absl::Duration kFirst = absl::Milliseconds(100);
  // Below what a client waits for an answer.
  static constexpr absl::Duration kMost = absl::Seconds(3);
  // After so long without a failure, an address begins anew.
  static constexpr absl::Duration kForgotten = absl::Minutes(1);
  static constexpr size_t kAddressesMax = 4096;

  // A wrong token came from `address`. How long the answer waits.
  absl::Duration Failed(const std::string& address, absl::Time now);
  // How many failures of this address in a row are remembered.
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
