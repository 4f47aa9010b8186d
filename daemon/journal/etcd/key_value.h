// KeyValueStore: the calls to etcd that the shared journal and the election
// use, as an interface, so that tests can run both over a store of their own.
//
// It keeps no state on which callers rely. The caller knows what a call means
// and whether it may be repeated.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_KEY_VALUE_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_KEY_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "etcd/etcd.pb.h"

namespace rollcall {

// Watches the changes of one key from a revision on. The destructor cancels it.
class KeyValueWatch {
 public:
  virtual ~KeyValueWatch() = default;
};

class KeyValueStore {
 public:
  // The most bytes of an answer; a page of the largest values fits.
  static constexpr int kAnswerBytesMax = 32 << 20;
  // How long one member may take for a call before the next one is asked.
  static constexpr absl::Duration kAttempt = absl::Milliseconds(500);

  virtual ~KeyValueStore() = default;

  // Each of these functions blocks until there is an answer or `patience` has
  // passed. UNAVAILABLE: no answer; a call that changes something may still
  // have been carried out, now or later, once or more than once. Other errors
  // are etcd's own, and nothing was changed. UNAUTHENTICATED: etcd accepts
  // neither the user's name and password nor the token that it gave for them.
  // PERMISSION_DENIED: the user may not do this.
  virtual absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request, absl::Duration patience) = 0;
  virtual absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request, absl::Duration patience) = 0;
  virtual absl::StatusOr<etcdserverpb::LeaseGrantResponse> Grant(
      absl::Duration time_to_live, absl::Duration patience) = 0;
  // OK if there is no such lease.
  virtual absl::Status Revoke(int64_t lease, absl::Duration patience) = 0;
  // Returns the remaining time; zero: the lease has ended.
  virtual absl::StatusOr<absl::Duration> KeepAlive(int64_t lease,
                                                   absl::Duration patience) = 0;

  // Does not block. `tell` is called on any thread, must only post, and is not
  // called after the watch's destructor has returned. It means that the key has
  // changed or the watch has ended; in both cases the caller reads the key
  // again. It may be called many times.
  virtual std::unique_ptr<KeyValueWatch> Watch(std::string_view key,
                                               int64_t from_revision,
                                               std::function<void()> tell) = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_KEY_VALUE_H_
