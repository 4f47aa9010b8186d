// KeyValueStore: the calls to etcd that the shared journal and the election are
// made of, so that both also run over a store that a test has made.
//
// It keeps no state that its callers rely on: what a call means, and whether it
// may be repeated, is the caller's business.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_KEY_VALUE_H_
#define ROLLCALL_DAEMON_JOURNAL_KEY_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "etcd/etcd.pb.h"

namespace rollcall {

// What happens to one key, from a revision on. Its destructor cancels it.
class KeyValueWatch {
 public:
  virtual ~KeyValueWatch() = default;
};

class KeyValueStore {
 public:
  // What one answer may have: a page of the largest values.
  static constexpr int kAnswerBytesMax = 32 << 20;
  // How long one member is given for a call before the next one is asked.
  static constexpr absl::Duration kAttempt = absl::Milliseconds(500);

  virtual ~KeyValueStore() = default;

  // Each of these blocks until there is an answer or `patience` has passed.
  // UNAVAILABLE: there is none; a call that changes something may have been
  // carried out all the same, now or later, once or more than once. Other
  // errors are etcd's own, and nothing was done. UNAUTHENTICATED: etcd takes
  // neither the user's name and password nor the token that it gave for them;
  // PERMISSION_DENIED: the user may not do this.
  virtual absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request, absl::Duration patience) = 0;
  virtual absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request, absl::Duration patience) = 0;
  virtual absl::StatusOr<etcdserverpb::LeaseGrantResponse> Grant(
      absl::Duration time_to_live, absl::Duration patience) = 0;
  // OK where there is no such lease.
  virtual absl::Status Revoke(int64_t lease, absl::Duration patience) = 0;
  // What is left of it; zero: it has ended.
  virtual absl::StatusOr<absl::Duration> KeepAlive(int64_t lease,
                                                   absl::Duration patience) = 0;

  // Does not block. `tell` is called on any thread, must only post, and is
  // called no more once the watch's destructor is back: the key has changed, or
  // the watch has ended; either way it is time to read the key again. It may be
  // called many times.
  virtual std::unique_ptr<KeyValueWatch> Watch(std::string_view key,
                                               int64_t from_revision,
                                               std::function<void()> tell) = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_KEY_VALUE_H_
