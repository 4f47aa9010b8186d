// EtcdClient: calls to an etcd cluster.
//
// It uses TLS if it is given a CA. If it is given a user, it authenticates
// before its first call, and again when etcd no longer accepts its token.
//
// A call goes to the member that answered last, and then to the next one if
// that member cannot be reached or does not answer. It blocks its caller for at
// most the time that the caller set. Its only state is which member answered
// last, and etcd's token. The caller knows what a call means and whether it may
// be repeated.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_CLIENT_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_CLIENT_H_

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
#include "daemon/journal/etcd/key_value.h"
#include "etcd/etcd.grpc.pb.h"

namespace rollcall {

// Addresses of etcd's members, and how to authenticate them and this client.
struct EtcdAccess {
  // HOST:PORT, at least one.
  std::vector<std::string> endpoints;
  // PEM texts. Empty CA: no TLS. Each member's certificate must be signed by
  // that CA and name the member's host. `certificate` and `key` belong to this
  // client; either both are set or neither.
  std::string ca;
  std::string certificate;
  std::string key;
  // User of etcd's authentication; empty: none.
  std::string user;
  std::string password;
};

class EtcdClient final : public KeyValueStore {
 public:
  // Does not connect yet.
  explicit EtcdClient(EtcdAccess access);

  // Each of these functions tries all members in turn, each at most twice,
  // until one answers or `patience` has passed. UNAVAILABLE: none answered.
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
    std::shared_ptr<grpc::Channel> channel;  // Shared by gRPC.
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Watch::Stub> watch;
    std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  };
  using OneCall = std::function<grpc::Status(Member&, grpc::ClientContext&)>;

  absl::Status Try(absl::Duration patience, const OneCall& call);
  // Makes one call to one member, authenticated as `user_`. `until`: on the
  // monotonic clock.
  grpc::Status CallMember(Member& member, absl::Time until, bool wait_for_ready,
                          const OneCall& call);
  // Gets a new token, unless another thread has replaced `old` meanwhile.
  grpc::Status Authenticate(Member& member, absl::Time until,
                            bool wait_for_ready, const std::string& old);
  // etcd's token. Empty: there is no token yet, or none is needed.
  std::string Token() const;
  Member& good() { return members_[good_ % members_.size()]; }

  const std::string user_;
  const std::string password_;
  std::vector<Member> members_;
  mutable Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> good_ = 0;
};

// Changes of one key from a revision on, as one member reports them.
//
// Thread rule: created and destroyed by one thread. `tell` is called on gRPC's
// threads, must only post, and is not called after the destructor has returned.
class EtcdWatch final
    : public KeyValueWatch,
      private grpc::ClientBidiReactor<etcdserverpb::WatchRequest,
                                      etcdserverpb::WatchResponse> {
 public:
  // See KeyValueStore::Watch.
  using Tell = std::function<void()>;

  EtcdWatch(EtcdClient& client, std::string_view key, int64_t from_revision,
            Tell tell);
  // Cancels the watch, and waits for its end.
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

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_CLIENT_H_
