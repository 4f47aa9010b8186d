// DaemonStream: one attempt at, and one life of, the agent's stream to its
// daemon. Redialling is the agent's decision: a new attempt is a new object
// with a new channel, so that names are resolved anew.
//
// Thread rule: all functions from the agent's loop thread; the callbacks come
// from gRPC's threads and must only post.
//
// Invariants:
//   1. `down` is called exactly once, and nothing after it.
//   2. Messages arrive in the order in which they were sent.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_DAEMON_STREAM_H_
#define ROLLCALL_CLIENT_AGENT_LINK_DAEMON_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/security/trust.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall {

class DaemonStream
    : private grpc::ClientBidiReactor<v1::AgentMessage, v1::DaemonMessage> {
 public:
  struct Callbacks {
    // False: it cannot be taken in; the stream is ended.
    std::function<bool(v1::DaemonMessage)> message;
    // UNAUTHENTICATED without a refusal: `stranger`, somebody answered who is
    // not the daemon; nothing was told to him.
    std::function<void(absl::Status, std::optional<v1::Refusal>, bool stranger)>
        down;
  };

  // Begins to connect over `channel`, which is its own; `endpoint`, HOST:PORT,
  // names it in messages, `verdict` is the one of its credentials. What is sent
  // before there is a connection goes out once there is one.
  DaemonStream(std::string endpoint, std::shared_ptr<grpc::Channel> channel,
               std::shared_ptr<TrustVerdict> verdict, Callbacks callbacks);
  // Cancels what is left and waits for its end.
  ~DaemonStream() override;

  // Queues a message. After the stream's end: no effect. A daemon that does not
  // read while the queue grows past its bound: the stream is ended.
  void Send(v1::AgentMessage message);

  // Ends the stream now; `down` follows.
  void HangUp();

  // Sends what is queued, says that nothing more comes and waits for the
  // daemon to end the stream, at most for `patience`.
  void Close(absl::Duration patience);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Starts the operation that is due: a write, or the half-close. Call it
  // without the lock, with writing_ set.
  void StartNext();
  void OperationDone();

  const std::string endpoint_;
  const std::shared_ptr<TrustVerdict> verdict_;  // The credentials' as well.
  const Callbacks callbacks_;
  std::shared_ptr<grpc::Channel> channel_;  // gRPC's own sharing.
  std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage incoming_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::AgentMessage> queue_ ABSL_GUARDED_BY(mutex_);
  // An operation of ours is under way; the reactor is held while it is.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Reading has ended: nothing may be started any more.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_DAEMON_STREAM_H_
