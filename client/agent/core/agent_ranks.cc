// Agent: what ranks do, and what they exchange.
#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/base/printable.h"

namespace rollcall {
namespace {

constexpr size_t kExchangeErrorBytesMax = 4 << 10;

}  // namespace

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
  // It waited or was about to wait; the generation in preparation continues
  // without it.
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
  // The agent stopped it. If another signal ended it first, the daemon still
  // needs to know, because that may be the root cause.
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
  exited.set_permanent(ended.permanent);
  if (running_.has_value()) {
    const bool killed = rank.stopping && ended.signal == SIGKILL;
    // Applies to any exit code: the rank was asked to end, and some save and
    // exit 0.
    exited.set_stopped_by_agent(killed || rank.signalled);
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
  // For a progress file, any change counts as progress.
  const bool grows = progressed.step > rank->step || !rank->linked;
  rank->step = std::max(rank->step, progressed.step);
  if (grows) Watch(progressed.local_rank, *rank);
}

void Agent::On(const RankExchanged& exchanged) {
  const uint64_t generation = exchanged.generation;
  if (!running_.has_value() || generation != running_->generation) {
    actions_.push_back(FailExchanges{
        generation, absl::StrCat("generation ", generation, " has ended")});
    return;
  }
  for (const v1::ExchangeOut& out : answered_) {
    if (out.key() != exchanged.key) continue;
    const uint32_t rank = running_->first_rank + exchanged.local_rank;
    if (exchanged.local_rank >= running_->ranks ||
        out.values(static_cast<int>(rank)) != exchanged.value) {
      return RefuseExchange(exchanged.key, absl::StatusCode::kInvalidArgument,
                            absl::StrCat("key '", exchanged.key,
                                         "' was given another value before; "
                                         "use a fresh key"));
    }
    actions_.push_back(AnswerExchange{out});
    return;
  }
  const auto [at, fresh] = exchanges_.try_emplace(exchanged.key);
  if (fresh && exchanges_.size() > Limits::exchanges_open_max) {
    exchanges_.erase(at);
    return RefuseExchange(exchanged.key, absl::StatusCode::kResourceExhausted,
                          absl::StrCat("over ", Limits::exchanges_open_max,
                                       " keys are open at once"));
  }
  Exchange& exchange = at->second;
  exchange.values.resize(running_->ranks);
  if (exchanged.local_rank >= running_->ranks || exchange.said) return;
  exchange.values[exchanged.local_rank] = exchanged.value;
  const bool all = std::all_of(exchange.values.begin(), exchange.values.end(),
                               [](const auto& v) { return v.has_value(); });
  if (all) SayExchange(exchanged.key, exchange);
}

void Agent::SayExchange(const std::string& key, Exchange& exchange) {
  exchange.said = true;
  v1::AgentMessage message;
  v1::ExchangeIn& in = *message.mutable_exchange();
  in.set_generation(running_->generation);
  in.set_key(key);
  for (const std::optional<std::string>& value : exchange.values) {
    in.add_values(*value);
  }
  Tell(std::move(message));
}

// A restarted daemon has forgotten which keys were complete. Nodes that did not
// receive the answer need our values again.
void Agent::SayAnswered() {
  for (const v1::ExchangeOut& out : answered_) {
    v1::AgentMessage message;
    v1::ExchangeIn& in = *message.mutable_exchange();
    in.set_generation(running_->generation);
    in.set_key(out.key());
    for (uint32_t i = 0; i < running_->ranks; ++i) {
      in.add_values(out.values(static_cast<int>(running_->first_rank + i)));
    }
    Tell(std::move(message));
  }
}

void Agent::RefuseExchange(const std::string& key, absl::StatusCode code,
                           const std::string& why) {
  v1::ExchangeOut out;
  out.set_generation(running_->generation);
  out.set_key(key);
  out.set_code(static_cast<uint32_t>(code));
  out.set_error(why);
  actions_.push_back(AnswerExchange{std::move(out)});
}

void Agent::OnExchange(const v1::ExchangeOut& exchange) {
  if (!running_.has_value() || exchange.generation() != running_->generation ||
      exchanges_.erase(exchange.key()) == 0) {
    return;
  }
  if (exchange.code() != 0) {
    return RefuseExchange(exchange.key(),
                          static_cast<absl::StatusCode>(exchange.code()),
                          Printable(exchange.error(), kExchangeErrorBytesMax));
  }
  if (exchange.values_size() != running_->world_size) {
    return RefuseExchange(exchange.key(), absl::StatusCode::kInternal,
                          "the answer has not one value a rank");
  }
  answered_.push_back(exchange);
  answered_.back().clear_error();
  if (answered_.size() > Limits::answers_kept) {
    answered_.erase(answered_.begin());
  }
  actions_.push_back(AnswerExchange{answered_.back()});
}

}  // namespace rollcall
