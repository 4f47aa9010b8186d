#include "client/agent/core/agent/handlers/worlds.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/departing.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/world_end.h"
#include "client/agent/core/agent/acts/world_start.h"
#include "daemon/base/text/awaited_text.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

const v1::Member* RowOf(const v1::World& world, const std::string& node) {
  for (const v1::Member& member : world.members()) {
    if (member.node() == node) return &member;
  }
  return nullptr;
}

// Returns the world if it belongs to this agent's run. Otherwise an error: the
// world's names are written to files and environments.
absl::StatusOr<v1::World> OwnWorld(v1::World world,
                                   const v1::Proposal& proposal,
                                   const v1::Hello& hello) {
  if (world.job() == hello.job() && world.run() == hello.run() &&
      world.generation() == proposal.generation()) {
    return world;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a world of job ", hello.job(), ", run ", hello.run(),
      ", generation ", proposal.generation(), "; got job ", world.job(),
      ", run ", world.run(), ", generation ", world.generation()));
}

}  // namespace

void OnProposal(AgentState& agent, const v1::Proposal& proposal) {
  // An older one, or a retry.
  if (proposal.generation() <= agent.generation_seen) return;
  agent.generation_seen = proposal.generation();
  absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  if (world.ok()) world = OwnWorld(*std::move(world), proposal, agent.hello);
  const v1::Member* row =
      world.ok() ? RowOf(*world, agent.hello.node()) : nullptr;
  EndGroupCheck(agent);
  DropPreparation(agent);
  const bool starts = row == nullptr || RanksStarted(*row) > 0;
  EndGeneration(
      agent, v1::REASON_CODE_UNSPECIFIED,
      absl::StrCat("generation ", proposal.generation(), " takes its place"),
      starts ? Keep::kElastic : Keep::kNobody);
  agent.answer.Forget();  // Prepared implies Stopped.
  if (agent.setup.pending()) {
    return Refuse(agent, proposal.generation(),
                  "its set-up command has not succeeded yet");
  }
  if (row == nullptr || row->ranks() != agent.hello.ranks() ||
      row->once() != agent.hello.once()) {
    return Refuse(
        agent, proposal.generation(),
        world.ok()
            ? absl::StrCat("the world has no row for ", agent.hello.node(),
                           " with ", agent.hello.ranks(), " ranks",
                           agent.hello.once() ? " and --once" : "")
            : std::string(world.status().message()));
  }
  const uint32_t node_rank = row->node_rank();
  agent.actions.push_back(Prepare{*world, node_rank});
  agent.change.emplace(*std::move(world), proposal.world(), node_rank);
}

void On(AgentState& agent, const PreparationDone& done) {
  if (!agent.change.has_value() ||
      agent.change->generation() != done.generation) {
    return;
  }
  v1::Prepared prepared;
  prepared.set_generation(done.generation);
  prepared.set_master_port(done.master_port);
  for (const std::string& id : done.nccl_ids) prepared.add_nccl_ids(id);
  prepared.set_nccl_version(done.nccl_version);
  prepared.set_nccl_absent(done.nccl_absent);
  for (const std::string& warning : done.warnings) {
    prepared.add_warnings(warning);
    Tell(agent, Report::Kind::kWarning, warning);
  }
  agent.change->Done(std::move(prepared));
  SayPreparedIfReady(agent);
}

void On(AgentState& agent, const PreparationFailed& failed) {
  if (!agent.change.has_value() ||
      agent.change->generation() != failed.generation) {
    return;
  }
  DropPreparation(agent);
  Refuse(agent, failed.generation, failed.reason);
  Tell(agent, Report::Kind::kWarning,
       absl::StrCat("cannot take part in generation ", failed.generation, ": ",
                    failed.reason));
}

void OnCommit(AgentState& agent, const v1::Commit& commit) {
  if (!agent.change.has_value() || !agent.change->Awaits(commit.generation())) {
    return;
  }
  if (!agent.change->Commit(commit)) {
    return Leave(agent, kExitRendezvous,
                 absl::StrCat("the commit of generation ", commit.generation(),
                              " does not fit its world; the daemon speaks "
                              "another version of rollcall"));
  }
  StartIfSettled(agent);
}

void OnAbort(AgentState& agent, const v1::Abort& abort) {
  // A late abort must not stop ranks of a newer generation.
  if (abort.generation() < agent.generation_seen) return;
  agent.generation_seen = abort.generation();
  DropPreparation(agent);
  const bool ran = agent.running.has_value();
  if (ran) {
    Tell(agent, Report::Kind::kState,
         absl::StrCat("generation ", abort.generation(),
                      " ended: ", abort.reason()));
  }
  EndGeneration(agent, abort.code(), abort.reason(), Keep::kElastic);
  if (ran && abort.hung_node() == agent.hello.node()) {
    KillTheHung(agent, abort.hung_local_rank());
  }
  agent.answer.Stopped(abort.generation());
  SayAnswerIfDue(agent);
}

void OnWaiting(AgentState& agent, const v1::Waiting& waiting) {
  std::string text;
  if (waiting.spare()) {
    text = waiting.reason().empty()
               ? "spare: all seats are taken; waiting for one"
               : absl::StrCat("spare: ", waiting.reason());
    // Other members run this world, so the ranks that wait here have no place
    // in it.
    if (!agent.running.has_value() && !agent.change.has_value()) {
      Stop(agent, agent.limits.stop_grace);
    }
  } else if (waiting.without_rank()) {
    text = absl::StrCat(
        "no rank runs on this node; ",
        StillRunningText({waiting.missing().begin(), waiting.missing().end()}));
  } else {
    text = absl::StrCat(
        AwaitedText(
            {.here = waiting.present(),
             .nodes_min = waiting.nodes_min(),
             .nodes_max = waiting.nodes_max(),
             .missing = {waiting.missing().begin(), waiting.missing().end()}}),
        waiting.reason().empty() ? ""
                                 : absl::StrCat(" (", waiting.reason(), ")"));
  }
  Tell(agent, Report::Kind::kWaiting, std::move(text));
}

}  // namespace rollcall
