// Job: gathering, and the two phases in which a world is formed.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/check.h"
#include "daemon/base/printable.h"
#include "daemon/core/formation/state_source.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"
#include "daemon/core/job/job_report.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/ranking.h"

namespace rollcall {
namespace {

// Most nodes named in a log line.
constexpr size_t kNamedMax = 8;

}  // namespace

void Job::Gather(bool at_once) {
  phase_ = Phase::kGathering;
  gathering_.Begin(at_once, now_, limits_);
  waiting_.TellAt(now_ + absl::Seconds(1));
  waiting_.Reset();
  vetting_.Gather();
  TakeToldFacts();
  TakeBackUnreached();
  out_.Changed();
}

void Job::MaybeForm() {
  if (phase_ != Phase::kGathering || isolation_.on() || adoption_.waiting()) {
    return;
  }
  gathering_.NoteSetups(!membership_.setting_up().empty(), now_, limits_);
  if (membership_.HasSeatedSuspect() || vetting_.UnderWay(now_)) return;
  for (Node* node :
       quarantine_.ToQuarantine(membership_, settings_.nodes_min(), limits_)) {
    SetQuarantined(*node, absl::StrCat("to blame for ", node->blames,
                                       " failures in a row"));
  }
  const size_t able = vetting_.probes().Able(membership_, now_);
  if (able < settings_.nodes_min()) {
    ReleaseTheBlamed(settings_.nodes_min() - able);
  }
  const size_t present = vetting_.probes().Able(membership_, now_);
  switch (gathering_.Judge(present, settings_, revision(), now_, limits_)) {
    case Gathering::Verdict::kWait:
      return;
    case Gathering::Verdict::kTimedOut:
      return FailRendezvous(
          v1::REASON_CODE_JOIN_TIMEOUT,
          absl::StrCat(present + membership_.excluded().size(), " of ",
                       settings_.nodes_min(), " nodes attended within ",
                       absl::FormatDuration(limits_.join_timeout), "; ",
                       JobReport(*this).MissingText(),
                       generation() > 0
                           ? absl::StrCat("; the last world ended: ",
                                          failures_.reasons().next().reason())
                           : ""));
    case Gathering::Verdict::kForm:
      break;
  }
  const std::vector<Seated> seated =
      AssignSeats(vetting_.probes().WithoutLatecomers(
                      SeatsNow().Candidates(settings_.nodes_min()),
                      settings_.nodes_min(), membership_),
                  settings_.nodes_max());
  if (!IsFenced(seated)) Form(seated);
}

// The node's ranks of all earlier generations are gone.
void Job::NoteStopped(const Node& node) {
  if (!fence().IsOf(node)) return;
  gathering_.fence().Gone(node.name());
  FenceOpened();
}

// Journaled, so that the next daemon does not wait for the fence either.
void Job::FenceOpened() {
  // Nothing is journaled after the end.
  if (HasEnded()) return;
  out_.WriteBytes(Journal::Kind::kFenceOpen, fence().generation(), "");
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=fence_open generation=", fence().generation()));
  out_.Changed();
}

// Whether a world of these nodes must wait.
bool Job::IsFenced(const std::vector<Seated>& seated) {
  const absl::Time opens = fence().Opens(limits_.unheard());
  if (now_ >= opens ||
      std::any_of(seated.begin(), seated.end(), [&](const Seated& s) {
        return fence().IsOf(membership_.At(s.node));
      })) {
    gathering_.FenceOpened(now_, limits_);
    return false;
  }
  if (gathering_.FenceHolds(opens)) {
    out_.Say(Log::Level::kWarning,
             absl::StrCat(
                 "event=fenced generation=", fence().generation(),
                 " reason=", Quoted(fence().Text(opens - now_, membership_))));
    out_.Changed();
  }
  // A node that is held (gets no seat yet) may be a member of the last world.
  absl::Time again = opens;
  for (const auto& [session, name] : membership_.streams()) {
    const absl::Time held = SeatsNow().HeldUntil(membership_.At(name));
    if (held > now_) again = std::min(again, held);
  }
  gathering_.FenceAsked(again, revision());
  return true;
}

// Zero outside of gathering: the fence may have opened since it was last asked.
absl::Duration Job::FenceLeft(absl::Time now) const {
  return phase_ != Phase::kGathering ? absl::ZeroDuration()
                                     : gathering_.FenceLeft(now);
}

// A job uses one of the daemon's limited places only while nodes attend. An
// agent that has lost its stream gets as long to come back as after a restart
// of the daemon. A job that has run keeps its place until join_timeout.
void Job::MaybeEndUnattended() {
  gathering_.unattended().Note(membership_.attached() > 0, now_);
  if (!AwaitsFirstWorld() || now_ < gathering_.unattended().Due(limits_))
    return;
  FailRendezvous(v1::REASON_CODE_JOIN_TIMEOUT,
                 absl::StrCat("no node attended for ",
                              absl::FormatDuration(limits_.reattach_grace),
                              ", and the job had never run"));
}

Seats Job::SeatsNow() const {
  return {membership_, newcomers_, vetting_.probes(), now_, limits_};
}

void Job::Form(const std::vector<Seated>& seated) {
  const std::vector<PlanNode> plan_nodes =
      vetting_.PlanNodes(seated, ForVetting());
  if (!CarryOut(
          vetting_.Probe(plan_nodes, Probing::Pairs::kUnknown, ForVetting()))) {
    return;
  }
  std::vector<WorldNode> world_nodes;
  for (const Seated& s : seated) {
    world_nodes.push_back({&membership_.At(s.node).hello, s.seat});
  }
  std::vector<std::string> without;
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(plan_nodes, &without);
  if (!plan.ok()) {
    const std::string reason(plan.status().message());
    if (CarryOut(vetting_.NoPlan(plan_nodes, without, reason, ForVetting()))) {
      FailRendezvous(v1::REASON_CODE_NO_ADDRESS, reason);
    }
    return;
  }
  if (!CarryOut(vetting_.Compare(plan_nodes, *plan, ForVetting()))) return;
  WarnOfPlan(plan_nodes, *plan);
  if (!CarryOut(vetting_.Check(plan_nodes, *plan, ForVetting()))) return;
  generations_.Next();
  adoption_.Forgo();
  v1::World header;
  header.set_job(name());
  header.set_run(run());
  header.set_generation(generation());
  header.set_restarts_charged(failures_.charged());
  header.set_max_restarts(limits_.max_restarts);
  Propose(seated, BuildWorld(header, world_nodes, *plan));
}

void Job::Propose(const std::vector<Seated>& seated, v1::World proposed) {
  formation_.Propose(std::move(proposed), now_, limits_);
  phase_ = Phase::kForming;
  gathering_.Formed();
  vetting_.probes().Reset();
  waiting_.Stop();
  failures_.reasons().Proposed(
      generation(),
      gathering_.overdue()
          ? absl::StrCat("; more nodes kept attending for ",
                         absl::FormatDuration(limits_.arrivals_wait_max),
                         " after enough were there")
          : "");
  for (auto& [name, node] : membership_.nodes()) {
    // If a node was not waited for, another node gets its seat.
    node.seat = -1;
    node.node_rank = -1;
    node.prepared = false;
    node.stopped = false;
    node.state_held.reset();
    node.done.clear();
    node.started = 0;
    const bool eligible = membership_.IsEligible(node);
    if (!eligible) newcomers_.Lost(node, generation(), now_, limits_);
    node.called = false;
    if (eligible) node.state = v1::NODE_STATE_SPARE;
  }
  for (size_t i = 0; i < seated.size(); ++i) {
    Node& node = membership_.At(seated[i].node);
    vetting_.probes().Forget(seated[i].node);
    node.seat = static_cast<int>(seated[i].seat);
    node.node_rank = static_cast<int>(i);
    node.state = v1::NODE_STATE_PREPARING;
    node.reason.clear();
  }
  for (auto& [name, node] : membership_.nodes()) {
    if (!membership_.IsEligible(node) || node.member()) continue;
    if (!SeatsNow().IsHeld(node)) node.reason.clear();
    if (vetting_.probes().IsSilent(name, now_)) {
      node.reason = Vetting::kSilentText;
      vetting_.probes().Hold(node, membership_, now_, limits_);
    }
    SayHold(node);
  }
  out_.Write(Journal::Kind::kProposed, generation(), formation_.proposal());
  v1::DaemonMessage message;
  *message.mutable_proposal() = formation_.proposal();
  out_.SendTo(membership_.StreamsOf(world()), std::move(message));
  out_.Say(Log::Level::kInfo,
           absl::StrCat(
               "event=form generation=", generation(), " nodes=", seated.size(),
               " world_size=", world().world_size(),
               " code=", v1::ReasonCode_Name(failures_.reasons().next().code()),
               " reason=", Quoted(failures_.reasons().next().reason())));
  TellWaiting();
  out_.Changed();
}

void Job::WarnOfPlan(const std::vector<PlanNode>& nodes,
                     const NetworkPlan& plan) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = membership_.At(nodes[i].node);
    const std::string& warning = plan.nodes[i].warning;
    if (std::exchange(node.plan_warning, warning) == warning) continue;
    if (warning.empty()) continue;
    out_.Say(Log::Level::kWarning,
             absl::StrCat("event=warning node=", nodes[i].node,
                          " text=", Quoted(warning)));
  }
}

// The node stays attended but gets no seat until it attends again.
void Job::Exclude(Node& node, const std::string& reason) {
  if (!Leaves(node)) newcomers_.Lost(node, generation(), now_, limits_);
  membership_.Exclude(node);
  node.late = false;
  vetting_.probes().Forget(node.name());
  node.seat = -1;
  node.state = v1::NODE_STATE_SPARE;
  node.reason = Printable(reason, Limits::node_reason_bytes_max);
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=spare node=", node.name(),
                          " reason=", Quoted(reason)));
  out_.Changed();
}

// The same, until the node is probed again: see Probes::Unreached.
void Job::ExcludeForNow(Node& node, const std::string& reason,
                        std::set<std::string> partners) {
  Exclude(node, reason);
  vetting_.probes().Unreached(node.name(), now_ + limits_.unreached_delay,
                              std::move(partners));
}

void Job::DropLaggards() {
  std::vector<std::string> names;
  for (auto& [name, node] : membership_.nodes()) {
    if (!node.member() || node.prepared) continue;
    // This makes Exclude count a loss, even if the node was in worlds for long,
    // so that the delay grows.
    node.joined_at = absl::InfiniteFuture();
    Exclude(node, absl::StrCat("did not prepare generation ", generation(),
                               " within ",
                               absl::FormatDuration(limits_.prepare_timeout)));
    node.late = true;
    if (names.size() < 8) names.push_back(name);
  }
  CHECK(!names.empty());
  Reform(v1::REASON_CODE_PREPARE_TIMEOUT,
         absl::StrCat(absl::StrJoin(names, ", "), " did not prepare in time"),
         names.front());
}

// A late node reports that its ranks are gone or that it is prepared, so it may
// have a seat again. Exclude has counted a loss, so the delay grows each time.
void Job::TakeBackLate(Node& node) {
  if (!std::exchange(node.late, false)) return;
  const std::string& name = node.name();
  if (Leaves(node) || !membership_.Readmit(name)) return;
  node.state = StateByPhase(node);
  node.reason.clear();
  SayHold(node);
  out_.SayOf(
      node, Log::Level::kInfo,
      absl::StrCat("event=ready node=", name,
                   " reason=\"it prepared, or its ranks ended, too late\""));
  if (IsRunning()) GrowSoon(node);
  out_.Changed();
}

// Commits if all members are prepared and no check result is outstanding.
void Job::MaybeCommit() {
  if (phase_ == Phase::kForming && formation_.all_prepared() &&
      !isolation_.on() && quarantine_.PendingUntil(membership_, now_) <= now_) {
    Commit();
  }
}

void Job::Commit() {
  const v1::WorldCommit& world_commit =
      formation_.Commit(membership_, credentials_.epochs(), FindStateSource());
  phase_ = Phase::kRunning;
  gathering_.fence() = Fence();
  vetting_.probes().PingLater(now_, limits_);
  completion_ = Completion(world(), /*taken_up=*/false, now_, membership_);
  if (completion_.some(world())) {
    waiting_.TellAt(now_ + absl::Minutes(1));
  }
  for (const v1::Member& member : world().members()) {
    Node& node = membership_.At(member.node());
    if (node.session != 0) node.state = v1::NODE_STATE_RUNNING;
    node.served_in = generation();
    node.step_before = node.step;
    vetting_.Joined(node.name());
    node.joined_at = std::min(node.joined_at, now_);
  }
  generations_.Committed();
  exchanges_.Begin(generation(), RanksOf(world()));
  store_.Begin(generation(), static_cast<uint32_t>(world().members_size()));
  out_.Write(Journal::Kind::kCommitted, generation(), world_commit);
  out_.SendTo(membership_.StreamsOf(world()), formation_.CommitMessage());
  BeginStarts();
  out_.Say(Log::Level::kInfo,
           absl::StrCat(
               "event=run generation=", generation(), " world_size=",
               world().world_size(), " master=", world_commit.master_address(),
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
  for (auto& [name, node] : membership_.nodes()) {
    if (membership_.IsEligible(node) && !node.member()) GrowSoon(node);
  }
  out_.Changed();
}

std::optional<v1::StateSource> Job::FindStateSource() {
  SourceChoice choice = ChooseSource(world(), membership_, generations_);
  for (const SourceChoice::Doubt& doubt : choice.doubts) {
    out_.SayOf(membership_.At(doubt.node), Log::Level::kWarning,
               absl::StrCat("event=warning node=", doubt.node,
                            " text=", Quoted(doubt.text)));
  }
  return std::move(choice.source);
}

// Ends the current generation. The next one is formed as soon as possible.
void Job::Reform(v1::ReasonCode code, const std::string& reason,
                 const std::string& node) {
  EndGeneration(code, reason, node);
  // All ranks were asked to end in any case, so no new world is formed.
  if (notices_.end_then().has_value()) return Finish(*notices_.end_then());
  Gather(/*at_once=*/true);
}

void Job::EndGeneration(v1::ReasonCode code, const std::string& reason,
                        const std::string& node, bool tell) {
  CHECK(HasWorld());
  if (IsRunning()) {
    // From now on the world's members may run without being heard.
    gathering_.fence() = Fence(world(), *formation_.world_commit(),
                               completion_.finished(), membership_, now_);
    // The end of the generation must not be journaled before this record.
    if (completion_.record_due() != absl::InfiniteFuture()) JournalFinished();
  }
  failures_.reasons().Ended(generation(), code, reason, node,
                            failures_.charged());
  out_.Write(Journal::Kind::kEnded, generation(), failures_.reasons().next());
  if (tell) TellAbort();
  for (Node* node : membership_.MembersOf(world())) {
    if (node->state == v1::NODE_STATE_RUNNING ||
        node->state == v1::NODE_STATE_FINISHED ||
        node->state == v1::NODE_STATE_PREPARING) {
      node->state = v1::NODE_STATE_ATTENDING;
    }
  }
  out_.Say(Log::Level::kWarning,
           absl::StrCat("event=abort generation=", generation(),
                        " code=", v1::ReasonCode_Name(code),
                        " reason=", Quoted(reason), steps_.Text()));
  completion_.DropRecord();
  store_.End();
  DropPending();
  hangs_.DropAll();
  vetting_.probes().WorldEnded(membership_, now_, limits_);
  out_.Changed();
}

// Sends Abort to the members of the generation that has ended.
void Job::TellAbort() {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(generation());
  message.mutable_abort()->set_code(failures_.reasons().next().code());
  message.mutable_abort()->set_reason(failures_.reasons().next().reason());
  // The rank that hangs is killed at once, because it would not react to
  // SIGTERM.
  if (failures_.reasons().next().code() == v1::REASON_CODE_HANG &&
      !failures_.reasons().next().node().empty()) {
    const auto rank = static_cast<uint32_t>(failures_.cause().rank());
    for (const v1::Member& member : world().members()) {
      if (member.node() != failures_.reasons().next().node()) continue;
      message.mutable_abort()->set_hung_node(member.node());
      message.mutable_abort()->set_hung_local_rank(rank - member.first_rank());
    }
  }
  out_.SendTo(membership_.StreamsOf(world()), std::move(message));
}

}  // namespace rollcall
