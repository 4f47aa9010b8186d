// RankSide: one connection to an agent's rank service, from the rank's side.
#ifndef ROLLCALL_TESTS_UNIT_AGENT_RANK_SIDE_H_
#define ROLLCALL_TESTS_UNIT_AGENT_RANK_SIDE_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "client/rank/frames.h"
#include "daemon/base/files/fd.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class RankSide {
 public:
  explicit RankSide(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }

  void Hello(uint32_t local_rank, bool elastic = false, int32_t pid = getpid(),
             uint64_t generation = 0) {
    v1::RankMessage message;
    message.mutable_hello()->set_wire_version(kRankWireVersion);
    message.mutable_hello()->set_local_rank(local_rank);
    message.mutable_hello()->set_elastic(elastic);
    message.mutable_hello()->set_pid(pid);
    message.mutable_hello()->set_generation(generation);
    Write(message);
  }
  void Exchange(uint64_t request, uint64_t generation, const std::string& key,
                const std::string& value) {
    v1::RankMessage message;
    v1::RankExchange& exchange = *message.mutable_exchange();
    exchange.set_request(request);
    exchange.set_generation(generation);
    exchange.set_key(key);
    exchange.set_value(value);
    Write(message);
  }
  void Store(uint64_t request, uint64_t generation, v1::StoreKind kind,
             const std::string& key) {
    v1::RankMessage message;
    v1::RankStore& store = *message.mutable_store();
    store.set_request(request);
    store.set_generation(generation);
    store.mutable_operation()->set_kind(kind);
    store.mutable_operation()->set_key(key);
    Write(message);
  }
  void CancelStore(uint64_t request) {
    v1::RankMessage message;
    message.mutable_store_cancel()->set_request(request);
    Write(message);
  }
  void Write(const v1::RankMessage& message) { WriteBytes(FrameOf(message)); }
  // Returns false if the agent no longer accepts the bytes.
  bool WriteBytes(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = send(fd_.get(), bytes.data() + sent,
                                bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += static_cast<size_t>(more);
    }
    return true;
  }
  void WritesDone() { shutdown(fd_.get(), SHUT_WR); }
  // Closes the connection as the kernel does when a process dies.
  void Close() { fd_.Close(); }

  // Blocks for the next message. Returns false if the connection has ended; see
  // ended.
  bool Read(v1::AgentReply* reply) {
    char piece[4096];
    for (;;) {
      const auto bytes = reader_.Next();
      if (!bytes.ok()) return false;
      if (bytes->has_value()) {
        reply->Clear();
        if (!ParseFrame(**bytes, *reply).ok()) return false;
        if (!reply->has_end()) return true;
        ended_ =
            absl::Status(static_cast<absl::StatusCode>(reply->end().code()),
                         reply->end().message());
        continue;
      }
      const ssize_t got = read(fd_.get(), piece, sizeof(piece));
      if (got <= 0) return false;
      reader_.Add(absl::string_view(piece, got));
    }
  }
  // Reads to the end. Returns OK if the agent gave no reason.
  absl::Status Finish() {
    v1::AgentReply reply;
    while (Read(&reply)) {
    }
    return ended_;
  }

 private:
  Fd fd_;
  bool connected_ = false;
  FrameReader reader_{kAgentReplyBytesMax};
  absl::Status ended_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_AGENT_RANK_SIDE_H_
