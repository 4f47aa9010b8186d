#include "daemon/core/job/handlers/restoring.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/acts/first_steps.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/state/journal_state.h"

namespace rollcall {
namespace {

// The open generation's world, if the journal has a valid one.
absl::StatusOr<v1::World> WorldOf(const JournalState& state) {
  if (!state.proposal.has_value()) return absl::NotFoundError("no proposal");
  absl::StatusOr<v1::World> world = DecodeWorld(state.proposal->world());
  if (!world.ok()) return world;
  // The world's generation is below state.generation if it was adopted from its
  // members.
  bool fits = world->run() == state.run &&
              world->generation() <= state.generation &&
              world->generation() == state.proposal->generation();
  for (const v1::Member& member : world->members()) {
    fits = fits && member.seat() < state.settings.nodes_max();
  }
  if (state.world_commit.has_value()) {
    fits = fits && AdmitWorldCommit(*state.world_commit, *world).ok();
  }
  if (fits) return world;
  return absl::InvalidArgumentError("a world of another run or generation");
}

// The fence of the last committed world. The journal does not contain when its
// members were last heard; the restart is the latest possible time.
Fence FenceOf(const JournalState& state, const Membership& membership,
              absl::Time now) {
  if (!state.ran_proposal.has_value() || !state.ran_world_commit.has_value())
    return {};
  const absl::StatusOr<v1::World> world =
      DecodeWorld(state.ran_proposal->world());
  if (!world.ok()) return {};
  std::set<uint32_t> finished;
  if (state.ran_finished.has_value()) {
    finished.insert(state.ran_finished->node_ranks().begin(),
                    state.ran_finished->node_ranks().end());
  }
  return Fence(*world, *state.ran_world_commit, finished, membership, now);
}

// A node from the journal that has not come back yet.
void Await(JobState& job, Node& node) {
  node.state = v1::NODE_STATE_SUSPECT;
  node.reason = "not back since the daemon was restarted";
  // After a restart most nodes are not heard, so one node's silence does not
  // show that this node failed.
  node.lease.broke_with_many = true;
  job.membership.Suspect(node);
  node.lease.until = job.now + job.limits.reattach_grace;
  job.membership.SetDeadline(node, node.lease.until);
}

// Restores earlier requests to leave. Each node gets its request again when it
// comes back.
void TakeUpLeaving(JobState& job, const v1::Notice& leaving) {
  job.notices.TakeUp(leaving);
  for (const std::string& name : leaving.nodes()) {
    Node* const at = job.membership.Find(name);
    if (!AdmitNodeName(name).ok() ||
        (at == nullptr &&
         job.membership.nodes().size() >= Membership::kKnownMax)) {
      continue;
    }
    // A node that has already left does not come back, and is removed after
    // reattach_grace.
    job.notices.Leave(name);
    Node& node = job.membership.Add(name);
    if (at == nullptr) {
      node.hello.set_node(name);
      Await(job, node);
    }
    node.reason = absl::StrCat(name, " leaves: as it was asked to");
  }
  const std::optional<v1::End>& end = job.notices.end_then();
  const std::set<std::string>& names = job.notices.leaving();
  if (!job.IsRunning() || (names.empty() && !end)) return;
  AskRanks(job, job.notices.kind(),
           job.limits.reattach_grace + job.limits.stop_grace,
           end ? end->reason() : absl::StrCat(*names.begin(), " leaves"));
  job.out.Clear();  // There is no agent to send to yet.
}

}  // namespace

void TakeUpWorld(JobState& job, const v1::World& world,
                 const v1::Proposal& proposal,
                 const std::optional<v1::WorldCommit>& world_commit) {
  for (int row = 0; row < world.members_size(); ++row) {
    const v1::Member& member = world.members(row);
    Node& node = job.membership.Add(member.node());
    node.hello.set_node(member.node());
    node.hello.set_ranks(member.ranks());
    node.observed_address = member.address();
    node.lease.heard_at = job.now;
    node.seat = static_cast<int>(member.seat());
    if (world_commit.has_value())
      node.node_rank = static_cast<int>(member.node_rank());
    if (world_commit.has_value()) node.served_in = world.generation();
    // The world may have run for long, so the node's loss does not delay
    // newcomers.
    if (world_commit.has_value()) node.joined_at = absl::InfinitePast();
    if (world_commit.has_value() && row < world_commit->incarnations_size()) {
      node.credential.committed_for = world_commit->incarnations(row);
    }
    Await(job, node);
  }
  if (!world_commit.has_value()) return;
  job.generations.TakeUp(world.generation());
  // A committed world runs, even if some members have not come back yet.
  job.phase = JobPhase::kRunning;
  job.formation.TakeUp(world, proposal, *world_commit);
  job.completion =
      Completion(world, /*taken_up=*/true, job.now, job.membership);
  BeginStarts(job);
  job.vetting.probes().PingLater(job.now, job.limits);
  job.waiting.Stop();
  job.failures.reasons().Proposed(job.generation());
  job.exchanges.Begin(job.generation(), RanksOf(world));
  job.store.Restore(job.generation(),
                    static_cast<uint32_t>(world.members_size()));
}

absl::Status CheckRestorable(const JournalState& state) {
  if (state.end.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "run ", state.run, ": expected a run that has not ended, but it has"));
  }
  const v1::JobSettings& settings = state.settings;
  if (!settings.has_nodes_min() || !settings.has_nodes_max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "run ", state.run, ": its settings do not say how many nodes"));
  }
  if (absl::Status admitted = AdmitSettings(settings); !admitted.ok()) {
    return admitted;
  }
  // Far enough below the maximum of the message's field that the run can
  // continue to count from it.
  return AdmitCount("generation", state.generation, uint64_t{1} << 61);
}

void TakeUpJournal(JobState& job, const JournalState& state) {
  CHECK(!state.end.has_value());
  job.generations = Generations(state.generation);
  job.failures.SetCharged(
      std::min(state.restarts_charged, job.limits.max_restarts));
  job.failures.reasons() =
      Reasons(v1::REASON_CODE_DAEMON_RESTART, "the daemon was restarted");
  job.credentials.Restore(state.node_epochs);
  const absl::StatusOr<v1::World> world = WorldOf(state);
  if (world.ok()) TakeUpWorld(job, *world, *state.proposal, state.world_commit);
  if (job.phase == JobPhase::kGathering) {
    job.gathering.fence() = FenceOf(state, job.membership, job.now);
  }
  if (state.finished.has_value() && job.IsRunning()) {
    job.completion.TakeUp(*state.finished, job.world(), job.membership);
  }
  if (state.leaving.has_value()) TakeUpLeaving(job, *state.leaving);
}

}  // namespace rollcall
