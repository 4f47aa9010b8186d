#include "client/agent/core/agent/handlers/rank_events.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent/acts/world_start.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

bool OnOrder(const AgentState& agent, const RankProcess& rank,
             const RankEnded& ended) {
  if (agent.running.has_value()) return false;
  // The agent was stopping the rank. If another signal ended it first, this may
  // be the root cause, so the daemon must know.
  const bool foreign = ended.signal == SIGSEGV || ended.signal == SIGBUS ||
                       (ended.signal == SIGKILL && agent.now < rank.kill_at);
  return !foreign;
}

void SayExited(AgentState& agent, const RankProcess& rank,
               const RankEnded& ended) {
  v1::RankExited exited;
  exited.set_generation(agent.running.has_value() ? agent.running->generation
                                                  : agent.ended_generation);
  exited.set_local_rank(ended.local_rank);
  exited.set_code(ended.code);
  exited.set_signal(ended.signal);
  exited.set_stderr_tail(ended.stderr_tail);
  exited.set_error_file(ended.error_file);
  exited.set_out_of_memory(ended.out_of_memory);
  exited.set_peak_bytes(ended.peak_bytes);
  exited.set_permanent(ended.permanent);
  exited.set_gone(ended.gone);
  exited.set_started_again(ended.started_again);
  if (agent.running.has_value()) {
    // When the agent stops a rank, SIGTERM or SIGKILL ends it.
    exited.set_killed(rank.stopping && ended.signal != 0);
    // Set with any exit code: a rank that was asked to end may save its state
    // and exit 0.
    exited.set_stopped_by_agent(rank.stopping || rank.signalled);
    if (agent.running->exits.size() >= agent.running->ranks) return;
    agent.running->exits.push_back(exited);
  }
  v1::AgentMessage message;
  *message.mutable_rank_exited() = std::move(exited);
  Tell(agent, std::move(message));
}

}  // namespace

void On(AgentState& agent, const RankAttended& attended) {
  RankProcess* rank =
      agent.FindRunning(attended.generation, attended.local_rank);
  if (rank == nullptr) return;  // It is being stopped as a plain rank.
  NoteBegun(agent, attended.local_rank, *rank);
  rank->linked = true;
  rank->unlinked = false;
  rank->elastic = attended.elastic;
  if (agent.attach) {
    Tell(agent, Report::Kind::kState,
         absl::StrCat("local rank ", attended.local_rank, " has attached"));
  }
  // Ranks that are not elastic may need a long time before their first step.
  if (attended.elastic) Watch(agent, attended.local_rank, *rank);
}

void On(AgentState& agent, const RankUnlinked& unlinked) {
  const auto at = agent.rank_processes.find(unlinked.local_rank);
  if (at == agent.rank_processes.end()) return;
  RankProcess& rank = at->second;
  rank.linked = rank.elastic = false;
  rank.unlinked = true;
  // The rank may need a long time after its last step.
  Unwatch(agent, unlinked.local_rank, rank);
  if (agent.running.has_value() || rank.ended || rank.stopping) return;
  // No later world can reach the rank. Usually its process ends soon.
  if (rank.waits.has_value() && agent.change.has_value()) {
    agent.change->SayAgain();
  }
  StopThose(agent, agent.limits.stop_grace,
            [&rank](const RankProcess& other) { return &other == &rank; });
}

void On(AgentState& agent, const RankDoubled& doubled) {
  Tell(
      agent, Report::Kind::kWarning,
      absl::StrCat("local rank ", doubled.local_rank, ": process ", doubled.pid,
                   " attaches while process ", doubled.connected_pid,
                   " is connected for it; the new one gets no world before "
                   "the other one has ended (is LOCAL_RANK right?)"));
}

void On(AgentState& agent, const RankWaits& waits) {
  const auto at = agent.rank_processes.find(waits.local_rank);
  if (at == agent.rank_processes.end() || agent.running.has_value() ||
      waits.generation != agent.ended_generation) {
    return;
  }
  RankProcess& rank = at->second;
  if (!rank.elastic || rank.ended || rank.stopping || rank.waits.has_value()) {
    return;
  }
  rank.answer_by = absl::InfiniteFuture();
  rank.at_boundary = false;
  v1::RankState& state = rank.waits.emplace();
  state.set_local_rank(waits.local_rank);
  state.set_completed_step(waits.completed_step);
  state.set_whole_state(waits.whole_state);
  SayAnswerIfDue(agent);
  SayPreparedIfReady(agent);
  StartIfSettled(agent);
}

void On(AgentState& agent, const RankEnded& ended) {
  RankProcess* rank = agent.Find(ended.generation, ended.local_rank);
  if (rank == nullptr || rank->ended) return;
  const bool on_order = OnOrder(agent, *rank, ended);
  rank->ended = true;
  rank->elastic = rank->linked = false;
  rank->answer_by = absl::InfiniteFuture();
  rank->watch.Stop();
  if (!on_order) SayExited(agent, *rank, ended);
  if (agent.running.has_value()) return SayNoticeSeenIfThere(agent);
  // The rank waited or was about to wait. The generation in preparation
  // continues without it.
  if (rank->waits.has_value() && agent.change.has_value()) {
    agent.change->SayAgain();
  }
  rank->waits.reset();
  StopThose(agent, agent.limits.stop_grace, [rank](const RankProcess& other) {
    return &other == rank && !other.stopping;
  });
}

void On(AgentState& agent, const RanksGone& gone) {
  for (const RankIncarnation& incarnation : gone.ranks) {
    if (agent.Find(incarnation.generation, incarnation.local_rank) != nullptr) {
      agent.rank_processes.erase(incarnation.local_rank);
    }
  }
  SayAnswerIfDue(agent);
  SayPreparedIfReady(agent);
  StartIfSettled(agent);
}

void On(AgentState& agent, const RankProgressed& progressed) {
  if (!agent.running.has_value() ||
      progressed.generation != agent.running->generation) {
    return;
  }
  agent.running->step = std::max(agent.running->step, progressed.step);
  if (agent.running->first_rank == 0 && progressed.pace.has_value()) {
    agent.running->pace = progressed.pace;
  }
  RankProcess* rank =
      agent.FindRunning(progressed.generation, progressed.local_rank);
  if (rank == nullptr || rank->at_boundary) return;
  NoteBegun(agent, progressed.local_rank, *rank);
  // Any change of a progress file counts as progress.
  const bool grows = progressed.step > rank->step || !rank->linked;
  rank->step = std::max(rank->step, progressed.step);
  if (grows) Watch(agent, progressed.local_rank, *rank);
}

void On(AgentState& agent, const RankSaved& saved) {
  if (!agent.running.has_value() ||
      saved.generation != agent.running->generation) {
    return;
  }
  agent.running->saved = std::max(agent.running->saved, saved.step);
  // A program may report fewer steps than checkpoints.
  agent.running->step = std::max(agent.running->step, saved.step);
}

void On(AgentState& agent, const SignalCame& came) {
  std::vector<RankIncarnation> lives;
  for (const auto& [local_rank, rank] : agent.rank_processes) {
    if (!rank.ended) lives.push_back({rank.born, local_rank});
  }
  if (!lives.empty()) {
    agent.actions.push_back(PassSignal{std::move(lives), came.signal});
  }
}

}  // namespace rollcall
