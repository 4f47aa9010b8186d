// Job: attending. Decides which nodes are admitted, and what a node that comes
// back is told.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"
#include "daemon/core/job/job_report.h"
#include "daemon/core/membership/welcome.h"

namespace rollcall {
bool Job::CredentialStands(const v1::Hello& hello) const {
  const Node* const at = membership_.Find(hello.node());
  // The node is not known: the daemon was restarted, or has removed the node.
  if (at == nullptr || at->restored()) return true;
  const Node& node = *at;
  const uint64_t from = hello.previous_incarnation();
  if (from == 0) return node.hello.incarnation() == hello.incarnation();
  if (node.hello.incarnation() == from) return true;
  // The agent has already attended again with this incarnation, and its Welcome
  // was lost.
  return node.hello.incarnation() == hello.incarnation() &&
         node.attended_from == from && !node.confirmed;
}

bool Job::AwaitsWord(const v1::Hello& hello) const {
  const Node* const at = membership_.Find(hello.node());
  return at != nullptr && !at->confirmed && !at->by_credential &&
         at->hello.incarnation() == hello.incarnation();
}

bool Job::HasCredential(const v1::Hello& hello) const {
  const Node* const at = membership_.Find(hello.node());
  if (at == nullptr || at->gone) return false;
  const Node& node = *at;
  // A world commit has the incarnations of its world, and every member has the
  // commit.
  if (node.restored()) {
    return node.incarnation_committed != 0 &&
           node.incarnation_committed == hello.incarnation();
  }
  return (node.confirmed || node.by_credential) &&
         node.hello.incarnation() == hello.incarnation();
}

void Job::On(const Attend& attend) {
  const std::string& run = attend.hello.run();
  if (!run.empty() && !IsRun(run) && TakeClaim(attend)) return;
  if (const std::optional<Refused> refused = RefusalOf(attend)) {
    out_.Close(attend.session, refused->code, refused->refusal, refused->text);
    if (!refused->logged) return;
    return out_.SayOf(attend.observed_address, Log::Level::kWarning,
                      absl::StrCat("event=refused node=", attend.hello.node(),
                                   " address=", attend.observed_address,
                                   " reason=", Quoted(refused->text)));
  }
  generations_.Seen(attend.hello.generation_seen());
  const auto [node, redialed, moved, probed_again] = Enter(attend);
  out_.SayOf(node, Log::Level::kInfo,
             absl::StrCat("event=attend node=", node.name(), " address=",
                          node.observed_address, " ranks=", node.hello.ranks(),
                          redialed ? " redialed=true" : ""));
  out_.SendTo(node, WelcomeOf(credentials_.run(), settings_,
                              credentials_.Issue(node, now_)));
  if (HasEnded()) {
    v1::DaemonMessage message;
    *message.mutable_end() = EndFor(node);
    return out_.SendTo(node, std::move(message));
  }
  TakeUp(node, attend.hello.resume_state());
  if (IsRunning() && node.member() && starts_.expected()) {
    TellRanksLink({node.session});
  }
  if (probed_again) ProbeAgain(node, moved);
}

// Why this agent may not attend; nullopt: it may. Makes room for the agent if
// possible.
std::optional<Refused> Job::RefusalOf(const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  if (!hello.run().empty() && !IsRun(hello.run())) {
    return Refused{
        absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
        absl::StrCat("job ", name(), " is in run ", run(), " now, not ",
                     hello.run(), ": its name was used again")};
  }
  if (const std::optional<std::string> contradiction =
          Contradiction(settings_, hello.settings())) {
    return Refused{
        absl::StatusCode::kFailedPrecondition, v1::REFUSAL_CODE_SETTINGS,
        absl::StrCat(*contradiction, "; give the same value or leave it out")};
  }
  if (const Node* const node = membership_.Find(hello.node())) {
    std::optional<Refused> refused =
        Names().Refuse(hello, attend.observed_address, *node);
    // A node that has gone needs room again, as a new node does.
    if (refused.has_value() || !node->gone || HasEnded()) return refused;
  }
  const uint32_t most =
      std::min(Limits::nodes_max, settings_.nodes_max() + Limits::spares_max);
  // An agent that has acknowledged the job's end is still known, but not
  // attached.
  const bool full = membership_.attached() >= most;
  if ((full && !DisplaceASpare(hello)) ||
      membership_.nodes().size() >= Membership::kKnownMax) {
    return Refused{
        absl::StatusCode::kResourceExhausted, v1::REFUSAL_CODE_LIMIT,
        absl::StrCat("job ", name(), " already has ", most,
                     " nodes, the maximum with --nodes ", settings_.nodes_max(),
                     " (at most ", Limits::spares_max, " spares, and ",
                     Limits::nodes_max, " nodes in all); evict some, or wait")};
  }
  return std::nullopt;
}

NameRules Job::Names() const {
  const bool running = IsRunning();
  return {{run(), running ? generation() : 0, HasEnded(), now_}, limits_};
}

// Tries to remove a spare to make room. Returns whether there is room now.
bool Job::DisplaceASpare(const v1::Hello& hello) {
  if (HasEnded()) return false;
  const std::optional<Displaced> displaced =
      SpareToDisplace(hello, membership_, credentials_.epochs());
  if (!displaced.has_value()) return false;
  Node& node = membership_.At(displaced->node);
  out_.Close(node.session, absl::StatusCode::kResourceExhausted,
             v1::REFUSAL_CODE_LIMIT, displaced->reason);
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=displaced node=", displaced->node,
                          " reason=", Quoted(displaced->reason)));
  Part(node, v1::NODE_STATE_LOST, displaced->reason, /*evicted=*/true);
  return true;
}

Job::Entered Job::Enter(const Attend& attend) {
  const std::string& name = attend.hello.node();
  Node* const known = membership_.Find(name);
  const bool redialed =
      known != nullptr && Names().Continues(attend.hello, *known);
  bool moved = false;
  bool probed_again = false;
  if (known != nullptr && !redialed && !known->gone) {
    Lose(*known, v1::REASON_CODE_REPLACED,
         absl::StrCat("a new agent attends in its place, from ",
                      attend.observed_address));
  }
  if (attend.hello.has_node_credential()) {
    gathering_.fence().GoesOn({name, attend.hello.previous_incarnation()},
                              attend.hello.incarnation());
  }
  for (const uint64_t incarnation : attend.swept) {
    if (gathering_.fence().Gone(NodeIncarnation{name, incarnation}))
      FenceOpened();
  }
  Node& node = membership_.Add(name);
  if (!redialed) gathering_.Arrived(node.attended_at, now_, limits_);
  const bool was_excluded = membership_.IsExcluded(name);
  if (redialed) {
    const bool awaited = phase_ == Phase::kGathering && vetting_.Awaits(name);
    vetting_.StreamBroke(node, ForVetting());
    const bool restored = node.restored();  // Without facts.
    moved = TakeFacts(node, attend.hello.facts()) == FactsChange::kAddresses &&
            !restored;
    probed_again = moved || awaited;
    if (node.session != 0) {
      out_.Close(node.session, absl::StatusCode::kAborted,
                 v1::REFUSAL_CODE_REDIALED,
                 "a newer stream of this agent is here");
      membership_.Disconnect(node);
    }
    // The agent reports its stalled ranks again; it gets time to do so.
    if (node.member()) hangs_.Drop(RankOf(node, 0), node.hello.ranks());
    node.tells_until = now_ + limits_.lease;
    hangs_.AwaitMember(now_, limits_);
  } else {
    CHECK(node.deadline == absl::InfiniteFuture());
    vetting_.probes().Forget(name);
    // Whether the agent had ranks in a world before it was declared lost. Only
    // a credential proves that; a token does not.
    const bool same_agent =
        attend.hello.has_node_credential() &&
        attend.hello.previous_incarnation() != 0 &&
        attend.hello.previous_incarnation() == node.hello.incarnation();
    const uint64_t served_in = same_agent ? node.served_in : 0;
    const auto start_took = same_agent ? node.start_took : std::nullopt;
    node = Node();
    vetting_.Forget(name);
    node.served_in = served_in;
    node.start_took = start_took;
    node.attended_at = now_;
    // A Hello without a run id: a new agent was started on this node.
    if (attend.hello.run().empty()) ForgetLeaving(name);
    if (notices_.Leaves(name)) {
      node.reason = absl::StrCat(name, " leaves: as it was asked to");
    }
  }
  node.by_credential = attend.hello.has_node_credential();
  credentials_.Admit(attend.hello, redialed);
  // Set hello before the stream and the deadline, because their keys contain
  // the name in hello.
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
  if (!redialed) node.attended_from = attend.hello.previous_incarnation();
  membership_.Connect(node, attend.session);
  const bool sets_up =
      attend.hello.setting_up() && !node.member() && !HasEnded();
  if (sets_up) {
    membership_.BeginSetup(node);
    // The agent sends the failure again.
    node.setup_failed = false;
  }
  const bool excluded = node.quarantined || node.differs || node.setup_failed;
  if (!notices_.Leaves(name)) {
    node.reason = excluded ? node.excluded_for : sets_up ? kSettingUpText : "";
  }
  node.broke_with_many = false;
  // This exclusion ends only with the node's next incarnation, or when the
  // blame moves to another node.
  if (excluded) membership_.Exclude(node);
  if (!HasEnded()) Renew(node);
  node.state = StateByPhase(node);
  if (!HasEnded() && !node.member() && !notices_.Leaves(name)) SayHold(node);
  if (IsRunning() && !node.member()) {
    if (!sets_up) {
      CarryOut(vetting_.CompareNewcomer(node, world(), ForVetting()));
    }
    const bool to_probe =
        !redialed || was_excluded ||
        vetting_.probes().HeldUntil(name) == absl::InfiniteFuture();
    if (to_probe && !membership_.IsExcluded(name) && !sets_up) GrowSoon(node);
  }
  out_.Changed();
  return {node, redialed, moved, probed_again};
}

v1::NodeState Job::StateByPhase(const Node& node) const {
  if (HasEnded()) return v1::NODE_STATE_FINISHED;
  if (Leaves(node)) return v1::NODE_STATE_DRAINING;
  if (node.quarantined) return v1::NODE_STATE_QUARANTINED;
  if (membership_.IsSettingUp(node)) return v1::NODE_STATE_SETTING_UP;
  if (!HasWorld()) return v1::NODE_STATE_ATTENDING;
  if (!node.member()) return v1::NODE_STATE_SPARE;
  if (phase_ == Phase::kForming) return v1::NODE_STATE_PREPARING;
  return node.finished() ? v1::NODE_STATE_FINISHED : v1::NODE_STATE_RUNNING;
}

// Sends a node that came back what it has missed, and applies what its Hello
// reports.
void Job::TakeUp(Node& node, const v1::ResumeState& resume_state) {
  v1::DaemonMessage message;
  // In a job that failed and has --linger, running ranks are left alone.
  const bool left_alone = phase_ == Phase::kBlameWindow && node.member() &&
                          limits_.linger > absl::ZeroDuration() &&
                          resume_state.running_generation() == generation();
  if (resume_state.running_generation() != 0 && !left_alone &&
      (resume_state.running_generation() != generation() || !node.member() ||
       !IsRunning())) {
    v1::Abort& abort = *message.mutable_abort();
    abort.set_generation(resume_state.running_generation());
    abort.set_code(failures_.reasons().next().code());
    abort.set_reason(absl::StrCat(
        "generation ", resume_state.running_generation(), " has ended"));
    out_.SendTo(node, message);
  }
  if (phase_ == Phase::kForming && node.member() && !node.prepared) {
    *message.mutable_proposal() = formation_.proposal();
    out_.SendTo(node, message);
  }
  if (IsRunning() && node.member() &&
      resume_state.running_generation() != generation()) {
    if (resume_state.prepared_generation() == generation()) {
      out_.SendTo(node, formation_.CommitMessage());
    } else {
      // The same agent came back, but it has lost what it had prepared. It may
      // have a seat again once its ranks have stopped, after a delay that
      // grows.
      const std::string text =
          absl::StrCat(node.name(), " came back without its world");
      Exclude(node, text);
      node.late = true;
      return Reform(v1::REASON_CODE_LOST_STREAM, text, node.name());
    }
  }
  if (FenceLeft(now_) > absl::ZeroDuration() && !fence().IsOf(node)) {
    // The other nodes have this message already, so this arrival does not send
    // it again to all.
    *message.mutable_waiting() = JobReport(*this).Waiting();
    out_.SendTo(node, message);
  }
  if (IsRunning() && node.member()) {
    store_.Attended(static_cast<uint32_t>(node.node_rank));
    SendStoreMessages();
  }
  // Otherwise a user who adds a node to a running world could take it to hang.
  if (IsRunning() && !node.member()) TellSpare(node);
  if (IsRunning() && node.member() && notices_.pending()) {
    *message.mutable_notice() = notices_.Now(now_);
    out_.SendTo(node, message);
  } else if (Leaves(node) && !membership_.IsExcluded(node)) {
    // No running rank keeps this node in the job.
    LeaveAtOnce(node, node.reason);
  }
}

}  // namespace rollcall
