// Agent: exits, progress and requests of ranks.
#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"

namespace rollcall {

Agent::RankProcess* Agent::Find(uint64_t born, uint32_t local_rank) {
  const auto at = rank_processes_.find(local_rank);
  if (at == rank_processes_.end() || at->second.born != born) return nullptr;
  return &at->second;
}

void Agent::On(const RankEnded& ended) {
  RankProcess* rank = Find(ended.generation, ended.local_rank);
  if (rank == nullptr || rank->ended) return;
  const bool on_order = OnOrder(*rank, ended);
  rank->ended = true;
  rank->elastic = rank->linked = false;
  rank->answer_by = rank->hangs_at = absl::InfiniteFuture();
  rank->stall.reset();
  if (!on_order) SayExited(*rank, ended);
  if (running_.has_value()) return SayNoticeSeenIfThere();
  // The rank waited or was about to wait. The generation in preparation
  // continues without it.
  if (rank->waits.has_value() && preparing_.has_value()) {
    preparing_->said = false;
  }
  rank->waits.reset();
  StopThose(limits_.stop_grace, [rank](const RankProcess& other) {
    return &other == rank && !other.stopping;
  });
}

bool Agent::OnOrder(const RankProcess& rank, const RankEnded& ended) const {
  if (running_.has_value()) return false;
  // The agent was stopping the rank. If another signal ended it first, this may
  // be the root cause, so the daemon must know.
  const bool foreign = ended.signal == SIGSEGV || ended.signal == SIGBUS ||
                       (ended.signal == SIGKILL && now_ < rank.kill_at);
  return !foreign;
}

void Agent::SayExited(const RankProcess& rank, const RankEnded& ended) {
  v1::RankExited exited;
  exited.set_generation(running_.has_value() ? running_->generation
                                             : ended_generation_);
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
  if (running_.has_value()) {
    // When the agent stops a rank, SIGTERM or SIGKILL ends it.
    exited.set_killed(rank.stopping && ended.signal != 0);
    // Set with any exit code: a rank that was asked to end may save its state
    // and exit 0.
    exited.set_stopped_by_agent(rank.stopping || rank.signalled);
    if (running_->exits.size() >= running_->ranks) return;
    running_->exits.push_back(exited);
  }
  v1::AgentMessage message;
  *message.mutable_rank_exited() = std::move(exited);
  Tell(std::move(message));
}

void Agent::On(const RanksGone& gone) {
  for (const RankIncarnation& incarnation : gone.ranks) {
    if (Find(incarnation.generation, incarnation.local_rank) != nullptr) {
      rank_processes_.erase(incarnation.local_rank);
    }
  }
  SayStoppedIfSettled();
  SayPreparedIfReady();
  StartIfSettled();
}

void Agent::On(const RankProgressed& progressed) {
  if (!running_.has_value() || progressed.generation != running_->generation) {
    return;
  }
  running_->step = std::max(running_->step, progressed.step);
  if (running_->first_rank == 0 && progressed.pace.has_value()) {
    running_->pace = progressed.pace;
  }
  RankProcess* rank = Attending(progressed.generation, progressed.local_rank);
  if (rank == nullptr || rank->at_boundary) return;
  NoteBegun(progressed.local_rank, *rank);
  // Any change of a progress file counts as progress.
  const bool grows = progressed.step > rank->step || !rank->linked;
  rank->step = std::max(rank->step, progressed.step);
  if (grows) Watch(progressed.local_rank, *rank);
}

void Agent::On(const RankSaved& saved) {
  if (!running_.has_value() || saved.generation != running_->generation) return;
  running_->saved = std::max(running_->saved, saved.step);
  // A program may report fewer steps than checkpoints.
  running_->step = std::max(running_->step, saved.step);
}

void Agent::On(const RankExchanged& exchanged) {
  const uint64_t generation = exchanged.generation;
  if (!running_.has_value() || generation != running_->generation) {
    actions_.push_back(FailRequests{
        generation, absl::StrCat("generation ", generation, " has ended")});
    return;
  }
  NodeExchanges::Outcome outcome = exchanges_.Take(exchanged);
  if (auto* answer = std::get_if<AnswerExchange>(&outcome)) {
    actions_.push_back(std::move(*answer));
  } else if (auto* values = std::get_if<v1::ExchangeIn>(&outcome)) {
    v1::AgentMessage message;
    *message.mutable_exchange() = std::move(*values);
    Tell(std::move(message));
  }
}

void Agent::OnExchange(const v1::ExchangeOut& exchange) {
  std::optional<AnswerExchange> answer = exchanges_.Answer(exchange);
  if (answer.has_value()) actions_.push_back(*std::move(answer));
}

void Agent::On(const RankAsksStore& asks) {
  if (!running_.has_value() || asks.generation != running_->generation) {
    actions_.push_back(FailRequests{
        asks.generation,
        absl::StrCat("generation ", asks.generation, " has ended")});
    return;
  }
  Carry(store_.Take(asks));
}

void Agent::On(const StoreCancelled& gave_up) {
  Carry(store_.Cancel(gave_up.tickets));
}

void Agent::Carry(NodeStore::Outcome outcome) {
  for (v1::StoreIn& in : outcome.said) {
    v1::AgentMessage message;
    *message.mutable_store() = std::move(in);
    Tell(std::move(message));
  }
  for (AnswerStore& answer : outcome.answers) {
    actions_.push_back(std::move(answer));
  }
}

}  // namespace rollcall
