#include "client/agent/rank_service/rank_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/rank_service/rank_service_core.h"
#include "client/rank/unix_address.h"
#include "daemon/base/grpc/grpc_defaults.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Every rank of a node may wait for every open key.
constexpr size_t kWaitersMax =
    Limits::exchanges_open_max * Limits::ranks_per_node_max;
// An exchange with its key and value, plus protobuf's overhead.
constexpr int kMessageBytesMax =
    2 * (Limits::exchange_value_bytes_max + Limits::exchange_key_bytes_max);
// On one connection: Attend, and one exchange for every open key.
constexpr int kCallsMax = 1 + Limits::exchanges_open_max;
// Bytes received from all ranks and not processed yet.
constexpr size_t kReceivedBytesMax = 64 << 20;

}  // namespace

// --- Exchange ---------------------------------------------------------------

grpc::ServerUnaryReactor* RankService::Core::Exchange(
    grpc::CallbackServerContext*, const v1::ExchangeRequest* request,
    v1::ExchangeResponse* response) {
  auto* waiter = new Waiter(*this, *request, response);
  // Built before Enter, because another thread may answer and end the call
  // right after it.
  AgentEvent event = RankExchanged{request->generation(), request->local_rank(),
                                   request->key(), request->value()};
  const grpc::Status entered = Enter(waiter);
  if (!entered.ok()) {
    waiter->Finish(entered);
    return waiter;
  }
  if (!post_(std::move(event))) {
    bool mine = false;
    {
      MutexLock lock(mutex_);
      mine = Take(waiter);
    }
    if (mine) {
      waiter->Finish(
          grpc::Status(grpc::StatusCode::UNAVAILABLE,
                       "the agent is behind with its work; try again"));
    }
  }
  return waiter;
}

grpc::Status RankService::Core::Enter(Waiter* waiter) {
  using Code = grpc::StatusCode;
  if (waiter->value.size() > Limits::exchange_value_bytes_max) {
    return grpc::Status(
        Code::INVALID_ARGUMENT,
        absl::StrCat("value of ", waiter->value.size(), " bytes; at most ",
                     Limits::exchange_value_bytes_max));
  }
  // The daemon would end the agent's stream for a key that it does not admit.
  if (const absl::Status fits = AdmitExchangeKey(waiter->key); !fits.ok()) {
    return grpc::Status(Code::INVALID_ARGUMENT, std::string(fits.message()));
  }
  MutexLock lock(mutex_);
  if (!open_ || open_->world.generation() != waiter->generation) {
    return grpc::Status(Code::ABORTED,
                        absl::StrCat("generation ", waiter->generation,
                                     " has ended; get the next world first"));
  }
  if (waiter->local_rank >= RanksHere()) {
    return grpc::Status(
        Code::INVALID_ARGUMENT,
        absl::StrCat("local rank ", waiter->local_rank, "; this node has ",
                     RanksHere(), " ranks"));
  }
  for (const Waiter* other : waiters_) {
    if (other->key == waiter->key && other->local_rank == waiter->local_rank &&
        other->value != waiter->value) {
      return grpc::Status(
          Code::INVALID_ARGUMENT,
          absl::StrCat("local rank ", waiter->local_rank,
                       " has given another value for this key"));
    }
  }
  if (waiters_.size() >= kWaitersMax) {
    return grpc::Status(Code::RESOURCE_EXHAUSTED,
                        absl::StrCat(kWaitersMax, " exchanges wait already"));
  }
  waiters_.insert(waiter);
  return grpc::Status::OK;
}

bool RankService::Core::Take(Waiter* waiter) {
  return waiters_.erase(waiter) == 1;
}

void RankService::Core::Forget(Waiter* waiter) {
  bool mine = false;
  {
    MutexLock lock(mutex_);
    mine = Take(waiter);
  }
  if (mine) waiter->Finish(grpc::Status::CANCELLED);
}

void RankService::Core::Answer(const v1::ExchangeOut& exchange) {
  std::vector<Waiter*> taken;
  {
    MutexLock lock(mutex_);
    for (Waiter* waiter : waiters_) {
      if (waiter->generation == exchange.generation() &&
          waiter->key == exchange.key()) {
        taken.push_back(waiter);
      }
    }
    for (Waiter* waiter : taken) Take(waiter);
  }
  for (Waiter* waiter : taken) {
    if (exchange.code() != 0) {
      // Both define the same numbers for the codes.
      waiter->Finish(grpc::Status(
          static_cast<grpc::StatusCode>(exchange.code()), exchange.error()));
      continue;
    }
    *waiter->response->mutable_values() = exchange.values();
    waiter->Finish(grpc::Status::OK);
  }
}

void RankService::Core::FailExchanges(uint64_t generation,
                                      const std::string& reason) {
  std::vector<Waiter*> taken;
  {
    MutexLock lock(mutex_);
    for (Waiter* waiter : waiters_) {
      if (waiter->generation <= generation) taken.push_back(waiter);
    }
    for (Waiter* waiter : taken) Take(waiter);
  }
  for (Waiter* waiter : taken) {
    waiter->Finish(grpc::Status(grpc::StatusCode::ABORTED, reason));
  }
}

// --- The outside ------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RankService>> RankService::Start(
    const std::string& path, Post post, const SystemUser* user,
    uint32_t attached) {
  if (path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path of ", path.size(), " bytes: ", path,
                     "; at most ", kSocketPathBytesMax));
  }
  auto core = std::make_unique<Core>(std::move(post), attached);
  grpc::ServerBuilder builder;
  SetDefaults(builder);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsMax);
  // A stopped process does not answer keepalives, and must not count as gone.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  // gRPC checks a message's size only after all of it has arrived; the quota
  // ends a call that takes too much memory before that.
  builder.SetResourceQuota(
      grpc::ResourceQuota("ranks").Resize(kReceivedBytesMax));
  builder.AddListeningPort(UnixAddress(path),
                           grpc::InsecureServerCredentials());
  builder.RegisterService(core.get());
  core->server = builder.BuildAndStart();
  if (core->server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on the Unix socket ", path));
  }
  if (user != nullptr && (chmod(path.c_str(), 0600) != 0 ||
                          lchown(path.c_str(), user->uid, user->gid) != 0)) {
    return absl::UnavailableError(absl::StrCat("cannot give the Unix socket ",
                                               path, " to ", UserText(*user),
                                               ": ", strerror(errno)));
  }
  return std::unique_ptr<RankService>(new RankService(std::move(core)));
}

RankService::RankService(std::unique_ptr<Core> core) : core_(std::move(core)) {}

RankService::~RankService() {
  // Cancels open calls; every reactor is finished when this returns.
  core_->server->Shutdown(std::chrono::system_clock::now());
  core_->server->Wait();
}

void RankService::SetWorld(const v1::World& world,
                           const v1::WorldCommit& world_commit,
                           uint32_t node_rank,
                           const std::vector<uint32_t>& waiting) {
  core_->SetWorld(world, world_commit, node_rank, waiting);
}

void RankService::EndWorld(uint64_t generation, v1::ReasonCode code,
                           const std::string& reason) {
  core_->EndWorld(generation, code, reason);
}

void RankService::Tell(const v1::RankNotice& notice) { core_->Tell(notice); }

int32_t RankService::AskWhere(uint64_t generation, uint32_t local_rank) {
  return core_->AskWhere(generation, local_rank);
}

void RankService::Stop(const std::vector<RankIncarnation>& ranks) {
  core_->Stop(ranks);
}

void RankService::FailExchanges(uint64_t generation,
                                const std::string& reason) {
  core_->FailExchanges(generation, reason);
}

void RankService::Answer(const v1::ExchangeOut& exchange) {
  core_->Answer(exchange);
}

}  // namespace rollcall
