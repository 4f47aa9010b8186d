#include "daemon/core/job/handlers/committing.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/formation/state_source.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/acts/first_steps.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/standing.h"
#include "daemon/core/job/handlers/forming.h"

namespace rollcall {
namespace {

void TakeUpStates(Node& node, const v1::Prepared& prepared) {
  node.ranks.state_held.reset();
  for (const v1::RankState& state : prepared.states()) {
    if (!state.whole_state() || state.local_rank() >= node.hello.ranks()) {
      continue;
    }
    if (!node.ranks.state_held.has_value() ||
        state.completed_step() > node.ranks.state_held->completed_step()) {
      node.ranks.state_held = state;
    }
  }
}

std::optional<v1::StateSource> FindStateSource(JobState& job) {
  SourceChoice choice =
      ChooseSource(job.world(), job.membership, job.generations);
  for (const SourceChoice::Doubt& doubt : choice.doubts) {
    job.out.SayOf(job.membership.At(doubt.node), Log::Level::kWarning,
                  absl::StrCat("event=warning node=", doubt.node,
                               " text=", Quoted(doubt.text)));
  }
  return std::move(choice.source);
}

void Commit(JobState& job) {
  const v1::WorldCommit& world_commit = job.formation.Commit(
      job.membership, job.credentials.epochs(), FindStateSource(job));
  job.phase = JobPhase::kRunning;
  job.gathering.fence() = Fence();
  job.vetting.probes().PingLater(job.now, job.limits);
  job.completion =
      Completion(job.world(), /*taken_up=*/false, job.now, job.membership);
  if (job.completion.some(job.world())) {
    job.waiting.TellAt(job.now + absl::Minutes(1));
  }
  for (const v1::Member& member : job.world().members()) {
    Node& node = job.membership.At(member.node());
    if (node.session != 0) node.state = v1::NODE_STATE_RUNNING;
    node.served_in = job.generation();
    node.ranks.step_before = node.ranks.step;
    job.vetting.Joined(node.name());
    node.joined_at = std::min(node.joined_at, job.now);
  }
  job.generations.Committed();
  job.exchanges.Begin(job.generation(), RanksOf(job.world()));
  job.store.Begin(job.generation(),
                  static_cast<uint32_t>(job.world().members_size()));
  job.out.Write(Journal::Kind::kCommitted, job.generation(), world_commit);
  job.out.SendTo(job.membership.StreamsOf(job.world()),
                 job.formation.CommitMessage());
  BeginStarts(job);
  job.out.Say(
      Log::Level::kInfo,
      absl::StrCat(
          "event=run generation=", job.generation(), " world_size=",
          job.world().world_size(), " master=", world_commit.master_address(),
          ":", world_commit.master_port(),
          " nccl_ids=", world_commit.nccl_ids_size(),
          world_commit.nccl_absent().empty()
              ? ""
              : absl::StrCat(" nccl_absent=",
                             Quoted(world_commit.nccl_absent())),
          world_commit.has_state_source()
              ? absl::StrCat(
                    " state_of_rank=", world_commit.state_source().rank(),
                    " step=", world_commit.state_source().step())
              : ""));
  for (auto& [name, node] : job.membership.nodes()) {
    if (job.membership.IsEligible(node) && !node.member()) GrowSoon(job, node);
  }
  job.out.Changed();
}

}  // namespace

void OnPrepared(JobState& job, Node& node, const v1::Prepared& prepared) {
  TakeBackLate(job, node);
  if (job.phase != JobPhase::kForming ||
      prepared.generation() != job.generation() || !node.member()) {
    return;  // From a superseded generation.
  }
  NoteStopped(job, node);
  // Also for a repeated Prepared: a rank that kept running may have died since.
  TakeUpStates(node, prepared);
  if (node.prepared) return;
  for (const std::string& warning : prepared.warnings()) {
    job.out.SayOf(node, Log::Level::kWarning,
                  absl::StrCat("event=warning node=", node.name(),
                               " text=", Quoted(warning)));
  }
  if (node.node_rank == 0) {
    if (prepared.master_port() == 0) {
      v1::Refused refused;
      refused.set_generation(job.generation());
      refused.set_reason("it is node rank 0 and reported no MASTER_PORT");
      return OnRefused(job, node, refused);
    }
  }
  node.prepared = true;
  job.formation.Prepared(node, prepared);
  job.out.Changed();
}

void MaybeCommit(JobState& job) {
  if (job.phase == JobPhase::kForming && job.formation.all_prepared() &&
      !job.isolation.on() &&
      job.quarantine.PendingUntil(job.membership, job.now) <= job.now) {
    Commit(job);
  }
}

}  // namespace rollcall
