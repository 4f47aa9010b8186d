#include "tests/bench/crowd.h"

#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/server/clock.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall::bench {
namespace {

v1::Hello HelloOf(int index, const std::string& job,
                  const v1::JoinToken& token) {
  v1::Hello hello;
  hello.set_job(job);
  hello.set_node(absl::StrCat("crowd-", index));
  hello.set_incarnation(index);
  *hello.mutable_token() = token;
  hello.set_ranks(8);
  hello.set_command_digest(std::string(32, 'd'));
  hello.set_version(ROLLCALL_VERSION);
  // About what a node with two networks says of itself.
  v1::Facts& facts = *hello.mutable_facts();
  facts.set_hostname(hello.node());
  const std::string tail =
      absl::StrCat(index >> 16 & 255, ".", index >> 8 & 255, ".", index & 255);
  for (const char* net : {"10.", "11."}) {
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name(absl::StrCat("eth", facts.interfaces_size() - 1));
    interface.set_mtu(9000);
    interface.set_speed_mbps(100000);
    interface.set_up(true);
    interface.set_running(true);
    v1::InterfaceAddress& address = *interface.add_addresses();
    address.set_address(absl::StrCat(net, tail));
    address.set_prefix_length(8);
    v1::InterfaceAddress& six = *interface.add_addresses();
    six.set_address(
        absl::StrFormat("fd%s:%x", net[1] == '0' ? "10:" : "11:", index));
    six.set_prefix_length(64);
  }
  facts.set_boot_id(absl::StrCat("boot-of-", index));
  facts.set_network_namespace(index);
  facts.mutable_versions()->set_kernel("6.1.0-18-amd64");
  facts.mutable_versions()->set_rollcall(ROLLCALL_VERSION);
  facts.set_cpu_count(64);
  return hello;
}

}  // namespace

class Crowd::Node
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::DaemonMessage> {
 public:
  Node(Crowd* crowd, int index) : crowd_(crowd) {
    grpc::ChannelArguments arguments;
    // Without it all nodes would share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = v1::Membership::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", crowd->port_),
        grpc::InsecureChannelCredentials(), arguments));
    v1::AgentMessage message;
    *message.mutable_hello() = HelloOf(index, crowd->job_, crowd->token_);
    stub_->async()->Attend(&context_, this);
    Say(std::move(message));
    StartRead(&incoming_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    Hear(incoming_);
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    outgoing_.pop_front();
    if (ok && !outgoing_.empty()) StartWrite(&outgoing_.front());
  }

  void OnDone(const grpc::Status& status) override {
    MutexLock lock(crowd_->mutex_);
    CrowdSeen& seen = crowd_->seen_;
    ++seen.ended;
    if (!status.ok() && seen.failure.empty() &&
        status.error_code() != grpc::StatusCode::CANCELLED) {
      seen.failure =
          absl::StrCat(status.error_code(), ": ", status.error_message());
    }
    crowd_->changed_.NotifyAll();
  }

 private:
  void Say(v1::AgentMessage message) {
    MutexLock lock(mutex_);
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  void Hear(const v1::DaemonMessage& message) {
    const absl::Time now = MonotonicNow();
    v1::AgentMessage answer;
    switch (message.kind_case()) {
      case v1::DaemonMessage::kProposal: {
        const uint64_t generation = message.proposal().generation();
        answer.mutable_prepared()->set_generation(generation);
        answer.mutable_prepared()->set_master_port(20000);
        answer.mutable_prepared()->set_nccl_absent("a benchmark's node");
        Say(std::move(answer));
        break;
      }
      case v1::DaemonMessage::kCommit:
        for (uint32_t rank = 0; rank < 8; ++rank) {
          v1::AgentMessage exited;
          exited.mutable_rank_exited()->set_generation(
              message.commit().generation());
          exited.mutable_rank_exited()->set_local_rank(rank);
          Say(std::move(exited));
        }
        break;
      case v1::DaemonMessage::kEnd:
        answer.mutable_end_seen();
        Say(std::move(answer));
        break;
      default:
        break;
    }
    Note(message, now);
  }

  void Note(const v1::DaemonMessage& message, absl::Time now) {
    v1::Seal seal;
    const bool ids = message.has_commit() &&
                     seal.ParseFromString(message.commit().seal()) &&
                     seal.nccl_ids_size() > 0;
    MutexLock lock(crowd_->mutex_);
    CrowdSeen& seen = crowd_->seen_;
    if (message.has_welcome()) {
      ++seen.welcomed;
      seen.last_welcome = std::max(seen.last_welcome, now);
    } else if (message.has_proposal()) {
      seen.first_proposal = std::min(seen.first_proposal, now);
    } else if (message.has_commit()) {
      ++seen.committed;
      seen.ids = ids;
      seen.last_commit = std::max(seen.last_commit, now);
    }
    crowd_->changed_.NotifyAll();
  }

  Crowd* const crowd_;
  std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage incoming_;
  Mutex mutex_;
  // The front is being written.
  std::deque<v1::AgentMessage> outgoing_ ABSL_GUARDED_BY(mutex_);
};

Crowd::Crowd(int port, const std::string& job, const v1::JoinToken& token)
    : port_(port), job_(job), token_(token) {}

Crowd::~Crowd() {
  for (auto& node : nodes_) node->Cancel();
  MutexLock lock(mutex_);
  while (seen_.ended < static_cast<int>(nodes_.size())) changed_.Wait(mutex_);
}

void Crowd::Attend(int count) {
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(
        std::make_unique<Node>(this, static_cast<int>(nodes_.size()) + 1));
  }
}

bool Crowd::AwaitWelcomes(absl::Duration timeout) {
  return Await(&CrowdSeen::welcomed, "welcomes", timeout);
}
bool Crowd::AwaitCommits(absl::Duration timeout) {
  return Await(&CrowdSeen::committed, "commits", timeout);
}
bool Crowd::AwaitEnds(absl::Duration timeout) {
  return Await(&CrowdSeen::ended, "ends", timeout);
}

bool Crowd::Await(int CrowdSeen::*counter, const char* what,
                  absl::Duration timeout) {
  const int wanted = static_cast<int>(nodes_.size());
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (seen_.*counter < wanted) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration() || !seen_.failure.empty()) {
      std::fprintf(
          stderr, "bench: %d of %d %s: %s\n", seen_.*counter, wanted, what,
          seen_.failure.empty() ? "the time is up" : seen_.failure.c_str());
      return false;
    }
    changed_.WaitFor(mutex_, left);
  }
  return true;
}

CrowdSeen Crowd::Seen() {
  MutexLock lock(mutex_);
  return seen_;
}

void RaiseFileLimit() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace rollcall::bench
