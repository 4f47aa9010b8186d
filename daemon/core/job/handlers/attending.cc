#include "daemon/core/job/handlers/attending.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/job/acts/first_steps.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/loss.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"
#include "daemon/core/job/handlers/adopting.h"
#include "daemon/core/job/handlers/forming.h"
#include "daemon/core/job/handlers/leaving.h"
#include "daemon/core/job/state/job_report.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/core/network_plan/facts_change.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

constexpr char kSettingUpText[] = "its set-up command runs";

// What has changed since the agent last attended.
struct Continued {
  bool moved = false;  // Its addresses have changed.
  bool probed_again = false;
};

struct Entered {
  Node& node;
  bool redialed = false;
  Continued continued;
};

// Tries to remove a spare to make room. Returns whether there is room now.
bool DisplaceASpare(JobState& job, const v1::Hello& hello) {
  if (job.HasEnded()) return false;
  const std::optional<Displaced> displaced =
      SpareToDisplace(hello, job.membership, job.credentials.epochs());
  if (!displaced.has_value()) return false;
  Node& node = job.membership.At(displaced->node);
  job.out.Close(node.session, absl::StatusCode::kResourceExhausted,
                v1::REFUSAL_CODE_LIMIT, displaced->reason);
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=displaced node=", displaced->node,
                             " reason=", Quoted(displaced->reason)));
  GiveUp(job, node, v1::NODE_STATE_LOST, displaced->reason, /*evicted=*/true);
  return true;
}

// An agent of the last world attends, or proves that its node has swept the
// ranks of former ones.
void NoteInFence(JobState& job, const Attend& attend) {
  const std::string& name = attend.hello.node();
  if (attend.hello.has_node_credential()) {
    job.gathering.fence().GoesOn({name, attend.hello.previous_incarnation()},
                                 attend.hello.incarnation());
  }
  for (const uint64_t incarnation : attend.swept) {
    if (job.gathering.fence().Gone(NodeIncarnation{name, incarnation}))
      FenceOpened(job);
  }
}

// The same agent is back, with a new stream.
Continued ContinueAs(JobState& job, Node& node, const Attend& attend) {
  const bool awaited =
      job.phase == JobPhase::kGathering && job.vetting.Awaits(node.name());
  job.vetting.StreamBroke(node, job.ForVetting());
  const bool restored = node.restored();  // Without facts.
  const bool moved =
      TakeFacts(job, node, attend.hello.facts()) == FactsChange::kAddresses &&
      !restored;
  if (node.session != 0) {
    job.out.Close(node.session, absl::StatusCode::kAborted,
                  v1::REFUSAL_CODE_REDIALED,
                  "a newer stream of this agent is here");
    job.membership.Disconnect(node);
  }
  // The agent reports its stalled ranks again; it gets time to do so.
  if (node.member()) job.hangs.Drop(job.RankOf(node, 0), node.hello.ranks());
  node.lease.tells_until = job.now + job.limits.lease;
  job.hangs.AwaitMember(job.now, job.limits);
  return {moved, moved || awaited};
}

// Another agent attends on this node, or the same one after its node was lost.
void BeginAs(JobState& job, Node& node, const Attend& attend) {
  const std::string& name = attend.hello.node();
  CHECK(node.lease.deadline == absl::InfiniteFuture());
  job.vetting.probes().Forget(name);
  // Whether the agent had ranks in a world before it was declared lost. Only a
  // credential proves that; a token does not.
  const bool same_agent =
      attend.hello.has_node_credential() &&
      attend.hello.previous_incarnation() != 0 &&
      attend.hello.previous_incarnation() == node.hello.incarnation();
  const uint64_t served_in = same_agent ? node.served_in : 0;
  const auto start_took = same_agent ? node.ranks.start_took : std::nullopt;
  node = Node();
  job.vetting.Forget(name);
  node.served_in = served_in;
  node.ranks.start_took = start_took;
  node.attended_at = job.now;
  // A Hello without a run id: a new agent was started on this node.
  if (attend.hello.run().empty()) ForgetLeaving(job, name);
  if (job.notices.Leaves(name)) {
    node.reason = absl::StrCat(name, " leaves: as it was asked to");
  }
}

// Keeps what later decisions need of the Hello. Call it before the node gets
// its stream and deadline, because their keys contain the name in its hello.
void KeepHello(const Attend& attend, Node& node) {
  node.credential.shown = attend.hello.has_node_credential();
  v1::Facts planned_with = node.hello.facts();
  node.hello = attend.hello;
  if (node.told_facts.has_value()) {
    *node.hello.mutable_facts() = std::move(planned_with);
  }
  node.hello.clear_token();
  node.hello.clear_node_credential();
  node.hello.clear_previous_incarnation();
  node.hello.clear_resume_state();
  node.hello.clear_settings();
  node.hello.clear_setting_up();
  node.observed_address = attend.observed_address;
  node.arrived_at = attend.arrived_at;
  node.clock_offset = attend.clock_offset;
}

Entered Enter(JobState& job, const Attend& attend) {
  const std::string& name = attend.hello.node();
  Node* const known = job.membership.Find(name);
  const bool redialed =
      known != nullptr && job.Names().Continues(attend.hello, *known);
  if (known != nullptr && !redialed && !known->gone) {
    Lose(job, *known, v1::REASON_CODE_REPLACED,
         absl::StrCat("a new agent attends in its place, from ",
                      attend.observed_address));
  }
  NoteInFence(job, attend);
  Node& node = job.membership.Add(name);
  if (!redialed) job.gathering.Arrived(node.attended_at, job.now, job.limits);
  const bool was_excluded = job.membership.IsExcluded(name);
  Continued continued;
  if (redialed) {
    continued = ContinueAs(job, node, attend);
  } else {
    BeginAs(job, node, attend);
  }
  job.credentials.Admit(attend.hello, redialed);
  KeepHello(attend, node);
  if (!redialed)
    node.credential.attended_from = attend.hello.previous_incarnation();
  job.membership.Connect(node, attend.session);
  const bool sets_up =
      attend.hello.setting_up() && !node.member() && !job.HasEnded();
  if (sets_up) {
    job.membership.BeginSetup(node);
    // The agent sends the failure again.
    node.exclusion.setup_failed = false;
  }
  const bool excluded = node.exclusion.quarantined || node.exclusion.differs ||
                        node.exclusion.setup_failed;
  if (!job.notices.Leaves(name)) {
    node.reason = excluded ? node.exclusion.why : sets_up ? kSettingUpText : "";
  }
  node.lease.broke_with_many = false;
  // This exclusion ends only with the node's next incarnation, or when the
  // blame moves to another node.
  if (excluded) job.membership.Exclude(node);
  if (!job.HasEnded()) Renew(job, node);
  node.state = job.StateByPhase(node);
  if (!job.HasEnded() && !node.member() && !job.notices.Leaves(name))
    SayHold(job, node);
  if (job.IsRunning() && !node.member()) {
    if (!sets_up) {
      CarryOutVetting(job, job.vetting.CompareNewcomer(node, job.world(),
                                                       job.ForVetting()));
    }
    const bool to_probe =
        !redialed || was_excluded ||
        job.vetting.probes().HeldUntil(name) == absl::InfiniteFuture();
    if (to_probe && !job.membership.IsExcluded(name) && !sets_up)
      GrowSoon(job, node);
  }
  job.out.Changed();
  return {node, redialed, continued};
}

// Sends a node that came back what it has missed, and applies what its Hello
// reports.
void TakeUp(JobState& job, Node& node, const v1::ResumeState& resume_state) {
  v1::DaemonMessage message;
  // In a job that failed and has --linger, running ranks are left alone.
  const bool left_alone = job.phase == JobPhase::kBlameWindow &&
                          node.member() &&
                          job.limits.linger > absl::ZeroDuration() &&
                          resume_state.running_generation() == job.generation();
  if (resume_state.running_generation() != 0 && !left_alone &&
      (resume_state.running_generation() != job.generation() ||
       !node.member() || !job.IsRunning())) {
    v1::Abort& abort = *message.mutable_abort();
    abort.set_generation(resume_state.running_generation());
    abort.set_code(job.failures.reasons().next().code());
    abort.set_reason(absl::StrCat(
        "generation ", resume_state.running_generation(), " has ended"));
    job.out.SendTo(node, message);
  }
  if (job.phase == JobPhase::kForming && node.member() && !node.prepared) {
    *message.mutable_proposal() = job.formation.proposal();
    job.out.SendTo(node, message);
  }
  if (job.IsRunning() && node.member() &&
      resume_state.running_generation() != job.generation()) {
    if (resume_state.prepared_generation() == job.generation()) {
      job.out.SendTo(node, job.formation.CommitMessage());
    } else {
      // The same agent came back, but it has lost what it had prepared. It may
      // have a seat again once its ranks have stopped, after a delay that
      // grows.
      const std::string text =
          absl::StrCat(node.name(), " came back without its world");
      Exclude(job, node, text);
      node.exclusion.late = true;
      return Reform(job, v1::REASON_CODE_LOST_STREAM, text, node.name());
    }
  }
  if (job.FenceLeft(job.now) > absl::ZeroDuration() &&
      !job.fence().IsOf(node)) {
    // The other nodes have this message already, so this arrival does not send
    // it again to all.
    *message.mutable_waiting() = JobReport(job).Waiting();
    job.out.SendTo(node, message);
  }
  if (job.IsRunning() && node.member()) {
    job.store.Attended(static_cast<uint32_t>(node.node_rank));
    SendStoreMessages(job);
  }
  // Otherwise a user who adds a node to a running world could take it to hang.
  if (job.IsRunning() && !node.member()) TellSpare(job, node);
  if (job.IsRunning() && node.member() && job.notices.pending()) {
    *message.mutable_notice() = job.notices.Now(job.now);
    job.out.SendTo(node, message);
  } else if (job.Leaves(node) && !job.membership.IsExcluded(node)) {
    // No running rank keeps this node in the job.
    LeaveAtOnce(job, node, node.reason);
  }
}

// Why this agent may not attend; nullopt: it may. Makes room for the agent if
// possible.
std::optional<Refused> RefusalOf(JobState& job, const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  if (!hello.run().empty() && !job.IsRun(hello.run())) {
    return Refused{
        absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
        absl::StrCat("job ", job.name(), " is in run ", job.run(), " now, not ",
                     hello.run(), ": its name was used again")};
  }
  if (const std::optional<std::string> contradiction =
          Contradiction(job.settings, hello.settings())) {
    return Refused{
        absl::StatusCode::kFailedPrecondition, v1::REFUSAL_CODE_SETTINGS,
        absl::StrCat(*contradiction, "; give the same value or leave it out")};
  }
  if (const Node* const node = job.membership.Find(hello.node())) {
    std::optional<Refused> refused =
        job.Names().Refuse(hello, attend.observed_address, *node);
    // A node that has gone needs room again, as a new node does.
    if (refused.has_value() || !node->gone || job.HasEnded()) return refused;
  }
  const uint32_t most = std::min(Limits::nodes_max,
                                 job.settings.nodes_max() + Limits::spares_max);
  // An agent that has acknowledged the job's end is still known, but not
  // attached.
  const bool full = job.membership.attached() >= most;
  if ((full && !DisplaceASpare(job, hello)) ||
      job.membership.nodes().size() >= Membership::kKnownMax) {
    return Refused{
        absl::StatusCode::kResourceExhausted, v1::REFUSAL_CODE_LIMIT,
        absl::StrCat("job ", job.name(), " already has ", most,
                     " nodes, the maximum with --nodes ",
                     job.settings.nodes_max(), " (at most ", Limits::spares_max,
                     " spares, and ", Limits::nodes_max,
                     " nodes in all); evict some, or wait")};
  }
  return std::nullopt;
}

// The agents whose claims have led to an adoption attend the adopted run.
void AttendAll(JobState& job, const std::vector<Attend>& claims) {
  for (const Attend& claim : claims) {
    const std::string& node = claim.hello.node();
    if (claim.hello.run() != job.run() ||
        claim.epoch == job.credentials.epochs().EpochOf(node)) {
      On(job, claim);
      continue;
    }
    // This agent claimed an older world of the run: its node may have been
    // evicted since.
    job.out.Close(
        claim.session, absl::StatusCode::kUnauthenticated,
        v1::REFUSAL_CODE_CREDENTIAL,
        absl::StrCat("the credential of node ", node,
                     " is not of the adopted world; attend with a token"));
  }
}

}  // namespace

void On(JobState& job, const Attend& attend) {
  const std::string& run = attend.hello.run();
  if (!run.empty() && !job.IsRun(run) && TakeClaim(job, attend)) {
    return AttendAll(job, MaybeAdopt(job, /*time_is_over=*/false));
  }
  if (const std::optional<Refused> refused = RefusalOf(job, attend)) {
    job.out.Close(attend.session, refused->code, refused->refusal,
                  refused->text);
    if (!refused->logged) return;
    return job.out.SayOf(
        attend.observed_address, Log::Level::kWarning,
        absl::StrCat("event=refused node=", attend.hello.node(),
                     " address=", attend.observed_address,
                     " reason=", Quoted(refused->text)));
  }
  job.generations.Seen(attend.hello.generation_seen());
  const auto [node, redialed, continued] = Enter(job, attend);
  job.out.SayOf(node, Log::Level::kInfo,
                absl::StrCat("event=attend node=", node.name(),
                             " address=", node.observed_address,
                             " ranks=", node.hello.ranks(),
                             redialed ? " redialed=true" : ""));
  job.out.SendTo(node, WelcomeOf(job.credentials.run(), job.settings,
                                 job.credentials.Issue(node, job.now)));
  if (job.HasEnded()) {
    v1::DaemonMessage message;
    *message.mutable_end() = job.EndFor(node);
    return job.out.SendTo(node, std::move(message));
  }
  TakeUp(job, node, attend.hello.resume_state());
  if (job.IsRunning() && node.member() && job.starts.expected()) {
    TellRanksLink(job, {node.session});
  }
  if (continued.probed_again) ProbeAgain(job, node, continued.moved);
}

void EndClaims(JobState& job) {
  AttendAll(job, MaybeAdopt(job, /*time_is_over=*/true));
  if (job.adoption.possible() || job.adoption.waiting()) RefuseClaims(job);
  job.adoption.End();
}

}  // namespace rollcall
