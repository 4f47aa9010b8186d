// Part of InvariantChecker: what agents and ranks do.
#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/formation/state_source.h"
#include "daemon/core/formation/world.h"
#include "tests/sim/checker/invariant_checker.h"

namespace rollcall::sim {

// --- Agents ------------------------------------------------------------------

void InvariantChecker::Hears(LifeRecord& life, const v1::DaemonMessage& m) {
  if (m.has_welcome() && m.welcome().run() != life.run) {
    life.run = m.welcome().run();
    life.generation_heard = 0;
  }
  if (m.has_end() && !life.end.has_value()) {
    life.end = m.end();
    life.end_of = life.run;
  }
  if (life.goes_at_once) return;
  uint64_t generation = 0;
  if (m.has_welcome()) {
    Agents& agents = agents_[{m.welcome().run(), life.name}];
    const auto let_in = agents.let_in.find(life.incarnation);
    if (let_in != agents.let_in.end()) {
      agents.welcomed = std::max(agents.welcomed, let_in->second);
    }
  }
  if (m.has_proposal()) generation = m.proposal().generation();
  if (m.has_abort()) generation = m.abort().generation();
  if (m.has_commit()) {
    generation = m.commit().generation();
    life.committed_heard = std::max(life.committed_heard, generation);
  }
  if (m.has_commit() && generation == life.started && generation > 0) {
    Tested(Invariant::kStartedOnce);
  }
  if (generation > 0 && generation < life.generation_heard) {
    Tested(Invariant::kNoOlder);
  }
  life.generation_heard = std::max(life.generation_heard, generation);
}

void InvariantChecker::Says(LifeRecord& life, const v1::AgentMessage& m,
                            bool ranks_live) {
  if (life.exited) {
    Broken(Invariant::kExitIsLast, absl::StrCat(life.name, " still speaks"));
  }
  if (m.has_hello()) {
    life.incarnation = m.hello().incarnation();
    const v1::ResumeState& resume_state = m.hello().resume_state();
    if (!resume_state.world().empty()) Tested(Invariant::kBounded);
    if (resume_state.world().size() + resume_state.world_commit().size() >
        Limits::resume_state_world_bytes_max) {
      Broken(Invariant::kBounded, absl::StrCat(life.name, " holds too much"));
    }
    if (m.hello().generation_seen() < life.started) {
      Broken(Invariant::kNoOlder,
             absl::StrCat(life.name, " forgot what it has seen"));
    }
  }
  if (m.has_stopped() && m.stopped().generation() < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(life.name, " stops its ranks for ",
                        m.stopped().generation(), " and has seen ",
                        life.generation_heard));
  }
  if (!m.has_prepared()) return;
  const uint64_t generation = m.prepared().generation();
  if (life.started > 0) Tested(Invariant::kPreparedMeansGone);
  if (ranks_live) {
    Broken(Invariant::kPreparedMeansGone,
           absl::StrCat(life.name, " is prepared for ", generation));
  }
  if (generation < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(life.name, " is prepared for ", generation,
                        " and has seen ", life.generation_heard));
  }
  life.prepared_said = generation;
  brought_[generation][life.name].push_back(m.prepared());
}

void InvariantChecker::Prepares(LifeRecord& life, const Prepare& prepare) {
  if (life.exited) {
    Broken(Invariant::kExitIsLast, absl::StrCat(life.name, " still prepares"));
  }
  if (prepare.world.generation() < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(life.name, " prepares for ", prepare.world.generation(),
                        " and has seen ", life.generation_heard));
  }
}

void InvariantChecker::Minted(uint64_t generation,
                              const std::vector<std::string>& ids,
                              uint32_t port) {
  for (const std::string& id : ids) ids_[id] = generation;
  minted_[generation] = {ids, port};
}

void InvariantChecker::Starts(LifeRecord& life, const StartRanks& start,
                              bool ranks_live) {
  const uint64_t generation = start.world.generation();
  const std::string who =
      absl::StrCat(life.name, " starts ranks of generation ", generation);
  if (life.exited) Broken(Invariant::kExitIsLast, who);
  if (ranks_live && generation != life.started) {
    Broken(Invariant::kOneGenerationANode, who);
  }
  if (generation < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(who, " and has seen ", life.generation_heard));
  }
  if (life.started > 0) Tested(Invariant::kOneGenerationANode);
  if (started_.contains(generation)) Tested(Invariant::kSameBytes);
  if (minted_.size() > 1) Tested(Invariant::kFreshIds);
  if (generation != life.prepared_said || generation != life.committed_heard ||
      generation <= life.started) {
    Broken(Invariant::kStartedOnce, who);
  }
  life.started = generation;
  started_.insert(generation);
  const Told& told = told_[generation];
  if (EncodeWorld(start.world) != told.world ||
      start.world_commit.SerializeAsString() != told.world_commit) {
    Broken(Invariant::kSameBytes, who);
  }
  CheckStateSource(who, start);
  for (const std::string& id : start.world_commit.nccl_ids()) {
    const auto at = ids_.find(id);
    if (at == ids_.end() || at->second != generation) {
      Broken(Invariant::kFreshIds, who);
    }
  }
  const auto minted = minted_.find(generation);
  if (minted == minted_.end() ||
      minted->second.second != start.world_commit.master_port()) {
    Broken(Invariant::kFreshIds,
           absl::StrCat(who, ", port ", start.world_commit.master_port()));
  }
}

// A node may report its state several times, with different values. The daemon
// uses the last report that it gets before all nodes have reported.
void InvariantChecker::CheckStateSource(const std::string& who,
                                        const StartRanks& start) {
  int64_t least = -1;
  int64_t most = -1;
  bool held = false;
  std::vector<int64_t> claims;  // For each node, the least that it reported.
  const v1::StateSource& source = start.world_commit.state_source();
  for (const v1::Member& member : start.world.members()) {
    int64_t worst = INT64_MAX;
    for (const v1::Prepared& said :
         brought_[start.world.generation()][member.node()]) {
      int64_t best = -1;
      for (const v1::RankState& state : said.states()) {
        if (!state.whole_state()) continue;
        const auto step = static_cast<int64_t>(state.completed_step());
        best = std::max(best, step);
        held =
            held || (state.completed_step() == source.step() &&
                     member.first_rank() + state.local_rank() == source.rank());
      }
      most = std::max(most, best);
      worst = std::min(worst, best);
    }
    if (worst != INT64_MAX) least = std::max(least, worst);
    if (worst != INT64_MAX && worst >= 0) claims.push_back(worst);
  }
  const auto step = static_cast<int64_t>(source.step());
  // With three claims or more, one that is far above their median is not used.
  bool passed_over = false;
  if (claims.size() >= kStateClaimsToCompare) {
    std::sort(claims.begin(), claims.end());
    const int64_t median = claims[(claims.size() - 1) / 2];
    passed_over = step >= median && least > median + 1;
  }
  if (most >= 0) Tested(Invariant::kStateGoesOn);
  const bool fits = start.world_commit.has_state_source()
                        ? held && (step >= least || passed_over) && step <= most
                        : least < 0;
  if (fits) return;
  Broken(Invariant::kStateGoesOn,
         absl::StrCat(who, " with ", source.ShortDebugString(), "; ", least,
                      " to ", most, " were brought"));
}

void InvariantChecker::Exits(LifeRecord& life, const Exit& exit,
                             bool ranks_live) {
  if (life.started > 0) Tested(Invariant::kExitIsLast);
  if (ranks_live || life.exited) Broken(Invariant::kExitIsLast, life.name);
  life.exited = true;
  if (!life.end.has_value()) return;
  Tested(Invariant::kExitsAsTold);
  const v1::End& end = *life.end;
  const bool left = end.code() == v1::REASON_CODE_LEAVING;
  // After Ctrl-C, the code is the one that shells expect.
  const int code =
      left && life.leave_signal == SIGINT ? 128 + SIGINT : end.exit_code();
  if (exit.code != code || exit.reason != end.reason()) {
    Broken(Invariant::kExitsAsTold,
           absl::StrCat(life.name, " exits ", exit.code, " (", exit.reason,
                        ") and was told ", end.exit_code(), " (", end.reason(),
                        ")"));
  }
  const auto told = ends_told_.find(life.end_of);
  if (left || told == ends_told_.end()) return;
  const bool never_served = life.started == 0 && end.exit_code() == 0;
  if ((end.exit_code() == told->second.exit_code() || never_served) &&
      end.code() == told->second.code()) {
    return;
  }
  Broken(Invariant::kExitsAsTold,
         absl::StrCat(life.name, " was told ", end.ShortDebugString(),
                      ", and the job ended with ",
                      told->second.ShortDebugString()));
}

void InvariantChecker::ExitedAfterEnd(const LifeRecord& life) {
  if (life.end.has_value()) return;
  Broken(Invariant::kExitsAsTold,
         absl::StrCat(life.name,
                      " attended when the job ended, and never heard of it"));
}

std::optional<v1::Proposal> InvariantChecker::OlderProposal(
    const LifeRecord& life) {
  const uint64_t run = life.generation_heard / kGenerationsARun;
  auto at = told_.lower_bound(life.generation_heard);
  if (at == told_.begin()) return std::nullopt;
  --at;
  const auto world = DecodeWorld(at->second.world);
  if (at->first / kGenerationsARun != run || !world.ok() ||
      world->run() != life.run) {
    return std::nullopt;
  }
  v1::Proposal proposal;
  proposal.set_generation(at->first);
  proposal.set_world(at->second.world);
  return proposal;
}

void InvariantChecker::AgentTicked(const LifeRecord& life, const Agent& agent,
                                   absl::Time now) {
  if (agent.NextDeadline() > now) return;
  Broken(
      Invariant::kNothingLeftDue,
      absl::StrCat("the agent of ", life.name, " asks for a moment ",
                   absl::FormatDuration(now - agent.NextDeadline()), " ago"));
}

std::optional<v1::Commit> InvariantChecker::LatestCommit(
    const LifeRecord& life) const {
  const auto at = told_.find(life.started);
  if (at == told_.end() || at->second.world_commit.empty()) return std::nullopt;
  v1::Commit commit;
  commit.set_generation(life.started);
  commit.set_world_commit(at->second.world_commit);
  return commit;
}

// --- Ranks -------------------------------------------------------------------

void InvariantChecker::Counted(uint64_t generation, int64_t seen, int64_t sum) {
  Tested(Invariant::kStoredOnce);
  const bool fresh = sums_.emplace(generation, sum).second;
  if (!fresh || sum <= seen) {
    Broken(Invariant::kStoredOnce,
           absl::StrCat("generation ", generation, ": an addition gives ", sum,
                        fresh ? absl::StrCat("; ", seen, " was seen before")
                              : ", and so did another one"));
  }
  World::Counter& counter = world_.counters[generation];
  if (sum > counter.asked) {
    Broken(Invariant::kStoredOnce,
           absl::StrCat("generation ", generation, ": ", counter.asked,
                        " additions of 1 give ", sum));
  }
  counter.seen = std::max(counter.seen, sum);
}

void InvariantChecker::Stepped(uint64_t generation) {
  if (!stepped_.empty() && !stepped_.contains(generation)) {
    Tested(Invariant::kOneGenerationSteps);
  }
  const auto newer = stepped_.upper_bound(generation);
  // Generations of another run are not compared.
  if (newer != stepped_.end() && !excepted_.contains(generation) &&
      *newer / kGenerationsARun == generation / kGenerationsARun) {
    Broken(Invariant::kOneGenerationSteps,
           absl::StrCat("generation ", generation, " steps after ", *newer,
                        " did"));
  }
  stepped_.insert(generation);
}

}  // namespace rollcall::sim
