// FakeAgent: the agent's side of rank.proto in this process, for `ranks` ranks
// of one world. Its Unix socket is in its own folder, which is removed with it.
#ifndef ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_
#define ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/rank/frames.h"
#include "client/rank/rank_location.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class FakeAgent {
 public:
  static constexpr uint64_t kGeneration = 7;

  explicit FakeAgent(int ranks) : ranks_(ranks) {
    char folder[] = "/tmp/rollcall-test-XXXXXX";
    folder_ = mkdtemp(folder);
    listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
         sizeof(address));
    listen(listener_.get(), 16);
    accepts_ = std::thread([this] { Accept(); });
  }
  ~FakeAgent() {
    Die();
    rmdir(folder_.c_str());
  }

  // Ends at once as a killed agent does, so all connections break.
  void Die() {
    if (!accepts_.joinable()) return;
    unlink(socket().c_str());
    shutdown(listener_.get(), SHUT_RDWR);
    accepts_.join();
    {
      MutexLock lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : serving_) thread.join();
    listener_.Close();
  }

  std::string socket() const { return folder_ + "/agent"; }
  RankLocation place(uint32_t local_rank) const {
    return RankLocation{socket(), local_rank, kGeneration};
  }

  // Blocks until the rank is connected, and then writes to it.
  void Send(uint32_t local_rank, const v1::AgentReply& reply) {
    SendBytes(local_rank, FrameOf(reply));
  }
  void SendBytes(uint32_t local_rank, const std::string& bytes) {
    MutexLock lock(mutex_);
    while (by_rank_.count(local_rank) == 0) changed_.Wait(mutex_);
    send(by_rank_[local_rank], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // A rank that names no generation waits for SendWorld.
  RankLocation attached_place() const { return {socket(), 0, 0}; }

  // Sends the rank a world of this generation.
  void SendWorld(uint32_t local_rank, uint64_t generation) {
    Send(local_rank, World(local_rank, generation));
  }
  // Blocks until a rank has sent a message that `wanted` accepts.
  template <typename Wanted>
  v1::RankMessage Await(Wanted wanted) {
    MutexLock lock(mutex_);
    while (true) {
      for (const v1::RankMessage& message : said_) {
        if (wanted(message)) return message;
      }
      changed_.Wait(mutex_);
    }
  }

 private:
  void Accept() {
    for (;;) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      {
        MutexLock lock(mutex_);
        open_.push_back(fd);
      }
      serving_.emplace_back([this, fd] {
        Serve(fd);
        MutexLock lock(mutex_);
        std::erase(open_, fd);
        std::erase_if(by_rank_, [fd](const auto& e) { return e.second == fd; });
        close(fd);
      });
    }
  }

  void Serve(int fd) {
    FrameReader reader(kRankMessageBytesMax);
    char piece[4096];
    for (;;) {
      const auto bytes = reader.Next();
      if (!bytes.ok()) return;
      if (!bytes->has_value()) {
        const ssize_t got = read(fd, piece, sizeof(piece));
        if (got <= 0) return;
        reader.Add(absl::string_view(piece, got));
        continue;
      }
      v1::RankMessage message;
      if (!ParseFrame(**bytes, message).ok() || !Hear(fd, message)) return;
    }
  }

  bool Hear(int fd, const v1::RankMessage& message) {
    MutexLock lock(mutex_);
    const auto tell = [](int to, const v1::AgentReply& reply) {
      const std::string frame = FrameOf(reply);
      send(to, frame.data(), frame.size(), MSG_NOSIGNAL);
    };
    v1::AgentReply reply;
    if (message.has_hello()) {
      const uint32_t local_rank = message.hello().local_rank();
      if (local_rank >= static_cast<uint32_t>(ranks_)) {
        reply.mutable_end()->set_code(3);
        reply.mutable_end()->set_message("local rank out of range");
        tell(fd, reply);
        return false;
      }
      if (message.hello().generation() != 0) {
        tell(fd, World(local_rank, kGeneration));
      }
      by_rank_[local_rank] = fd;
    } else if (message.has_exchange()) {
      Exchange(fd, message.exchange(), tell);
    } else if (message.has_store() &&
               message.store().operation().kind() != v1::STORE_KIND_WAIT) {
      // A wait is never answered, because no rank ever sets its key.
      const v1::RankStore& asked = message.store();
      reply.mutable_stored()->set_request(asked.request());
      v1::StoreResult& result = *reply.mutable_stored()->mutable_result();
      result.set_code(asked.generation() == kGeneration ? 0 : 10);
      if (asked.operation().key() == "full") {
        result.set_code(8);
        result.set_error("no room");
      }
      result.set_number(asked.operation().delta() + 1);
      result.set_value(asked.operation().value());
      tell(fd, reply);
    }
    said_.push_back(message);
    changed_.NotifyAll();
    return true;
  }

  template <typename Tell>
  void Exchange(int fd, const v1::RankExchange& asked, Tell tell)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::AgentReply reply;
    auto& exchanged = *reply.mutable_exchanged();
    if (asked.generation() != kGeneration) {
      exchanged.set_request(asked.request());
      exchanged.set_code(10);
      return tell(fd, reply);
    }
    auto& given = exchanges_[asked.key()];
    for (const auto& [rank, other] : by_rank_) {
      if (other == fd) given[rank] = asked.value();
    }
    waiting_[asked.key()].emplace_back(fd, asked.request());
    if (given.size() < static_cast<size_t>(ranks_)) return;
    for (const auto& [rank, value] : given) exchanged.add_values(value);
    for (const auto& [to, request] : waiting_[asked.key()]) {
      exchanged.set_request(request);
      tell(to, reply);
    }
    waiting_.erase(asked.key());
  }

  v1::AgentReply World(uint32_t local_rank, uint64_t generation) const {
    v1::AgentReply reply;
    v1::RankWorld* mine = reply.mutable_world();
    mine->set_local_rank(local_rank);
    mine->set_rank(local_rank);
    mine->mutable_world_commit()->set_generation(generation);
    v1::World* world = mine->mutable_world();
    world->set_generation(generation);
    world->set_world_size(ranks_);
    v1::Member* member = world->add_members();
    member->set_node("here");
    member->set_ranks(ranks_);
    member->set_address("127.0.0.1");
    return reply;
  }

  const int ranks_;
  std::string folder_;
  Fd listener_;
  std::thread accepts_;
  std::vector<std::thread> serving_;  // Used by accepts_ alone until it ends.
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> open_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, int> by_rank_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RankMessage> said_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<uint32_t, std::string>> exchanges_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::pair<int, uint64_t>>> waiting_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_
