// Job: attending. Which nodes are admitted, and what a node that comes back is
// told.
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
#include "daemon/core/membership/welcome.h"

namespace rollcall {
namespace {

// Describes the first setting that both set to different values.
std::optional<std::string> Contradiction(const v1::JobSettings& ours,
                                         const v1::JobSettings& theirs) {
  const auto differ = [](const char* name, auto a, auto b) {
    return absl::StrCat(name, " is ", a, " for this job, and ", b, " here");
  };
  if (theirs.has_nodes_min() && theirs.nodes_min() != ours.nodes_min()) {
    return differ("--nodes (min)", ours.nodes_min(), theirs.nodes_min());
  }
  if (theirs.has_nodes_max() && theirs.nodes_max() != ours.nodes_max()) {
    return differ("--nodes (max)", ours.nodes_max(), theirs.nodes_max());
  }
  if (theirs.has_max_restarts() &&
      theirs.max_restarts() != ours.max_restarts()) {
    return differ("--max-restarts", ours.max_restarts(), theirs.max_restarts());
  }
  if (theirs.grow() != v1::GROW_UNSPECIFIED && theirs.grow() != ours.grow()) {
    return differ("--grow", v1::Grow_Name(ours.grow()),
                  v1::Grow_Name(theirs.grow()));
  }
  if (theirs.preflight() != v1::PREFLIGHT_UNSPECIFIED &&
      theirs.preflight() != ours.preflight()) {
    return differ("--preflight", v1::Preflight_Name(ours.preflight()),
                  v1::Preflight_Name(theirs.preflight()));
  }
  using S = v1::JobSettings;
  struct Row {
    const char* flag;
    bool (S::*has)() const;
    const google::protobuf::Duration& (S::*value)() const;
  };
  static constexpr Row kDurations[] = {
      {"--join-timeout", &S::has_join_timeout, &S::join_timeout},
      {"--hang-timeout", &S::has_hang_timeout, &S::hang_timeout},
      {"--start-timeout", &S::has_start_timeout, &S::start_timeout},
      {"--notice-time", &S::has_notice_time, &S::notice_time},
      {"--ping-interval", &S::has_ping_interval, &S::ping_interval},
      {"--linger", &S::has_linger, &S::linger},
  };
  for (const Row& row : kDurations) {
    if (!(theirs.*row.has)()) continue;
    const absl::Duration our = FromProto((ours.*row.value)());
    const absl::Duration their = FromProto((theirs.*row.value)());
    if (our != their) {
      return differ(row.flag, absl::FormatDuration(our),
                    absl::FormatDuration(their));
    }
  }
  if (theirs.has_requeue_exit_code() &&
      theirs.requeue_exit_code() != ours.requeue_exit_code()) {
    return differ("--requeue-exit-code", ours.requeue_exit_code(),
                  theirs.requeue_exit_code());
  }
  return std::nullopt;
}

// A member from the journal, known only by its row of the world.
bool Restored(const v1::Hello& hello) { return hello.incarnation() == 0; }

}  // namespace

bool Job::CredentialStands(const v1::Hello& hello) const {
  const auto at = nodes_.find(hello.node());
  // Not known: the daemon was restarted, or has removed the node.
  if (at == nodes_.end() || Restored(at->second.hello)) return true;
  const Node& node = at->second;
  const uint64_t from = hello.previous_incarnation();
  if (from == 0) return node.hello.incarnation() == hello.incarnation();
  if (node.hello.incarnation() == from) return true;
  // It has attended again already, and its Welcome was lost.
  return node.hello.incarnation() == hello.incarnation() &&
         node.attended_from == from && !node.confirmed;
}

bool Job::AwaitsWord(const v1::Hello& hello) const {
  const auto at = nodes_.find(hello.node());
  return at != nodes_.end() && !at->second.confirmed &&
         !at->second.by_credential &&
         at->second.hello.incarnation() == hello.incarnation();
}

bool Job::HasCredential(const v1::Hello& hello) const {
  const auto at = nodes_.find(hello.node());
  if (at == nodes_.end() || at->second.gone) return false;
  const Node& node = at->second;
  // The incarnations of a committed world are in its seal, which every member
  // has.
  if (Restored(node.hello)) {
    return node.incarnation_committed != 0 &&
           node.incarnation_committed == hello.incarnation();
  }
  return (node.confirmed || node.by_credential) &&
         node.hello.incarnation() == hello.incarnation();
}

bool Job::Knows(const std::string& node) const {
  const auto at = nodes_.find(node);
  return at != nodes_.end() && !at->second.gone;
}

// A daemon never forms a generation at or below one that an agent has seen. An
// implausibly high number is ignored.
void Job::NoteGenerationSeen(const v1::Hello& hello) {
  if (hello.generation_seen() - generation_ < (uint64_t{1} << 32) &&
      hello.generation_seen() > generation_) {
    generation_seen_ = std::max(generation_seen_, hello.generation_seen());
  }
}

void Job::On(const Attend& attend) {
  if (RefuseAttend(attend)) return;
  NoteGenerationSeen(attend.hello);
  const auto [node, redialed, moved, probed_anew] = Enter(attend);
  SayOf(node, Log::Level::kInfo,
        absl::StrCat("event=attend node=", node.hello.node(), " address=",
                     node.observed_address, " ranks=", node.hello.ranks(),
                     redialed ? " redialed=true" : ""));
  SendWelcome(node);
  if (phase_ == Phase::kEnded) {
    v1::DaemonMessage message;
    *message.mutable_end() = EndFor(node);
    return ToNode(node, std::move(message));
  }
  TakeUp(node, attend.hello.held());
  if (phase_ == Phase::kRunning && node.member() && starts_.expected()) {
    TellRanksLink({node.session});
  }
  if (probed_anew) ProbeAnew(node, moved);
}

bool Job::RefuseAttend(const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  const auto refuse = [&](absl::StatusCode code, v1::RefusalCode refusal,
                          const std::string& text) {
    Close(attend.session, code, refusal, text);
    SayRefused(attend, text);
    return true;
  };
  if (!hello.run().empty() && !IsRun(hello.run())) {
    if (TakeClaim(attend)) return true;
    return refuse(absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
                  absl::StrCat("job ", job_, " is in run ", run_, " now, not ",
                               hello.run(), ": its name was used again"));
  }
  if (const std::optional<std::string> contradiction =
          Contradiction(settings_, hello.settings())) {
    return refuse(
        absl::StatusCode::kFailedPrecondition, v1::REFUSAL_CODE_SETTINGS,
        absl::StrCat(*contradiction, "; give the same value or leave it out"));
  }
  const auto at = nodes_.find(hello.node());
  if (at != nodes_.end()) return RefuseName(attend, at->second);
  const uint32_t most =
      std::min(Limits::nodes_max, nodes_max_ + Limits::spares_max);
  // An agent that has acknowledged the job's end is in neither container but
  // still in nodes_.
  const bool full = sessions_.size() + suspects_.size() >= most;
  if ((full && !DisplaceASpare(attend)) || nodes_.size() >= kKnownMax) {
    return refuse(
        absl::StatusCode::kResourceExhausted, v1::REFUSAL_CODE_LIMIT,
        absl::StrCat("job ", job_, " already has ", most,
                     " nodes, the maximum with --nodes ", nodes_max_,
                     " (at most ", Limits::spares_max, " spares, and ",
                     Limits::nodes_max, " nodes in all); evict some, or wait"));
  }
  return false;
}

// For a job that is full. If one token has admitted more than half of all
// spares, its newest spare that never had a seat is displaced by an agent of
// another token, so that one token alone cannot keep a replacement out.
bool Job::DisplaceASpare(const Attend& attend) {
  if (phase_ == Phase::kEnded) return false;
  std::map<std::string, std::pair<uint32_t, Node*>> spares;  // By token id.
  for (auto& [name, node] : nodes_) {
    if (node.session == 0 || node.member() || node.seat >= 0 ||
        node.served_in != 0 || node.hello.launcher()) {
      continue;
    }
    const std::string token = node_epochs_.TokenOf(name);
    if (token.empty()) continue;
    auto& [count, newest] = spares[token];
    ++count;
    if (newest == nullptr || node.attended_at >= newest->attended_at) {
      newest = &node;
    }
  }
  const std::string own = attend.hello.has_node_credential()
                              ? node_epochs_.TokenOf(attend.hello.node())
                              : attend.hello.token().id();
  for (const auto& [token, of_token] : spares) {
    const auto& [count, newest] = of_token;
    if (token == own || count * 2 <= Limits::spares_max) continue;
    const std::string text =
        absl::StrCat("it makes room for ", attend.hello.node(), ": ", count,
                     " spares were admitted by its token, of at most ",
                     Limits::spares_max, " in all");
    Close(newest->session, absl::StatusCode::kResourceExhausted,
          v1::REFUSAL_CODE_LIMIT, text);
    SayOf(*newest, Log::Level::kWarning,
          absl::StrCat("event=displaced node=", newest->hello.node(),
                       " reason=", Quoted(text)));
    Part(*newest, v1::NODE_STATE_LOST, text, /*evicted=*/true);
    return true;
  }
  return false;
}

// For a name that is known: the Hello may be of the same agent, of its next
// incarnation or of another agent. A launcher's agent takes the name of its
// node from any other agent, and no other agent takes it from a launcher's:
// seat 0 is the launcher's.
bool Job::RefuseName(const Attend& attend, const Node& node) {
  const v1::Hello& hello = attend.hello;
  const bool same = node.hello.incarnation() == hello.incarnation();
  if (node.gone && same && phase_ != Phase::kEnded) {
    Close(attend.session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST,
          absl::StrCat("node ", hello.node(), " was given up (", node.reason,
                       "); attend with a new incarnation"));
    return true;
  }
  if (same && !node.gone && node.hello.ranks() != hello.ranks()) {
    Close(attend.session, absl::StatusCode::kInvalidArgument,
          v1::REFUSAL_CODE_INVALID,
          absl::StrCat("node ", hello.node(), " attended with ",
                       node.hello.ranks(), " ranks and comes back with ",
                       hello.ranks()));
    return true;
  }
  if (AwaitsItsAgent(node, hello)) {
    const std::string text = absl::StrCat(
        "node name ", hello.node(), " belongs to an agent ",
        Restored(node.hello)
            ? "that has not come back since this daemon was restarted"
            : "whose stream broke",
        "; it is reserved for that agent for ",
        absl::FormatDuration(NameGrace(node)), "; dial again");
    Close(attend.session, absl::StatusCode::kUnavailable,
          v1::REFUSAL_CODE_UNSPECIFIED, text);
    SayRefused(attend, text);
    return true;
  }
  // The launcher's agent has an admin's token, which outranks a worker's.
  const bool outranks = hello.launcher() && !node.hello.launcher();
  const bool outranked = node.hello.launcher() && !hello.launcher();
  if (same || outranks || (node.session == 0 && !outranked)) return false;
  // A Hello with a run id is of an agent that was welcomed before: it has been
  // replaced. Otherwise the agent is new, and the name is taken.
  const bool replaced = !hello.run().empty();
  const std::string text = absl::StrCat(
      "node name ", hello.node(), " belongs to the ",
      outranked ? "launcher's " : "", "agent at ", node.observed_address,
      node.session != 0 ? ", which is alive" : "", "; this one comes from ",
      attend.observed_address,
      replaced ? "" : "; give one of them another --name");
  Close(
      attend.session,
      replaced ? absl::StatusCode::kAborted : absl::StatusCode::kAlreadyExists,
      replaced ? v1::REFUSAL_CODE_REPLACED : v1::REFUSAL_CODE_NAME_TAKEN, text);
  SayRefused(attend, text);
  return true;
}

// How long a name is reserved for its agent: as long as the daemon waits for a
// node whose stream broke, or after its own restart.
absl::Duration Job::NameGrace(const Node& node) const {
  if (Restored(node.hello)) return limits_.reattach_grace;
  return node.broke_with_many ? limits_.lease : limits_.reconnect_grace;
}

// Whether this Hello proves that it is of the entry's agent or of the next
// incarnation of that agent. The shell has verified the credential. For an
// agent that has attended this daemon, CredentialStands tells which incarnation
// the credential is for. For a member that has not come back since the restart,
// the seal tells it; any other incarnation may be one that was replaced before.
// A credential of a run that adoption discarded counts as the token for which
// it was given.
bool Job::ProvesToBeItsAgent(const Node& node, const v1::Hello& hello) const {
  if (!hello.has_node_credential() || hello.run() != run_) return false;
  const uint64_t committed = node.incarnation_committed;
  return !Restored(node.hello) || committed == 0 || node.finished() ||
         hello.incarnation() == committed ||
         hello.previous_incarnation() == committed;
}

// Whether the agent that has the name may still come back. No other agent takes
// its place before it is lost. Otherwise any worker's token could take it at
// the moment when a stream breaks, or take all places after a restart of the
// daemon. A new agent of the same node has to wait for that long; the
// launcher's agent does not, since it shows an admin's token.
bool Job::AwaitsItsAgent(const Node& node, const v1::Hello& hello) const {
  if (phase_ == Phase::kEnded || node.gone || node.session != 0 ||
      ProvesToBeItsAgent(node, hello) || hello.launcher()) {
    return false;
  }
  // A journaled member is waited for while its world runs. If the daemon is
  // isolated, it is waited for beyond its grace, since most agents are not back
  // then. Once the world has ended, most often the machine was rebooted.
  if (Restored(node.hello)) {
    return phase_ == Phase::kRunning && node.member();
  }
  // The same incarnation may come again because its Welcome was lost.
  if (node.hello.incarnation() == hello.incarnation()) return false;
  // Its deadline is extended while the daemon is late or isolated. A new agent
  // of the node would be kept out meanwhile.
  return now_ < std::min(node.deadline, node.suspect_since + NameGrace(node));
}

void Job::SayRefused(const Attend& attend, const std::string& text) {
  actions_.push_back(Log{
      Log::Level::kWarning,
      absl::StrCat("job=", job_, " event=refused node=", attend.hello.node(),
                   " address=", attend.observed_address,
                   " reason=", Quoted(text)),
      attend.observed_address});
}

// Whether this Hello continues the agent that the entry describes.
bool Job::Continues(const Node& node, const v1::Hello& hello) const {
  if (node.gone) return false;
  if (!Restored(node.hello)) {
    return node.hello.incarnation() == hello.incarnation();
  }
  return ContinuesRestored(node, hello);
}

// For a member from a journal or of an adopted world. A token does not prove
// that the node is one that was admitted before; only the credential of the row
// does. Otherwise one Hello could take a member's place and say that its ranks
// have ended.
bool Job::ContinuesRestored(const Node& node, const v1::Hello& hello) const {
  const bool same_ranks =
      node.hello.ranks() == 0 || hello.ranks() == node.hello.ranks();
  if (!hello.has_node_credential() || hello.run() != run_ || !same_ranks) {
    return false;
  }
  // A node outside a running world has no state to continue.
  if (phase_ != Phase::kRunning || !node.member()) return true;
  if (node.incarnation_committed != 0 &&
      node.incarnation_committed != hello.incarnation()) {
    return false;
  }
  return hello.held().running_generation() == generation_ ||
         hello.held().prepared_generation() == generation_;
}

Job::Entered Job::Enter(const Attend& attend) {
  const std::string& name = attend.hello.node();
  const auto known = nodes_.find(name);
  const bool redialed =
      known != nodes_.end() && Continues(known->second, attend.hello);
  bool moved = false;
  bool probed_anew = false;
  if (known != nodes_.end() && !redialed && !known->second.gone) {
    Lose(known->second, v1::REASON_CODE_REPLACED,
         absl::StrCat("a new agent attends in its place, from ",
                      attend.observed_address));
  }
  if (attend.hello.has_node_credential()) {
    fence_.GoesOn({name, attend.hello.previous_incarnation()},
                  attend.hello.incarnation());
  }
  for (const uint64_t incarnation : attend.swept) {
    if (fence_.Gone(NodeLife{name, incarnation})) FenceOpened();
  }
  Node& node = nodes_[name];
  if (!redialed) last_call_.Arrived(node.attended_at, now_, limits_);
  const bool was_barred = barred_.contains(name);
  if (redialed) {
    const bool awaited = phase_ == Phase::kGathering && probing_.Awaits(name);
    ForgetProbes(name);
    const bool restored = Restored(node.hello);  // Without facts.
    moved = TakeFacts(node, attend.hello.facts()) == FactsChange::kAddresses &&
            !restored;
    probed_anew = moved || awaited;
    if (node.session != 0) {
      Close(node.session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_REDIALED,
            "a newer stream of this agent is here");
      sessions_.erase(node.session);
      // It attends again: the cause of its exclusion may be fixed.
      barred_.erase(name);
      node.late = false;
    }
    // The agent reports its stalled ranks again, and gets time to do so.
    DropStallsOf(node);
    node.tells_until = now_ + limits_.lease;
    hangs_.AwaitMember(now_, limits_);
  } else {
    CHECK(node.deadline == absl::InfiniteFuture());
    reach_.Forget(name);
    // The agent had ranks in a world before it was declared lost. A token does
    // not prove that.
    const bool same_agent =
        attend.hello.has_node_credential() &&
        attend.hello.previous_incarnation() != 0 &&
        attend.hello.previous_incarnation() == node.hello.incarnation();
    const uint64_t served_in = same_agent ? node.served_in : 0;
    node = Node();
    node.served_in = served_in;
    node.attended_at = now_;
    // A Hello without a run id: a new agent was started on this node.
    if (attend.hello.run().empty()) ForgetLeaving(name);
    if (notices_.Leaves(name)) {
      node.reason = absl::StrCat(name, " leaves: as it was asked to");
    }
  }
  node.by_credential = attend.hello.has_node_credential();
  const bool former = node.by_credential && attend.hello.run() != run_;
  // It shows no credential of an earlier incarnation of this node, so it is
  // another agent. The earlier credentials become invalid now: a restarted
  // daemon does not know which incarnation was the last, and an earlier one may
  // come back first.
  if (!redialed && (!node.by_credential || former) && node_epochs_.Has(name)) {
    node_epochs_.Raise(name);
  }
  node_epochs_.Admit(name, node.by_credential
                               ? former ? former_epochs_.TokenOf(name) : ""
                               : attend.hello.token().id());
  // Set hello before the deadline: the name in it is the key in deadlines_.
  v1::Facts planned_with = node.hello.facts();
  node.hello = attend.hello;
  if (node.told_facts.has_value()) {
    *node.hello.mutable_facts() = std::move(planned_with);
  }
  node.hello.clear_token();
  node.hello.clear_node_credential();
  node.hello.clear_previous_incarnation();
  node.hello.clear_held();
  node.hello.clear_settings();
  node.observed_address = attend.observed_address;
  node.arrived_at = attend.arrived_at;
  node.clock_offset = attend.clock_offset;
  if (!redialed) node.attended_from = attend.hello.previous_incarnation();
  node.session = attend.session;
  const bool excluded = node.quarantined || node.differs;
  if (!notices_.Leaves(name)) {
    node.reason = excluded ? node.excluded_for : "";
  }
  sessions_[attend.session] = name;
  suspects_.erase(name);
  node.broke_with_many = false;
  // Only its next incarnation, or blame that moves to another node, ends this
  // exclusion.
  if (excluded) barred_.insert(name);
  if (phase_ != Phase::kEnded) Renew(node);
  node.state = StateByPhase(node);
  if (phase_ != Phase::kEnded && !node.member()) SayHold(node);
  if (phase_ == Phase::kRunning && !node.member()) {
    JudgeNewcomer(node);
    const bool to_probe = !redialed || was_barred ||
                          reach_.HeldUntil(name) == absl::InfiniteFuture();
    if (to_probe && !barred_.contains(name)) GrowSoon(node);
  }
  Changed();
  return {node, redialed, moved, probed_anew};
}

v1::NodeState Job::StateByPhase(const Node& node) const {
  if (phase_ == Phase::kEnded) return v1::NODE_STATE_FINISHED;
  if (Leaves(node)) return v1::NODE_STATE_DRAINING;
  if (node.quarantined) return v1::NODE_STATE_QUARANTINED;
  const bool world = phase_ == Phase::kForming || phase_ == Phase::kRunning;
  if (!world) return v1::NODE_STATE_ATTENDING;
  if (!node.member()) return v1::NODE_STATE_SPARE;
  if (phase_ == Phase::kForming) return v1::NODE_STATE_PREPARING;
  return node.finished() ? v1::NODE_STATE_FINISHED : v1::NODE_STATE_RUNNING;
}

// Sends a node that came back what it has missed, and applies what its Hello
// reports.
void Job::TakeUp(Node& node, const v1::Held& held) {
  v1::DaemonMessage message;
  // In a job that failed and has --linger, running ranks are left alone.
  const bool left_alone = phase_ == Phase::kSettling && node.member() &&
                          limits_.linger > absl::ZeroDuration() &&
                          held.running_generation() == generation_;
  if (held.running_generation() != 0 && !left_alone &&
      (held.running_generation() != generation_ || !node.member() ||
       phase_ != Phase::kRunning)) {
    v1::Abort& abort = *message.mutable_abort();
    abort.set_generation(held.running_generation());
    abort.set_code(why_.code());
    abort.set_reason(
        absl::StrCat("generation ", held.running_generation(), " has ended"));
    ToNode(node, message);
  }
  if (phase_ == Phase::kForming && node.member() && !node.prepared) {
    *message.mutable_proposal() = proposal_;
    ToNode(node, message);
  }
  if (phase_ == Phase::kRunning && node.member() &&
      held.running_generation() != generation_) {
    if (held.prepared_generation() == generation_) {
      ToNode(node, CommitMessage());
    } else {
      // The same agent, but it has lost what it had prepared. It may have a
      // seat again once its ranks have stopped, after a delay that grows.
      const std::string text =
          absl::StrCat(node.hello.node(), " came back without its world");
      Bar(node, text);
      node.late = true;
      return Reform(v1::REASON_CODE_LOST_STREAM, text, node.hello.node());
    }
  }
  if (FenceLeft(now_) > absl::ZeroDuration() && !IsOfFenced(node)) {
    // The others have this message already; it is not repeated when a node
    // arrives.
    *message.mutable_waiting() = GatheringWaiting();
    ToNode(node, message);
  }
  // So that a user who adds a node to a running world does not take it for
  // hung.
  if (phase_ == Phase::kRunning && !node.member()) TellSpare(node);
  if (phase_ == Phase::kRunning && node.member() && notices_.pending()) {
    *message.mutable_notice() = notices_.Now(now_);
    ToNode(node, message);
  } else if (Leaves(node) && !barred_.contains(node.hello.node())) {
    // Nothing keeps this node here.
    LeaveAtOnce(node, node.reason);
  }
}

std::string Job::CredentialFor(Node& node) {
  if (!keys_.credential) return "";
  node.credential_at = now_;
  return keys_.credential(run_, node.hello,
                          node_epochs_.EpochOf(node.hello.node()));
}

void Job::RenewCredential(Node& node) {
  if (!keys_.credential ||
      now_ - node.credential_at < limits_.credential_renewal) {
    return;
  }
  v1::DaemonMessage message;
  message.mutable_new_credential()->set_node_credential(CredentialFor(node));
  ToNode(node, std::move(message));
}

void Job::SendWelcome(Node& node) {
  ToNode(node, WelcomeOf(run_, settings_, CredentialFor(node)));
}

}  // namespace rollcall
