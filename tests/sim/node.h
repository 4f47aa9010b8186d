// Node: one machine with its agent (the real Agent core), its ranks and its
// clock.
//
// The shell around the agent does what client/agent/session does: one event
// after the other, what an older stream still says is not heard, a tick when
// one is due. Preparations take their time and may fail; the guard takes the
// ranks along within a second of the agent's death, and the next life sweeps
// what is left.
#ifndef ROLLCALL_TESTS_SIM_NODE_H_
#define ROLLCALL_TESTS_SIM_NODE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/core/agent.h"
#include "client/agent/core/endpoint_round.h"
#include "client/agent/link/agent_incarnations.h"
#include "client/agent/link/named_leader.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/network.h"
#include "tests/sim/ranks.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

struct NodeSettings {
  std::string job;
  uint32_t number = 0;  // Among all machines; also its place in the network.
  std::string name;
  uint32_t ranks = 1;
  bool linked = false;
  bool launcher = false;
  // --once: the command runs on node rank 0 alone.
  bool once = false;
  absl::Duration join_timeout;
  // Which of several daemons is dialled is found out by each life again; with
  // the job's settings, since such a daemon has them from its agents.
  uint32_t daemons = 1;
  std::optional<v1::JobSettings> job_settings;
};

class Node {
 public:
  Node(World& world, Network& network, InvariantChecker& checker,
       Trainer& trainer, const NodeSettings& settings, Clock clock);

  // --- What befalls it -------------------------------------------------------

  // By another name; where no agent lives.
  void Rename(std::string name) {
    settings_.name = std::move(name);
    recorded_.clear();
  }
  // A new life of its agent; nothing happens where one lives.
  void Start();
  // Its agent's process dies; `power`: the whole machine, silently.
  void Crash(bool power);
  // Nothing on it runs until then.
  void Freeze(Nanos until);
  void FailRank(uint32_t local_rank, int code, int signal);
  // A rank stands still from now on, until then; kNever: for good.
  void HangRank(uint32_t local_rank, Nanos until);
  // No signal ends it before then.
  void StickRank(uint32_t local_rank, Nanos until);
  void AskLeave(int signal);
  // The next preparation fails, or takes that long.
  void RefuseNext() { refuse_next_ = true; }
  void DelayNext(Nanos delay) { delay_next_ = delay; }
  // Its checks find something fatal from now on.
  void FallSick() { sick_ = true; }
  void Calm();
  // The last Hello of an earlier life, as its agent said it.
  const std::optional<v1::Hello>& old_hello() const { return old_hello_; }

  // --- From the network, the clock and the ranks -----------------------------

  void Take(StreamId stream, Parcel& parcel);
  void OnTick(uint64_t life);
  void OnThaw();
  void OnPrepared(uint64_t preparation);
  void OnRankActs(uint64_t deed);
  void OnChecked(uint64_t request);
  void OnProbed(uint64_t number);

  bool alive() const { return agent_.has_value(); }
  bool frozen() const { return world_.now() < frozen_until_; }
  Ranks& ranks() { return ranks_; }
  // The agent has ended by itself, with this code.
  const std::optional<int>& exit_code() const { return exit_code_; }
  const NodeSettings& settings() const { return settings_; }
  uint64_t incarnation() const { return incarnation_; }
  // Which life of its agent it is, and what that has heard and done.
  uint64_t life() const { return life_; }
  const LifeRecord& record() const { return record_; }
  // To the daemon; 0: there is none.
  StreamId stream() const { return stream_; }

 private:
  struct Preparation {
    uint64_t number = 0;
    uint64_t generation = 0;
    bool first = false;
  };

  absl::Time Local() const { return clock_.At(world_.now()); }
  std::string Address() const;
  v1::Facts Facts() const;
  void MaybeRenumber(uint32_t one_in);
  void TellNewFacts();
  void Feed(StreamId stream, AgentEvent event);
  void Handle(StreamId stream, const AgentEvent& event);
  void Step(const AgentEvent& event);
  void TickIfDue();
  void AskForTick();
  uint32_t NextDaemon();
  StreamDown Down(absl::Status status, std::optional<v1::Refusal> refusal);

  void Do(const Dial& dial);
  void Do(const Say& say);
  void Do(const Prepare& prepare);
  void Do(const Undo& undo);
  void Do(const StartRanks& start);
  void Do(const StopRanks& stop) { ranks_.Stop(stop); }
  void Do(const AbortRanks& abort) { ranks_.Abort(abort); }
  void Do(const PassSignal& pass) { ranks_.Signal(pass); }
  void Do(const TellNotice& notice) { ranks_.Tell(notice); }
  void Do(const LookAtRank& look) { ranks_.Look(look); }
  void Do(const RunChecks& run);
  void Do(const RunProbe& run);
  void Do(const AnswerExchange&) {}
  void Do(const AnswerStore& answer);
  void Do(const FailRequests&) {}
  void Do(const Report& report);
  void Do(const Exit& exit);

  World& world_;
  Network& network_;
  InvariantChecker& checker_;
  Trainer& trainer_;
  NodeSettings settings_;
  const Clock clock_;

  // One life of the agent.
  uint64_t life_ = 0;
  uint64_t incarnation_ = 0;
  std::optional<Agent> agent_;
  LifeRecord record_;
  StreamId stream_ = 0;
  EndpointRound round_{1};
  std::optional<NamedLeader> leader_;                   // Set in each life.
  std::vector<std::pair<StreamId, AgentEvent>> inbox_;  // While frozen.
  Nanos tick_at_ = kNever;
  uint32_t subnet_ = 0;  // Of its address.
  std::optional<int> exit_code_;
  std::optional<v1::Hello> hello_said_;
  std::optional<v1::Hello> old_hello_;
  v1::Facts told_;  // To the daemon, last.
  // The nonces of this life.
  std::optional<AgentIncarnations> incarnations_;
  // As in client/agent/node_files/run_folder: nonces of lives by this name.
  std::deque<std::string> recorded_;

  // The machine.
  Nanos frozen_until_ = 0;
  bool refuse_next_ = false;
  Nanos delay_next_ = 0;
  Preparation preparation_;
  uint64_t preparations_ = 0;
  Ranks ranks_;
  bool sick_ = false;
  // The latest round of probes that this node was told of.
  v1::Probe probe_;
  uint64_t probes_ = 0;
  Nanos probe_until_ = 0;
  uint64_t step_told_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_NODE_H_
