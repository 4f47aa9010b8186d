// Node: one machine with its agent (the real Agent core), its ranks and its
// clock.
//
// The shell around the agent does what client/agent/session does. It hands over
// one event after the other, ignores messages of older streams, and ticks when
// a tick is due. Preparations take time and may fail. The guard kills the ranks
// within a second of the agent's death, and the next life of the agent sweeps
// what is left.
#ifndef ROLLCALL_TESTS_SIM_NODES_NODE_H_
#define ROLLCALL_TESTS_SIM_NODES_NODE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/core/agent/agent.h"
#include "client/agent/core/endpoint_round.h"
#include "client/agent/link/agent_incarnations.h"
#include "client/agent/link/named_leader.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/network.h"
#include "tests/sim/nodes/ranks.h"
#include "tests/sim/nodes/trainer.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

struct NodeSettings {
  std::string job;
  uint32_t number = 0;  // Among all machines, and in the network.
  std::string name;
  uint32_t ranks = 1;
  bool linked = false;
  bool launcher = false;
  // --once: the command runs on node rank 0 alone.
  bool once = false;
  absl::Duration join_timeout;
  // The number of daemons. With several, each life of the agent finds out again
  // which one to dial, and the agent brings the job's settings, because such a
  // daemon has them only from its agents.
  uint32_t daemons = 1;
  std::optional<v1::JobSettings> job_settings;
};

class Node {
 public:
  Node(World& world, Network& network, InvariantChecker& checker,
       Trainer& trainer, const NodeSettings& settings, Clock clock);

  // --- Faults and requests ---------------------------------------------------

  // Gives the machine another name. Only while no agent runs.
  void Rename(std::string name) {
    settings_.name = std::move(name);
    recorded_.clear();
  }
  // Starts a new life of its agent, if none runs.
  void Start();
  // The agent's process dies. `power`: the whole machine loses power, so the
  // other side is not told.
  void Crash(bool power);
  // Nothing on the machine runs until `until`.
  void Freeze(Nanos until);
  void FailRank(uint32_t local_rank, int code, int signal);
  // The rank makes no progress from now on until `until`; kNever: for good.
  void HangRank(uint32_t local_rank, Nanos until);
  // No signal ends the rank before `until`.
  void StickRank(uint32_t local_rank, Nanos until);
  void AskLeave(int signal);
  // The next preparation fails, or takes `delay` longer.
  void RefuseNext() { refuse_next_ = true; }
  void DelayNext(Nanos delay) { delay_next_ = delay; }
  // From now on, its checks find something fatal.
  void FallSick() { sick_ = true; }
  void Calm();
  // The last Hello that an earlier life of its agent sent.
  const std::optional<v1::Hello>& old_hello() const { return old_hello_; }

  // --- From the network, the clock and the ranks -----------------------------

  void Take(StreamId stream, Parcel& parcel);
  void OnTick(uint64_t life);
  void OnThaw();
  void OnPrepared(uint64_t preparation);
  void OnRankActs(uint64_t deed);
  void OnChecked(uint64_t request);
  void OnProbed(uint64_t number);
  void OnSetUp(uint64_t life);

  bool alive() const { return agent_.has_value(); }
  bool frozen() const { return world_.now() < frozen_until_; }
  Ranks& ranks() { return ranks_; }
  // The exit code, if the agent has exited by itself.
  const std::optional<int>& exit_code() const { return exit_code_; }
  const NodeSettings& settings() const { return settings_; }
  uint64_t incarnation() const { return incarnation_; }
  // The number of the agent's life, and what that life has heard and done.
  uint64_t life() const { return life_; }
  const LifeRecord& record() const { return record_; }
  // The stream to the daemon; 0: none.
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
  void Do(const RunGroupCheck&) {}
  void Do(const AnswerExchange&) {}
  void Do(const AnswerStore& answer);
  void Do(const FailRequests&) {}
  void Do(const RunSetup& run);
  void Do(const StopSetupCommand& stop);
  void Do(const Report& report);
  void Do(const Exit& exit);

  World& world_;
  Network& network_;
  InvariantChecker& checker_;
  Trainer& trainer_;
  NodeSettings settings_;
  const Clock clock_;

  // The state of one life of the agent.
  uint64_t life_ = 0;
  uint64_t incarnation_ = 0;
  std::optional<Agent> agent_;
  LifeRecord record_;
  StreamId stream_ = 0;
  EndpointRound round_{1};
  std::optional<NamedLeader> leader_;                   // Set in each life.
  std::vector<std::pair<StreamId, AgentEvent>> inbox_;  // Events that arrive
                                                        // while it is frozen.
  Nanos tick_at_ = kNever;
  uint32_t subnet_ = 0;  // The subnet of its address.
  std::optional<int> exit_code_;
  std::optional<v1::Hello> hello_said_;
  std::optional<v1::Hello> old_hello_;
  v1::Facts told_;  // The facts that the daemon was told last.
  // The nonces of this life.
  std::optional<AgentIncarnations> incarnations_;
  // As in client/agent/node_files/run_folder: the recorded nonces of earlier
  // lives of this name.
  std::deque<std::string> recorded_;

  // The state of the machine.
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

#endif  // ROLLCALL_TESTS_SIM_NODES_NODE_H_
