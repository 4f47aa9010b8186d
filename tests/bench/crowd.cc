#include "tests/bench/crowd.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/core/network_plan/probing.h"
#include "rollcall/v1/membership.grpc.pb.h"
#include "tests/bench/hello.h"

namespace rollcall::bench {
namespace {

// As an agent's, but for the time that a connection may take: here one machine
// shakes all hands.
std::shared_ptr<grpc::Channel> MakeChannel(const CrowdOptions& options) {
  constexpr int kConnectMs = 60'000;
  grpc::ChannelArguments arguments;
  // Without it all nodes would share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetMaxReceiveMessageSize(-1);
  const std::string endpoint = absl::StrCat("127.0.0.1:", options.port);
  // No file is read for a pin, and nothing else can fail.
  auto credentials = ChannelCredentials(options.trust, endpoint, nullptr);
  return grpc::CreateCustomChannel(endpoint, *std::move(credentials),
                                   arguments);
}

}  // namespace

// One stream. Beat writes from outside its reactions, so that it holds the call
// open until nothing is read any more and no write is under way.
class Crowd::Node
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::DaemonMessage> {
 public:
  Node(Crowd* crowd, int index) : crowd_(crowd) {
    stub_ = v1::Membership::NewStub(MakeChannel(crowd->options_));
    // A connection that the daemon had no room for is tried again, as agents
    // do.
    context_.set_wait_for_ready(true);
    v1::AgentMessage message;
    *message.mutable_hello() = HelloOf(index);
    name_ = message.hello().node();
    stub_->async()->Attend(&context_, this);
    AddHold();
    Say(std::move(message));
    StartRead(&incoming_);
    StartCall();
  }

  // Does nothing on a stream that has ended.
  void Say(v1::AgentMessage message) {
    const v1::AgentMessage* next;
    {
      MutexLock lock(mutex_);
      if (over_) return;
      outgoing_.push_back(std::move(message));
      if (outgoing_.size() > 1) return;
      next = &outgoing_.front();
    }
    StartWrite(next);
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      Hear(incoming_);
      StartRead(&incoming_);
      return;
    }
    bool idle;
    {
      MutexLock lock(mutex_);
      over_ = true;
      idle = outgoing_.empty();
    }
    if (idle) RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    const v1::AgentMessage* next = nullptr;
    bool last;
    {
      MutexLock lock(mutex_);
      outgoing_.pop_front();
      if (!ok || over_) outgoing_.clear();
      if (!outgoing_.empty()) next = &outgoing_.front();
      last = over_;
    }
    if (next != nullptr) {
      StartWrite(next);
    } else if (last) {
      RemoveHold();
    }
  }

  void OnDone(const grpc::Status& status) override {
    MutexLock lock(crowd_->mutex_);
    ++crowd_->ended_;
    std::string& failure = crowd_->seen_.failure;
    if (failure.empty() && status.error_code() != grpc::StatusCode::CANCELLED) {
      failure = absl::StrCat("a stream has ended, code ", status.error_code(),
                             ": ", status.error_message());
    }
    crowd_->changed_.NotifyAll();
  }

 private:
  void Hear(const v1::DaemonMessage& message) {
    const absl::Time now = MonotonicNow();
    Note(message, now);
    v1::AgentMessage answer;
    switch (message.kind_case()) {
      case v1::DaemonMessage::kProposal:
        answer.mutable_prepared()->set_generation(
            message.proposal().generation());
        answer.mutable_prepared()->set_master_port(20000);
        answer.mutable_prepared()->set_nccl_absent("a benchmark's node");
        return Say(std::move(answer));
      case v1::DaemonMessage::kProbe:
        return HearProbe(message.probe());
      case v1::DaemonMessage::kCommit:
        if (crowd_->options_.exits) Exit(message.commit().generation());
        return;
      case v1::DaemonMessage::kEnd:
        answer.mutable_end_seen();
        return Say(std::move(answer));
      default:
        return;
    }
  }

  // Reports that each target was reached, once all have been told what to
  // answer.
  void HearProbe(const v1::Probe& probe) {
    std::vector<Node*> woken;
    {
      MutexLock lock(probes_mutex_);
      Round& round = rounds_[probe.ask()];
      round.told[name_].mutable_answers()->CopyFrom(probe.answers());
      woken.swap(round.waiting[name_]);
      probe_ = probe;
      next_target_ = 0;
    }
    woken.push_back(this);
    for (Node* node : woken) node->AnswerProbe();
  }

  void AnswerProbe() {
    v1::AgentMessage message;
    {
      MutexLock lock(probes_mutex_);
      Round& round = rounds_[probe_.ask()];
      for (; next_target_ < probe_.targets_size(); ++next_target_) {
        const std::string& target = probe_.targets(next_target_).node();
        if (!round.told.contains(target)) {
          round.waiting[target].push_back(this);
          return;
        }
      }
      if (probe_.targets_size() == 0) return;
      v1::Probed& probed = *message.mutable_probed();
      probed.set_probe(probe_.probe());
      for (const v1::ProbeTarget& target : probe_.targets()) {
        for (const std::string& address : target.addresses()) {
          v1::ProbeResult& result = *probed.add_results();
          result.set_node(target.node());
          result.set_address(address);
          result.set_answer(AnswerAt(round.told[target.node()], address));
        }
      }
    }
    Say(std::move(message));
  }

  void Exit(uint64_t generation) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      v1::AgentMessage exited;
      exited.mutable_rank_exited()->set_generation(generation);
      exited.mutable_rank_exited()->set_local_rank(rank);
      Say(std::move(exited));
    }
  }

  void Note(const v1::DaemonMessage& message, absl::Time now) {
    v1::Seal seal;
    const bool ids = message.has_commit() &&
                     seal.ParseFromString(message.commit().seal()) &&
                     seal.nccl_ids_size() > 0;
    const size_t bytes = message.ByteSizeLong();
    MutexLock lock(crowd_->mutex_);
    CrowdSeen& seen = crowd_->seen_;
    int reached = 0;
    if (message.has_welcome()) {
      reached = ++seen.welcomed;
      seen.last_welcome = std::max(seen.last_welcome, now);
    } else if (message.has_proposal()) {
      seen.first_proposal = std::min(seen.first_proposal, now);
      proposal_bytes_ = bytes;
    } else if (message.has_commit()) {
      reached = ++seen.committed;
      seen.ids = ids;
      seen.generation = message.commit().generation();
      seen.world_bytes = proposal_bytes_ + bytes;
      seen.last_commit = std::max(seen.last_commit, now);
    }
    if (message.has_abort()) {
      reached = ++seen.aborted;
      seen.last_abort = std::max(seen.last_abort, now);
    }
    // Nobody waits for less.
    if (reached == crowd_->dialled_) crowd_->changed_.NotifyAll();
  }

  Crowd* const crowd_;
  std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage incoming_;
  size_t proposal_bytes_ = 0;
  std::string name_;

  // Of all crowds of this process, by what is asked.
  struct Round {
    std::map<std::string, v1::Probe> told;  // Their answers alone.
    // For a node that has not heard of the round.
    std::map<std::string, std::vector<Node*>> waiting;
  };
  static inline Mutex probes_mutex_;
  static inline std::map<std::string, Round> rounds_
      ABSL_GUARDED_BY(probes_mutex_);
  v1::Probe probe_ ABSL_GUARDED_BY(probes_mutex_);
  int next_target_ ABSL_GUARDED_BY(probes_mutex_) = 0;
  Mutex mutex_;
  // Nothing is read any more.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // The front is being written.
  std::deque<v1::AgentMessage> outgoing_ ABSL_GUARDED_BY(mutex_);
};

Crowd::Crowd(CrowdOptions options) : options_(std::move(options)) {}

Crowd::~Crowd() {
  for (auto& node : nodes_) node->Cancel();
  MutexLock lock(mutex_);
  while (ended_ < dialled_) changed_.Wait(mutex_);
}

void Crowd::Attend(int count) {
  {
    MutexLock lock(mutex_);
    dialled_ += count;
  }
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<Node>(
        this, options_.first + static_cast<int>(nodes_.size())));
  }
}

bool Crowd::AwaitWelcomes(absl::Duration timeout) {
  return Await(&CrowdSeen::welcomed, "welcomes", timeout);
}
bool Crowd::AwaitCommits(absl::Duration timeout) {
  return Await(&CrowdSeen::committed, "commits", timeout);
}

bool Crowd::AwaitAborts(absl::Duration timeout) {
  return Await(&CrowdSeen::aborted, "aborts", timeout);
}

bool Crowd::Await(int CrowdSeen::*counter, const char* what,
                  absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (seen_.*counter < dialled_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration() || !seen_.failure.empty()) {
      std::fprintf(
          stderr, "bench: %d of %d %s: %s\n", seen_.*counter, dialled_, what,
          seen_.failure.empty() ? "the time is up" : seen_.failure.c_str());
      return false;
    }
    changed_.WaitFor(mutex_, left);
  }
  return true;
}

bool Crowd::Beat(absl::Duration interval, absl::Duration duration) {
  v1::AgentMessage beat;
  beat.mutable_heartbeat()->set_generation(Seen().generation);
  const absl::Duration step = interval / static_cast<double>(nodes_.size());
  const absl::Time begun = MonotonicNow();
  for (int64_t sent = 0; step * sent < duration; ++sent) {
    const absl::Time due = begun + step * sent;
    {
      MutexLock lock(mutex_);
      while (seen_.failure.empty() && MonotonicNow() < due) {
        changed_.WaitFor(mutex_, due - MonotonicNow());
      }
      if (!seen_.failure.empty()) {
        std::fprintf(stderr, "bench: heartbeats: %s\n", seen_.failure.c_str());
        return false;
      }
    }
    nodes_[static_cast<size_t>(sent) % nodes_.size()]->Say(beat);
  }
  return true;
}

CrowdSeen Crowd::Seen() {
  MutexLock lock(mutex_);
  return seen_;
}

}  // namespace rollcall::bench
