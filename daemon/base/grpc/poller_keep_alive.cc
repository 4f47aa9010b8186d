#include "daemon/base/grpc/poller_keep_alive.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <optional>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/grpc/grpc_defaults.h"

namespace rollcall {
namespace {

// Less than the one second that gRPC's threads wait, also on a busy machine.
constexpr absl::Duration kEvery = absl::Milliseconds(500);

}  // namespace

struct PollerKeepAlive::Nudge {
  grpc::ClientContext context;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

// Without credentials gRPC makes a channel on which every call fails.
PollerKeepAlive::PollerKeepAlive()
    : nowhere_(grpc::CreateCustomChannel("nowhere", nullptr,
                                         DefaultChannelArguments())),
      thread_([this] { Run(); }) {}

PollerKeepAlive::~PollerKeepAlive() {
  {
    MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void PollerKeepAlive::Run() {
  grpc::GenericStub stub(nowhere_);
  std::optional<Nudge> nudge;
  absl::Time due = MonotonicNow() + kEvery;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (under_way_ || (!over_ && MonotonicNow() < due)) {
        if (under_way_) {
          changed_.Wait(mutex_);
        } else {
          changed_.WaitFor(mutex_, due - MonotonicNow());
        }
      }
      if (over_) return;
      under_way_ = true;
    }
    due = MonotonicNow() + kEvery;
    nudge.emplace();
    stub.UnaryCall(&nudge->context, "/nowhere/Nudge", grpc::StubOptions(),
                   &nudge->request, &nudge->response, [this](grpc::Status) {
                     MutexLock lock(mutex_);
                     under_way_ = false;
                     changed_.NotifyAll();
                   });
  }
}

}  // namespace rollcall
