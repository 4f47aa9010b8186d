// EtcdClient: calls to an etcd of several members.
//
// By TLS where it is given a CA; as a user where it is given one: it then
// authenticates before its first call, and again when etcd no longer takes the
// token that it got.
//
// A call goes to the member that answered last, and on to the next one where
// that cannot be reached or says nothing. It blocks its caller, no longer than
// the caller said. It keeps no state but which member is good: what a call
// means, and whether it may be repeated, is the caller's business.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_CLIENT_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/journal/key_value.h"
#include "etcd/etcd.grpc.pb.h"

namespace rollcall {

// How etcd's members are reached and known, and as whom.
struct EtcdAccess {
  // HOST:PORT, at least one.
  std::vector<std::string> endpoints;
  // PEM texts. Empty CA: no TLS. Each member's certificate must be of that CA
  // and name the member's host; certificate and key: what this side shows, both
  // or neither.
  std::string ca;
  std::string certificate;
  std::string key;
  // Of etcd's authentication; empty: none is asked for.
  std::string user;
  std::string password;
};

class EtcdClient final : public KeyValueStore {
 public:
  // Nothing is dialled yet.
  explicit EtcdClient(EtcdAccess access);

  // Each of these tries all members in turn, each twice at most, until one
  // answers or `patience` has passed. UNAVAILABLE: none did.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request,
      absl::Duration patience) override;
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request,
      absl::Duration patience) override;
  absl::StatusOr<etcdserverpb::LeaseGrantResponse> Grant(
      absl::Duration time_to_live, absl::Duration patience) override;
  absl::Status Revoke(int64_t lease, absl::Duration patience) override;
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease,
                                           absl::Duration patience) override;
  std::unique_ptr<KeyValueWatch> Watch(std::string_view key,
                                       int64_t from_revision,
                                       std::function<void()> tell) override;

 private:
  friend class EtcdWatch;

  struct Member {
    std::string endpoint;
    std::shared_ptr<grpc::Channel> channel;  // gRPC's own sharing.
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Watch::Stub> watch;
    std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  };
  using OneCall = std::function<grpc::Status(Member&, grpc::ClientContext&)>;

  absl::Status Try(absl::Duration patience, const OneCall& call);
  // One call of one member, as the user. `until`: on the monotonic clock.
  grpc::Status CallMember(Member& member, absl::Time until, bool wait_for_ready,
                          const OneCall& call);
  // Takes a new token unless another thread has replaced `old` meanwhile.
  grpc::Status Authenticate(Member& member, absl::Time until,
                            bool wait_for_ready, const std::string& old);
  // Empty: none was given yet, or none is needed.
  std::string Token() const;
  Member& good() { return members_[good_ % members_.size()]; }

  const std::string user_;
  const std::string password_;
  std::vector<Member> members_;
  mutable Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> good_ = 0;
};

// What happens to one key, from a revision on, as one member tells it.
//
// Thread rule: made and ended by one thread; `tell` is called on gRPC's
// threads, must only post, and is called no more once the destructor is back.
class EtcdWatch final
    : public KeyValueWatch,
      private grpc::ClientBidiReactor<etcdserverpb::WatchRequest,
                                      etcdserverpb::WatchResponse> {
 public:
  // See KeyValueStore::Watch.
  using Tell = std::function<void()>;

  EtcdWatch(EtcdClient& client, std::string_view key, int64_t from_revision,
            Tell tell);
  // Cancels, and waits for the end.
  ~EtcdWatch() override;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Tell tell_;
  grpc::ClientContext context_;
  etcdserverpb::WatchRequest request_;
  etcdserverpb::WatchResponse response_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_CLIENT_H_
