// FakeAgent: the agent's side of rank.proto in this process, for `ranks` ranks
// of one world, on a Unix socket in a folder of its own that goes with it.
#ifndef ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_
#define ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/rank/rank_location.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {

class FakeAgent {
 public:
  static constexpr uint64_t kGeneration = 7;

  explicit FakeAgent(int ranks) : service_(ranks) {
    char folder[] = "/tmp/rollcall-test-XXXXXX";
    folder_ = mkdtemp(folder);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~FakeAgent() {
    Die();
    rmdir(folder_.c_str());
  }

  // Ends at once, as an agent that is killed: all streams break.
  void Die() {
    service_.Release();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    unlink(socket().c_str());
  }

  std::string socket() const { return folder_ + "/agent"; }
  RankLocation place(uint32_t local_rank) const {
    return RankLocation{socket(), local_rank, kGeneration};
  }

  // Blocks until the rank's stream is there, then writes to it.
  void Send(uint32_t local_rank, const v1::AgentReply& reply) {
    service_.Send(local_rank, reply);
  }
  // Leads it into a world of that generation.
  void SendWorld(uint32_t local_rank, uint64_t generation) {
    service_.Send(local_rank, service_.World(local_rank, generation));
  }
  // Blocks until a rank has said something that `wanted` accepts.
  template <typename Wanted>
  v1::RankMessage Await(Wanted wanted) {
    return service_.Await(wanted);
  }

 private:
  using Stream = grpc::ServerReaderWriter<v1::AgentReply, v1::RankMessage>;

  class Service final : public v1::Rank::Service {
   public:
    explicit Service(int ranks) : ranks_(ranks) {}

    grpc::Status Attend(grpc::ServerContext*, Stream* stream) override {
      v1::RankMessage message;
      if (!stream->Read(&message) || !message.has_hello()) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "expected a hello"};
      }
      const uint32_t local_rank = message.hello().local_rank();
      if (local_rank >= static_cast<uint32_t>(ranks_)) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "local rank out of range"};
      }
      stream->Write(World(local_rank, kGeneration));
      {
        MutexLock lock(mutex_);
        streams_[local_rank] = stream;
        changed_.NotifyAll();
      }
      do {
        MutexLock lock(mutex_);
        said_.push_back(message);
        changed_.NotifyAll();
      } while (stream->Read(&message));
      MutexLock lock(mutex_);
      streams_.erase(local_rank);
      return grpc::Status::OK;
    }

    grpc::Status Exchange(grpc::ServerContext*,
                          const v1::ExchangeRequest* request,
                          v1::ExchangeResponse* response) override {
      if (request->generation() != kGeneration) {
        return {grpc::StatusCode::ABORTED, "another generation"};
      }
      MutexLock lock(mutex_);
      auto& values = exchanges_[request->key()];
      values[request->local_rank()] = request->value();
      changed_.NotifyAll();
      while (!released_ && values.size() < static_cast<size_t>(ranks_)) {
        changed_.Wait(mutex_);
      }
      if (released_) return {grpc::StatusCode::UNAVAILABLE, "the agent ends"};
      for (const auto& [rank, value] : values) response->add_values(value);
      return grpc::Status::OK;
    }

    void Send(uint32_t local_rank, const v1::AgentReply& reply) {
      MutexLock lock(mutex_);
      while (streams_.count(local_rank) == 0) changed_.Wait(mutex_);
      streams_[local_rank]->Write(reply);
    }

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

    void Release() {
      MutexLock lock(mutex_);
      released_ = true;
      changed_.NotifyAll();
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

   private:
    const int ranks_;
    Mutex mutex_;
    CondVar changed_;
    std::map<uint32_t, Stream*> streams_ ABSL_GUARDED_BY(mutex_);
    std::vector<v1::RankMessage> said_ ABSL_GUARDED_BY(mutex_);
    std::map<std::string, std::map<uint32_t, std::string>> exchanges_
        ABSL_GUARDED_BY(mutex_);
    bool released_ ABSL_GUARDED_BY(mutex_) = false;
  };

  Service service_;
  std::string folder_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_RANK_FAKE_AGENT_H_
