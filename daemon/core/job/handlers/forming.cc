#include "daemon/core/job/handlers/forming.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/acts/blame.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"
#include "daemon/core/job/state/job_report.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "daemon/core/ranking.h"

namespace rollcall {
namespace {

// Most nodes named in a log line.
constexpr size_t kLateNamedMax = 8;

// How many times an incarnation that refused a world may get a seat again.
constexpr int kRefusalsForgiven = 3;

void Propose(JobState& job, const std::vector<Seated>& seated,
             v1::World proposed) {
  job.formation.Propose(std::move(proposed), job.now, job.limits);
  job.phase = JobPhase::kForming;
  job.gathering.Formed();
  job.vetting.probes().Reset();
  job.waiting.Stop();
  job.failures.reasons().Proposed(
      job.generation(),
      job.gathering.overdue()
          ? absl::StrCat("; more nodes kept attending for ",
                         absl::FormatDuration(job.limits.arrivals_wait_max),
                         " after enough were there")
          : "");
  for (auto& [name, node] : job.membership.nodes()) {
    // If a node was not waited for, another node gets its seat.
    node.seat = -1;
    node.node_rank = -1;
    node.prepared = false;
    node.stopped = false;
    node.ranks.state_held.reset();
    node.ranks.done.clear();
    node.ranks.started = 0;
    const bool eligible = job.membership.IsEligible(node);
    if (!eligible)
      job.newcomers.Lost(node, job.generation(), job.now, job.limits);
    node.called = false;
    if (eligible) node.state = v1::NODE_STATE_SPARE;
  }
  for (size_t i = 0; i < seated.size(); ++i) {
    Node& node = job.membership.At(seated[i].node);
    job.vetting.probes().Forget(seated[i].node);
    node.seat = static_cast<int>(seated[i].seat);
    node.node_rank = static_cast<int>(i);
    node.state = v1::NODE_STATE_PREPARING;
    node.reason.clear();
  }
  for (auto& [name, node] : job.membership.nodes()) {
    if (!job.membership.IsEligible(node) || node.member()) continue;
    if (!job.SeatsNow().IsHeld(node)) node.reason.clear();
    if (job.vetting.probes().IsSilent(name, job.now)) {
      node.reason = Vetting::kSilentText;
      job.vetting.probes().Hold(node, job.membership, job.now, job.limits);
    }
    SayHold(job, node);
  }
  job.out.Write(Journal::Kind::kProposed, job.generation(),
                job.formation.proposal());
  v1::DaemonMessage message;
  *message.mutable_proposal() = job.formation.proposal();
  job.out.SendTo(job.membership.StreamsOf(job.world()), std::move(message));
  job.out.Say(
      Log::Level::kInfo,
      absl::StrCat(
          "event=form generation=", job.generation(), " nodes=", seated.size(),
          " world_size=", job.world().world_size(),
          " code=", v1::ReasonCode_Name(job.failures.reasons().next().code()),
          " reason=", Quoted(job.failures.reasons().next().reason())));
  TellWaiting(job);
  job.out.Changed();
}

void WarnOfPlan(JobState& job, const std::vector<PlanNode>& nodes,
                const NetworkPlan& plan) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = job.membership.At(nodes[i].node);
    const std::string& warning = plan.nodes[i].warning;
    if (std::exchange(node.plan_warning, warning) == warning) continue;
    if (warning.empty()) continue;
    job.out.Say(Log::Level::kWarning,
                absl::StrCat("event=warning node=", nodes[i].node,
                             " text=", Quoted(warning)));
  }
}

// Whether a world of these nodes must wait.
bool IsFenced(JobState& job, const std::vector<Seated>& seated) {
  const absl::Time opens = job.fence().Opens(job.limits.unheard());
  if (job.now >= opens ||
      std::any_of(seated.begin(), seated.end(), [&](const Seated& s) {
        return job.fence().IsOf(job.membership.At(s.node));
      })) {
    job.gathering.FenceOpened(job.now, job.limits);
    return false;
  }
  if (job.gathering.FenceHolds(opens)) {
    job.out.Say(
        Log::Level::kWarning,
        absl::StrCat(
            "event=fenced generation=", job.fence().generation(), " reason=",
            Quoted(job.fence().Text(opens - job.now, job.membership))));
    job.out.Changed();
  }
  // A node that is held (gets no seat yet) may be a member of the last world.
  absl::Time again = opens;
  for (const auto& [session, name] : job.membership.streams()) {
    const absl::Time held = job.SeatsNow().HeldUntil(job.membership.At(name));
    if (held > job.now) again = std::min(again, held);
  }
  job.gathering.FenceAsked(again, job.out.revision());
  return true;
}

void Form(JobState& job, const std::vector<Seated>& seated) {
  const std::vector<PlanNode> plan_nodes =
      job.vetting.PlanNodes(seated, job.ForVetting());
  if (!CarryOutVetting(job,
                       job.vetting.Probe(plan_nodes, Probing::Pairs::kUnknown,
                                         job.ForVetting()))) {
    return;
  }
  std::vector<WorldNode> world_nodes;
  for (const Seated& s : seated) {
    world_nodes.push_back({&job.membership.At(s.node).hello, s.seat});
  }
  std::vector<std::string> without;
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(plan_nodes, &without);
  if (!plan.ok()) {
    const std::string reason(plan.status().message());
    if (CarryOutVetting(job, job.vetting.NoPlan(plan_nodes, without, reason,
                                                job.ForVetting()))) {
      FailRendezvous(job, v1::REASON_CODE_NO_ADDRESS, reason);
    }
    return;
  }
  if (!CarryOutVetting(
          job, job.vetting.Compare(plan_nodes, *plan, job.ForVetting())))
    return;
  WarnOfPlan(job, plan_nodes, *plan);
  if (!CarryOutVetting(job,
                       job.vetting.Check(plan_nodes, *plan, job.ForVetting())))
    return;
  job.generations.Next();
  job.adoption.Forgo();
  v1::World header;
  header.set_job(job.name());
  header.set_run(job.run());
  header.set_generation(job.generation());
  header.set_restarts_charged(job.failures.charged());
  header.set_max_restarts(job.limits.max_restarts);
  Propose(job, seated, BuildWorld(header, world_nodes, *plan));
}

// `act` is about this node.
void CarryOut(JobState& job, Node& node, Vetting::Act& act) {
  using Kind = Vetting::Act::Kind;
  switch (act.kind) {
    case Kind::kSend:
      job.out.SendTo(node, std::move(act.message));
      break;
    case Kind::kSay:
      job.out.SayOf(node, act.level, act.text);
      break;
    case Kind::kLeaveOut:
      ExcludeForNow(job, node, act.text, std::move(act.partners));
      break;
    case Kind::kDiffers:
      Exclude(job, node, act.text);
      node.exclusion.why = node.reason;
      node.exclusion.differs = true;
      break;
    case Kind::kQuarantine:
      SetQuarantined(job, node, act.text);
      break;
    case Kind::kExplain:
      if (node.reason.empty()) node.reason = act.text;
      break;
    case Kind::kUnreached:
      SetUnreached(job, node, act.text);
      break;
    case Kind::kReached:
      SetReached(job, node);
      break;
    case Kind::kPassed:
      if (node.reason == Vetting::kCheckedAlone) node.reason.clear();
      break;
    case Kind::kGrow:  // Is about no node.
      break;
  }
}

}  // namespace

bool CarryOutVetting(JobState& job, Vetting::Decision decision) {
  using Next = Vetting::Decision::Next;
  for (Vetting::Act& act : decision.acts) {
    if (act.kind == Vetting::Act::Kind::kGrow) {
      job.newcomers.GrowBy(job.now);
    } else if (act.node.empty()) {
      CHECK(act.kind == Vetting::Act::Kind::kSay);
      job.out.Say(act.level, act.text);
    } else {
      CarryOut(job, job.membership.At(act.node), act);
    }
  }
  if (decision.changed) job.out.Changed();
  // If too few nodes are left, MaybeForm waits for others.
  if (decision.next == Next::kWithout) MaybeForm(job);
  return decision.next == Next::kGoOn;
}

bool AwaitsSuspects(const JobState& job) {
  return job.membership.HasSeatedSuspect() &&
         job.now < job.gathering.SuspectsUntil(job.limits);
}

void MaybeForm(JobState& job) {
  if (job.phase != JobPhase::kGathering || job.isolation.on() ||
      job.adoption.waiting()) {
    return;
  }
  job.gathering.NoteSetups(!job.membership.setting_up().empty(), job.now,
                           job.limits);
  if (AwaitsSuspects(job) || job.vetting.UnderWay(job.now)) return;
  for (Node* node : job.quarantine.ToQuarantine(
           job.membership, job.settings.nodes_min(), job.limits)) {
    SetQuarantined(job, *node,
                   absl::StrCat("to blame for ", node->record.blames,
                                " failures in a row"));
  }
  const size_t able = job.vetting.probes().Able(job.membership, job.now);
  if (able < job.settings.nodes_min()) {
    ReleaseTheBlamed(job, job.settings.nodes_min() - able);
  }
  const size_t present = job.vetting.probes().Able(job.membership, job.now);
  switch (job.gathering.Judge(present, job.settings, job.out.revision(),
                              job.now, job.limits)) {
    case Gathering::Verdict::kWait:
      return;
    case Gathering::Verdict::kTimedOut:
      return FailRendezvous(
          job, v1::REASON_CODE_JOIN_TIMEOUT,
          absl::StrCat(
              present + job.membership.excluded().size(), " of ",
              job.settings.nodes_min(), " nodes attended within ",
              absl::FormatDuration(job.limits.join_timeout), "; ",
              JobReport(job).MissingText(),
              job.generation() > 0
                  ? absl::StrCat("; the last world ended: ",
                                 job.failures.reasons().next().reason())
                  : ""));
    case Gathering::Verdict::kForm:
      break;
  }
  const std::vector<Seated> seated =
      AssignSeats(job.vetting.probes().WithoutLatecomers(
                      job.SeatsNow().Candidates(job.settings.nodes_min()),
                      job.settings.nodes_min(), job.membership),
                  job.settings.nodes_max());
  if (!IsFenced(job, seated)) Form(job, seated);
}

void MaybeProbe(JobState& job) {
  if (!job.IsRunning() || job.isolation.on() ||
      job.now < job.vetting.probes().due())
    return;
  if (!job.vetting.probes().MayOpen(job.membership, job.now, job.limits))
    return;
  job.steps.TakeRound(job.world(), job.vetting.probes().results());
  const uint32_t members = static_cast<uint32_t>(job.world().members_size());
  const size_t places = job.settings.nodes_max() + Limits::spares_probed -
                        std::min(job.settings.nodes_max(), members);
  CarryOutVetting(job, job.vetting.NextRound(
                           places,
                           [&job](const std::string& name) {
                             return job.notices.Leaves(name);
                           },
                           job.ForVetting()));
}

void ProbeAgain(JobState& job, Node& node, bool moved) {
  if (job.HasEnded()) return;
  const std::string& name = node.name();
  const bool proposed = job.phase == JobPhase::kForming && node.member();
  CarryOutVetting(job, job.vetting.Outdated(node, moved, job.ForVetting()));
  if (!moved || !proposed) return;
  Reform(job, v1::REASON_CODE_FACTS_CHANGED,
         absl::StrCat(name, " has other addresses than before"), name);
}

void OnRefused(JobState& job, Node& node, const v1::Refused& refused) {
  if (job.phase != JobPhase::kForming ||
      refused.generation() != job.generation() || !node.member()) {
    return;
  }
  const std::string reason = absl::StrCat(
      "refused generation ", job.generation(), ": ", refused.reason());
  Exclude(job, node, reason);
  // What it refused for may be over by then, for example a port in use.
  if (++node.record.refusals <= kRefusalsForgiven) {
    job.vetting.probes().Unreached(node.name(),
                                   job.now + job.limits.unreached_delay);
  }
  Reform(job, v1::REASON_CODE_REFUSED, reason, node.name());
}

void DropLaggards(JobState& job) {
  std::vector<std::string> names;
  for (auto& [name, node] : job.membership.nodes()) {
    if (!node.member() || node.prepared) continue;
    // This makes Exclude count a loss, even if the node was in worlds for long,
    // so that the delay grows.
    node.joined_at = absl::InfiniteFuture();
    Exclude(job, node,
            absl::StrCat("did not prepare generation ", job.generation(),
                         " within ",
                         absl::FormatDuration(job.limits.prepare_timeout)));
    node.exclusion.late = true;
    if (names.size() < kLateNamedMax) names.push_back(name);
  }
  CHECK(!names.empty());
  Reform(job, v1::REASON_CODE_PREPARE_TIMEOUT,
         absl::StrCat(absl::StrJoin(names, ", "), " did not prepare in time"),
         names.front());
}

}  // namespace rollcall
