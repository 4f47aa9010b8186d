#include "tests/bench/daemon/crowd.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/core/endpoint_round.h"
#include "client/agent/core/redial_delay.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "rollcall/v1/membership.grpc.pb.h"
#include "tests/bench/daemon/hello.h"

namespace rollcall::bench {
namespace {

// Makes a channel with the settings of an agent's channel.
std::shared_ptr<grpc::Channel> MakeChannel(const CrowdOptions& options,
                                           absl::Duration patience) {
  grpc::ChannelArguments arguments;
  // Without this setting all nodes would share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  const int patience_ms = static_cast<int>(absl::ToInt64Milliseconds(patience));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, patience_ms);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, patience_ms);
  arguments.SetMaxReceiveMessageSize(-1);
  const std::string endpoint = absl::StrCat("127.0.0.1:", options.port);
  // A pin needs no file to be read, and nothing else can fail here.
  auto credentials = ChannelCredentials(options.trust, endpoint, nullptr);
  return grpc::CreateCustomChannel(endpoint, *std::move(credentials),
                                   arguments);
}

}  // namespace

// One attempt to attend and, if it succeeds, the stream. Threads other than
// gRPC's also write, so the stream keeps a hold on the call until reading has
// ended and no write is in progress.
class Crowd::Stream
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::DaemonMessage> {
 public:
  Stream(Node* node, std::shared_ptr<grpc::Channel> channel)
      : node_(node), stub_(v1::Membership::NewStub(std::move(channel))) {}

  void Begin(v1::AgentMessage hello) {
    stub_->async()->Attend(&context_, this);
    AddHold();
    Say(std::move(hello));
    StartRead(&incoming_);
    StartCall();
  }

  // Does nothing if the stream has ended.
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

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void OnReadsOver() {
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

  Node* const node_;
  const std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage incoming_;
  Mutex mutex_;
  // Reading has ended.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // The first message is being written.
  std::deque<v1::AgentMessage> outgoing_ ABSL_GUARDED_BY(mutex_);
};

class Crowd::Node {
 public:
  Node(Crowd* crowd, int index)
      : crowd_(crowd), redial_delay_(Limits().redial_first) {
    *hello_.mutable_hello() = HelloOf(index);
    name_ = hello_.hello().node();
  }

  // Requires that the node's previous stream has ended, and that no other
  // thread calls this at the same time.
  void Dial() {
    round_.Next();
    auto stream = std::make_shared<Stream>(
        this, MakeChannel(crowd_->options_, round_.patience()));
    {
      MutexLock lock(mutex_);
      stream_ = stream;
    }
    stream->Begin(hello_);
  }

  // Does nothing if no stream is open.
  void Say(v1::AgentMessage message) {
    const auto stream = Current();
    if (stream != nullptr) stream->Say(std::move(message));
  }
  void Cancel() {
    const auto stream = Current();
    if (stream != nullptr) stream->Cancel();
  }

  void Ended(const grpc::Status& status) {
    const absl::Time now = MonotonicNow();
    std::shared_ptr<Stream> stream;
    {
      MutexLock lock(mutex_);
      stream.swap(stream_);
    }
    MutexLock lock(crowd_->mutex_);
    crowd_->ended_.push_back(std::move(stream));
    --crowd_->open_;
    std::string& failure = crowd_->seen_.failure;
    if (!crowd_->over_ && !committed_ && DialsAgainAfter(status)) {
      std::uniform_real_distribution<double> jitter;
      const absl::Duration delay =
          redial_delay_.Next(jitter(crowd_->chance_), Limits().redial_max);
      crowd_->redials_.emplace(now + delay, this);
    } else if (failure.empty() &&
               status.error_code() != grpc::StatusCode::CANCELLED) {
      failure = absl::StrCat("a stream has ended, code ", status.error_code(),
                             ": ", status.error_message());
    }
    crowd_->changed_.NotifyAll();
  }

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
      case v1::DaemonMessage::kEnd:
        answer.mutable_end_seen();
        return Say(std::move(answer));
      default:
        return;
    }
  }

 private:
  // Follows the rules of Agent::Refused.
  bool DialsAgainAfter(const grpc::Status& status) {
    v1::Refusal refusal;
    if (!refusal.ParseFromString(status.error_details())) return false;
    switch (refusal.code()) {
      case v1::REFUSAL_CODE_LOST: {
        v1::Hello& hello = *hello_.mutable_hello();
        hello.set_incarnation(hello.incarnation() + (uint64_t{1} << 32));
        return true;
      }
      case v1::REFUSAL_CODE_REDIALED:
      case v1::REFUSAL_CODE_SLOW:
        return true;
      default:
        return status.error_code() == grpc::StatusCode::UNAVAILABLE;
    }
  }

  std::shared_ptr<Stream> Current() {
    MutexLock lock(mutex_);
    return stream_;
  }

  // Reports that each target was reached, but not before every target knows
  // what to answer.
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

  void Note(const v1::DaemonMessage& message, absl::Time now) {
    const size_t bytes = message.ByteSizeLong();
    MutexLock lock(crowd_->mutex_);
    CrowdSeen& seen = crowd_->seen_;
    int reached = 0;
    if (message.has_welcome()) {
      redial_delay_.LetIn();
      if (!welcomed_) reached = ++seen.welcomed;
      welcomed_ = true;
      seen.last_welcome = std::max(seen.last_welcome, now);
    } else if (message.has_proposal()) {
      proposal_bytes_ = bytes;
    } else if (message.has_commit()) {
      if (!committed_) reached = ++seen.committed;
      committed_ = true;
      seen.generation = message.commit().generation();
      seen.world_bytes = proposal_bytes_ + bytes;
      seen.last_commit = std::max(seen.last_commit, now);
    }
    if (message.has_abort()) {
      reached = ++seen.aborted;
      seen.last_abort = std::max(seen.last_abort, now);
    }
    // Waiters only wait for all nodes.
    if (reached == crowd_->dialled_) crowd_->changed_.NotifyAll();
  }

  Crowd* const crowd_;
  // Changed only while no stream is open, or by the thread that opens one.
  v1::AgentMessage hello_;
  std::string name_;
  size_t proposal_bytes_ = 0;  // Used only by the stream.
  // Used only by the thread that dials.
  EndpointRound round_{1};
  // The next three are guarded by the crowd's mutex.
  RedialDelay redial_delay_;
  bool welcomed_ = false;
  bool committed_ = false;

  // The probe rounds of all crowds of this process, by Probe.ask.
  struct Round {
    std::map<std::string, v1::Probe> told;  // By node: a probe's `answers`.
    // Nodes that wait until the node with this name has been told.
    std::map<std::string, std::vector<Node*>> waiting;
  };
  static inline Mutex probes_mutex_;
  static inline std::map<std::string, Round> rounds_
      ABSL_GUARDED_BY(probes_mutex_);
  v1::Probe probe_ ABSL_GUARDED_BY(probes_mutex_);
  int next_target_ ABSL_GUARDED_BY(probes_mutex_) = 0;
  Mutex mutex_;
  // Shared, because a writer may still use a stream that is being replaced.
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

void Crowd::Stream::OnReadDone(bool ok) {
  if (!ok) return OnReadsOver();
  node_->Hear(incoming_);
  StartRead(&incoming_);
}

void Crowd::Stream::OnDone(const grpc::Status& status) { node_->Ended(status); }

Crowd::Crowd(CrowdOptions options)
    : options_(std::move(options)), redialling_([this] { Redial(); }) {}

Crowd::~Crowd() {
  {
    MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }
  redialling_.join();
  for (auto& node : nodes_) node->Cancel();
  MutexLock lock(mutex_);
  while (open_ > 0) changed_.Wait(mutex_);
}

void Crowd::Attend(int count) {
  {
    MutexLock lock(mutex_);
    dialled_ += count;
    open_ += count;
  }
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<Node>(
        this, options_.first + static_cast<int>(nodes_.size())));
    nodes_.back()->Dial();
  }
}

void Crowd::Redial() {
  for (;;) {
    // Ended streams are destroyed here, since their channels would connect
    // again by themselves, and a thread of gRPC cannot destroy the last channel
    // of a process.
    std::vector<std::shared_ptr<Stream>> ended;
    Node* node = nullptr;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (over_) return;
        const absl::Duration left =
            redials_.empty() ? absl::Hours(1)
                             : redials_.begin()->first - MonotonicNow();
        if (left <= absl::ZeroDuration()) {
          node = redials_.begin()->second;
          redials_.erase(redials_.begin());
          ++open_;
          ++seen_.redials;
        }
        ended.swap(ended_);
        if (node != nullptr || !ended.empty()) break;
        changed_.WaitFor(mutex_, left);
      }
    }
    ended.clear();
    if (node != nullptr) node->Dial();
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
          stderr, "bench: %d of %d %s, %d welcomes, %d redials: %s\n",
          seen_.*counter, dialled_, what, seen_.welcomed, seen_.redials,
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
