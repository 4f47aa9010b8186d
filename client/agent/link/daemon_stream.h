// DaemonStream: one attempt to open the agent's stream to its daemon, and the
// stream itself. The agent decides when to redial: each attempt is a new object
// with a new channel, so that names are resolved again.
//
// Thread rule: call all functions from the agent's loop thread. The callbacks
// are called on gRPC's threads and must only post.
//
// Invariants:
//   1. `down` is called exactly once, and no callback after it.
//   2. Messages arrive in the order in which they were sent. Messages of the
//      store are an exception: they keep only their own order.
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
    // Returns false if the message cannot be accepted; this ends the stream.
    std::function<bool(v1::DaemonMessage)> message;
    // `other_daemon`: the server that answered is not the daemon, and nothing
    // was sent to it. The status is then UNAUTHENTICATED without a refusal.
    std::function<void(absl::Status, std::optional<v1::Refusal>,
                       bool other_daemon)>
        down;
  };

  // Begins to connect over `channel`, which no other object uses. `endpoint`,
  // HOST:PORT, is named in messages to the user. `verdict` belongs to the
  // channel's credentials. Messages sent before the connection is up are
  // queued.
  DaemonStream(std::string endpoint, std::shared_ptr<grpc::Channel> channel,
               std::shared_ptr<TrustVerdict> verdict, Callbacks callbacks);
  // Cancels running operations and waits for their end.
  ~DaemonStream() override;

  // Queues a message; messages of the store wait behind all others. Queues an
  // introduction before a Hello that is too long without one. Has no effect
  // after the stream's end. If the daemon does not read and the queue
  // exceeds its limit, the stream is ended.
  void Send(v1::AgentMessage message);

  // Ends the stream now; `down` follows.
  void HangUp();

  // Sends the queued messages, half-closes the stream and waits at most
  // `patience` for the daemon to end it.
  void Close(absl::Duration patience);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Starts the next operation: a write, or the half-close. Call it without the
  // lock and with writing_ set.
  void StartNext();
  void OperationDone();

  const std::string endpoint_;
  const std::shared_ptr<TrustVerdict> verdict_;  // Shared with the credentials.
  const Callbacks callbacks_;
  std::shared_ptr<grpc::Channel> channel_;  // Shared, as gRPC's API requires.
  std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage incoming_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::AgentMessage> queue_ ABSL_GUARDED_BY(mutex_);
  // Messages of the store, which are sent once queue_ is empty.
  std::deque<v1::AgentMessage> store_queue_ ABSL_GUARDED_BY(mutex_);
  // The queue whose first message is being written.
  std::deque<v1::AgentMessage>* written_ ABSL_GUARDED_BY(mutex_) = &queue_;
  // An operation is running; the reactor is held during it.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Reading has ended: no new operation may be started.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_DAEMON_STREAM_H_
