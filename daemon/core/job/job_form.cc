// Job: gathering, and the two phases in which a world is formed.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/check.h"
#include "daemon/base/printable.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"
#include "daemon/core/network_plan/differences.h"
#include "daemon/core/network_plan/fabric.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/ranking.h"
#include "daemon/core/state_source.h"

namespace rollcall {
namespace {

// Most nodes named in a log line.
constexpr size_t kNamedMax = 8;

}  // namespace

void Job::Gather(bool at_once) {
  phase_ = Phase::kGathering;
  gathering_since_ = now_;
  Unfence();
  join_until_ = now_ + limits_.join_timeout;
  last_call_ = LastCall(now_);
  reform_now_ = at_once;
  next_waiting_ = now_ + absl::Seconds(1);
  told_waiting_.clear();
  rounds_.Reset();
  TakeToldFacts();
  Changed();
}

// A member whose stream broke keeps its seat until its grace is over. Forming a
// world without it would cost a generation if it came back a moment later.
bool Job::SeatedSuspect() const {
  return std::any_of(
      suspects_.begin(), suspects_.end(),
      [&](const std::string& name) { return nodes_.at(name).seat >= 0; });
}

void Job::MaybeForm() {
  if (phase_ != Phase::kGathering || isolation_.on() || !claimants_.empty()) {
    return;
  }
  if (SeatedSuspect() || ProbesUnderWay()) return;
  QuarantineTheBlamed();
  if (Able() < nodes_min_) PardonTheBlamed();
  const size_t present = Able();
  last_call_.SetEnough(present >= nodes_min_, now_);
  if (present < nodes_min_) {
    Unfence();
    reform_now_ = false;  // A new gathering: the last call counts again.
    if (now_ >= join_until_) {
      FailRendezvous(
          v1::REASON_CODE_JOIN_TIMEOUT,
          absl::StrCat(
              present, " of ", nodes_min_, " nodes attended within ",
              absl::FormatDuration(limits_.join_timeout), "; ", MissingText(),
              generation_ > 0
                  ? absl::StrCat("; the last world ended: ", why_.reason())
                  : ""));
    }
    return;
  }
  if (present < nodes_max_ && !reform_now_) {
    if (now_ < last_call_.Ends(limits_)) return;
  }
  if (IsStillFenced()) return;
  const std::vector<Seated> seated =
      AssignSeats(WithoutLatecomers(Candidates()), nodes_max_);
  if (!IsFenced(seated)) Form(seated);
}

// A job takes one of the daemon's places only while nodes attend. An agent that
// has lost its stream gets as long to come back as after a restart of the
// daemon. A job that has run keeps its place until join_timeout.
void Job::MaybeEndUnattended() {
  if (!sessions_.empty() || !suspects_.empty()) {
    unattended_since_ = absl::InfiniteFuture();
  } else if (unattended_since_ == absl::InfiniteFuture()) {
    unattended_since_ = now_;
  }
  if (!MayEndUnattended() ||
      now_ < unattended_since_ + limits_.reattach_grace) {
    return;
  }
  FailRendezvous(v1::REASON_CODE_JOIN_TIMEOUT,
                 absl::StrCat("no node attended for ",
                              absl::FormatDuration(limits_.reattach_grace),
                              ", and the job had never run"));
}

// Until when the node gets no seat because newcomers were lost, or because its
// addresses are not proven. A node that has a seat keeps it.
absl::Time Job::HeldUntil(const Node& node) const {
  if (node.seat >= 0) return absl::InfinitePast();
  return std::max(newcomers_.HoldOf(node.hello.node(), now_, limits_).until,
                  reach_.HeldUntil(node.hello.node()));
}

Candidate Job::CandidateOf(const Node& node) {
  return {node.hello.node(), node.seat, node.hello.launcher(),
          NvlinkDomain(node.hello.facts())};
}

std::vector<Candidate> Job::Candidates() const {
  std::vector<Candidate> candidates;
  std::vector<const Node*> held;
  candidates.reserve(sessions_.size());
  for (const auto& [name, node] : nodes_) {
    if (node.session == 0 || barred_.contains(name)) continue;
    if (IsSilentProber(name)) continue;
    if (IsHeld(node)) {
      held.push_back(&node);
      continue;
    }
    candidates.push_back(CandidateOf(node));
  }
  // If too few others are there, delayed nodes get a seat as well. Nodes that
  // flap have attended last, so they come last.
  std::stable_sort(held.begin(), held.end(), [](const Node* a, const Node* b) {
    return a->attended_at < b->attended_at;
  });
  for (const Node* node : held) {
    if (candidates.size() >= nodes_min_) break;
    candidates.push_back(CandidateOf(*node));
  }
  return candidates;
}

std::vector<PlanNode> Job::PlanNodes(const std::vector<Seated>& seated) const {
  std::vector<PlanNode> nodes;
  const std::string daemon_address = DaemonAddress();
  for (const Seated& s : seated) {
    const Node& node = nodes_.at(s.node);
    const bool stays = phase_ == Phase::kRunning && node.member();
    // The launcher's agent connects to its daemon over loopback.
    const bool known = !node.hello.launcher() || daemon_address.empty() ||
                       !IsUnusable(node.observed_address);
    nodes.push_back({s.node, &node.hello.facts(),
                     known ? node.observed_address : daemon_address,
                     node.hello.launcher(), probing_.Of(s.node), stays});
  }
  return nodes;
}

std::string Job::DaemonAddress() const {
  std::map<std::string, size_t> nodes_at;
  for (const auto& [name, node] : nodes_) {
    if (node.session != 0 && !IsUnusable(node.arrived_at)) {
      ++nodes_at[node.arrived_at];
    }
  }
  const auto most = std::max_element(
      nodes_at.begin(), nodes_at.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == nodes_at.end() ? "" : most->first;
}

void Job::Form(const std::vector<Seated>& seated) {
  const std::vector<PlanNode> plan_nodes = PlanNodes(seated);
  if (AwaitProbes(plan_nodes)) return;
  std::vector<WorldNode> world_nodes;
  for (const Seated& s : seated) {
    world_nodes.push_back({&nodes_.at(s.node).hello, s.seat});
  }
  std::vector<std::string> without;
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(plan_nodes, &without);
  if (!plan.ok() && MayProbeAgain(without)) return;
  if (!plan.ok() && CanDoWithout(without)) {
    for (const std::string& name : without) {
      Bar(nodes_.at(name), std::string(plan.status().message()));
      reach_.Unreached(name, now_ + limits_.unreached_delay);
    }
    // If too few nodes are left, this waits for others.
    return MaybeForm();
  }
  if (!plan.ok()) {
    FailRendezvous(v1::REASON_CODE_NO_ADDRESS,
                   std::string(plan.status().message()));
    return;
  }
  if (JudgeDifferences(plan_nodes, *plan)) return MaybeForm();
  WarnOfPlan(plan_nodes, *plan);
  generation_ = std::max(generation_, generation_seen_) + 1;
  adoptable_ = false;
  v1::World header;
  header.set_job(job_);
  header.set_run(run_);
  header.set_generation(generation_);
  header.set_restarts_charged(failures_.charged());
  header.set_max_restarts(limits_.max_restarts);
  Propose(seated, BuildWorld(header, world_nodes, *plan));
}

// Nodes that their peers cannot reach get no seat, and the job goes on. The
// launcher's own agent always has a seat.
bool Job::CanDoWithout(const std::vector<std::string>& names) const {
  return !names.empty() &&
         std::none_of(names.begin(), names.end(), [&](const std::string& name) {
           return nodes_.at(name).hello.launcher();
         });
}

void Job::Propose(const std::vector<Seated>& seated, v1::World world) {
  world_ = std::move(world);
  proposal_.set_generation(generation_);
  proposal_.set_world(EncodeWorld(world_));
  proposal_.set_compression(v1::COMPRESSION_NONE);
  proposal_.set_world_bytes(static_cast<uint32_t>(proposal_.world().size()));
  seal_.reset();
  first_prepared_.Clear();
  phase_ = Phase::kForming;
  reform_now_ = false;
  rounds_.Reset();
  next_waiting_ = absl::InfiniteFuture();
  prepare_deadline_ = now_ + limits_.prepare_timeout;
  unprepared_ = seated.size();
  finished_.clear();
  if (last_call_.overdue()) {
    why_.set_reason(
        absl::StrCat(why_.reason(), "; more nodes kept attending for ",
                     absl::FormatDuration(limits_.arrivals_wait_max),
                     " after enough were there"));
  }
  last_reform_ = why_;
  last_reform_.set_generation(generation_);
  for (auto& [name, node] : nodes_) {
    // The seat of a node that was not waited for goes to another node.
    node.seat = -1;
    node.node_rank = -1;
    node.prepared = false;
    node.stopped = false;
    node.state_held.reset();
    node.done.clear();
    node.started = 0;
    const bool eligible = node.session != 0 && !barred_.contains(name);
    if (!eligible) CountLoss(node);
    node.called = false;
    if (eligible) node.state = v1::NODE_STATE_SPARE;
  }
  for (size_t i = 0; i < seated.size(); ++i) {
    Node& node = nodes_.at(seated[i].node);
    reach_.Forget(seated[i].node);
    node.seat = static_cast<int>(seated[i].seat);
    node.node_rank = static_cast<int>(i);
    node.state = v1::NODE_STATE_PREPARING;
    node.reason.clear();
  }
  for (auto& [name, node] : nodes_) {
    if (node.session == 0 || node.member() || barred_.contains(name)) continue;
    if (!IsHeld(node)) node.reason.clear();
    if (IsSilentProber(name)) {
      node.reason = kSilentText;
      HoldUnreached(name);
    }
    SayHold(node);
  }
  actions_.push_back(Journal{Journal::Kind::kProposed, generation_,
                             proposal_.SerializeAsString()});
  v1::DaemonMessage message;
  *message.mutable_proposal() = proposal_;
  actions_.push_back(Send{MemberSessions(), std::move(message)});
  Say(Log::Level::kInfo,
      absl::StrCat("event=form generation=", generation_, " nodes=",
                   seated.size(), " world_size=", world_.world_size(),
                   " code=", v1::ReasonCode_Name(why_.code()),
                   " reason=", Quoted(why_.reason())));
  TellWaiting();
  Changed();
}

// Reports properties that all nodes should share and do not, if that is new. In
// a strict job, nodes that differ get no seat. Returns whether there are any.
bool Job::JudgeDifferences(const std::vector<PlanNode>& nodes,
                           const NetworkPlan& plan) {
  if (settings_.preflight() == v1::PREFLIGHT_OFF) return false;
  std::vector<ComparedNode> compared;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes_.at(nodes[i].node);
    compared.push_back({nodes[i].node, nodes[i].facts,
                        node.hello.command_digest(), plan.nodes[i].interface,
                        node.clock_offset});
  }
  // The launcher's node always has a seat, so the others are compared with it.
  const auto launcher =
      std::find_if(nodes.begin(), nodes.end(),
                   [](const PlanNode& node) { return node.launcher; });
  const bool rules = launcher != nodes.end();
  const size_t reference = rules ? static_cast<size_t>(launcher - nodes.begin())
                                 : MostCommonNode(compared);
  std::vector<v1::Difference> found = FindDifferences(compared, reference);
  const bool strict = settings_.preflight() == v1::PREFLIGHT_STRICT;
  // The world was formed without the nodes that differ. They still have to be
  // fixed, so differences_ is kept.
  if (found.empty() &&
      std::any_of(nodes_.begin(), nodes_.end(),
                  [](const auto& entry) { return entry.second.differs; })) {
    return false;
  }
  const auto told = [&](const v1::Difference& difference) {
    return std::any_of(differences_.begin(), differences_.end(),
                       [&](const v1::Difference& before) {
                         return DifferenceText(before) ==
                                DifferenceText(difference);
                       });
  };
  for (const v1::Difference& difference : found) {
    if (told(difference)) continue;
    Say(Log::Level::kWarning,
        absl::StrCat("event=differs text=", Quoted(DifferenceText(difference)),
                     " advice=", Quoted(difference.advice())));
  }
  differences_ = std::move(found);
  if (!strict) return false;
  const auto differing =
      NodesThatDiffer(compared, differences_, reference, rules);
  for (const auto& [name, text] : differing) {
    BarForDiffering(nodes_.at(name), text);
  }
  return !differing.empty();
}

void Job::BarForDiffering(Node& node, const std::string& text) {
  Bar(node, absl::StrCat("--preflight strict: ", text));
  node.excluded_for = node.reason;
  node.differs = true;
}

// Called before a running world is ended to take this node in.
void Job::JudgeNewcomer(Node& node) {
  if (settings_.preflight() != v1::PREFLIGHT_STRICT || node.differs ||
      node.hello.launcher()) {
    return;
  }
  std::vector<ComparedNode> members;
  for (const auto& [name, other] : nodes_) {
    if (!other.member() || other.session == 0) continue;
    members.push_back({name, &other.hello.facts(), other.hello.command_digest(),
                       "", std::nullopt});
  }
  const ComparedNode newcomer = {node.hello.node(), &node.hello.facts(),
                                 node.hello.command_digest(), "", std::nullopt};
  const std::optional<v1::Difference> difference =
      FindNewcomerDifference(members, newcomer);
  // Not added to differences_, which are of the world that was formed.
  if (difference.has_value()) {
    BarForDiffering(node, DifferenceText(*difference));
  }
}

void Job::WarnOfPlan(const std::vector<PlanNode>& nodes,
                     const NetworkPlan& plan) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes_.at(nodes[i].node);
    const std::string& warning = plan.nodes[i].warning;
    if (std::exchange(node.plan_warning, warning) == warning) continue;
    if (warning.empty()) continue;
    Say(Log::Level::kWarning, absl::StrCat("event=warning node=", nodes[i].node,
                                           " text=", Quoted(warning)));
  }
}

// The node stays attended but gets no seat until it attends again.
void Job::Bar(Node& node, const std::string& reason) {
  if (!Leaves(node)) CountLoss(node);
  if (node.session != 0) barred_.insert(node.hello.node());
  node.late = false;
  reach_.Forget(node.hello.node());
  node.seat = -1;
  node.state = v1::NODE_STATE_SPARE;
  node.reason = Printable(reason, Limits::node_reason_bytes_max);
  SayOf(node, Log::Level::kWarning,
        absl::StrCat("event=spare node=", node.hello.node(),
                     " reason=", Quoted(reason)));
  Changed();
}

void Job::DropLaggards() {
  std::vector<std::string> names;
  for (auto& [name, node] : nodes_) {
    if (!node.member() || node.prepared) continue;
    // Counted as a loss however long it was in worlds, so the delay grows.
    node.joined_at = absl::InfiniteFuture();
    Bar(node,
        absl::StrCat("did not prepare generation ", generation_, " within ",
                     absl::FormatDuration(limits_.prepare_timeout)));
    node.late = true;
    if (names.size() < 8) names.push_back(name);
  }
  CHECK(!names.empty());
  Reform(v1::REASON_CODE_PREPARE_TIMEOUT,
         absl::StrCat(absl::StrJoin(names, ", "), " did not prepare in time"),
         names.front());
}

// A late node says that its ranks are gone or that it is prepared: it may have
// a seat again. Bar has counted a loss, so the delay grows with each
// repetition.
void Job::TakeBackLate(Node& node) {
  if (!std::exchange(node.late, false)) return;
  const std::string& name = node.hello.node();
  if (Leaves(node) || barred_.erase(name) == 0) return;
  node.state = StateByPhase(node);
  node.reason.clear();
  SayHold(node);
  SayOf(node, Log::Level::kInfo,
        absl::StrCat("event=ready node=", name,
                     " reason=\"it prepared, or its ranks ended, too late\""));
  if (phase_ == Phase::kRunning) GrowSoon(node);
  Changed();
}

// Commits if all members are prepared and no check result is outstanding.
void Job::MaybeCommit() {
  if (phase_ == Phase::kForming && unprepared_ == 0 && !isolation_.on() &&
      !ChecksPending()) {
    Commit();
  }
}

void Job::Commit() {
  v1::Seal seal;
  seal.set_generation(generation_);
  seal.set_master_address(world_.members(0).address());
  seal.set_master_port(first_prepared_.master_port());
  *seal.mutable_nccl_ids() = first_prepared_.nccl_ids();
  seal.set_nccl_version(first_prepared_.nccl_version());
  seal.set_nccl_absent(first_prepared_.nccl_absent());
  if (std::optional<v1::StateSource> source = FindStateSource()) {
    *seal.mutable_state_source() = *std::move(source);
  }
  AddRows(seal);
  seal.set_common_digest(CommonCommand());
  seal_ = seal;
  phase_ = Phase::kRunning;
  fence_ = Fence();
  world_taken_up_ = false;
  running_since_ = now_;
  rounds_.PingLater(now_, limits_);
  CountStarted();
  if (unfinished_ < static_cast<size_t>(world_.members_size())) {
    next_waiting_ = now_ + absl::Minutes(1);
  }
  std::vector<uint32_t> ranks;
  for (const v1::Member& member : world_.members()) {
    ranks.push_back(member.ranks());
    Node& node = nodes_.at(member.node());
    if (node.session != 0) node.state = v1::NODE_STATE_RUNNING;
    node.served_in = generation_;
    node.step_before = node.step;
    node.reprobes = 0;
    node.joined_at = std::min(node.joined_at, now_);
  }
  last_world_ = generation_;
  exchanges_.Begin(generation_, std::move(ranks));
  actions_.push_back(Journal{Journal::Kind::kCommitted, generation_,
                             seal_->SerializeAsString()});
  actions_.push_back(Send{MemberSessions(), CommitMessage()});
  BeginStarts();
  Say(Log::Level::kInfo,
      absl::StrCat(
          "event=run generation=", generation_, " world_size=",
          world_.world_size(), " master=", seal_->master_address(), ":",
          seal_->master_port(), " nccl_ids=", seal_->nccl_ids_size(),
          seal_->nccl_absent().empty()
              ? ""
              : absl::StrCat(" nccl_absent=", Quoted(seal_->nccl_absent())),
          seal_->has_state_source()
              ? absl::StrCat(" state_of_rank=", seal_->state_source().rank(),
                             " step=", seal_->state_source().step())
              : ""));
  for (auto& [name, node] : nodes_) {
    const bool eligible = node.session != 0 && !barred_.contains(name);
    if (eligible && !node.member()) GrowSoon(node);
  }
  Changed();
}

// The job's end does not wait for ranks that are not started (--once).
void Job::CountStarted() {
  ranks_over_ = 0;
  unfinished_ = 0;
  for (const v1::Member& member : world_.members()) {
    const uint32_t started = RanksStarted(member);
    nodes_.at(member.node()).started = started;
    ranks_over_ += member.ranks() - started;
    unfinished_ += started > 0;
  }
}

// How each member was admitted. A daemon that adopts the run compares node
// credentials with this.
void Job::AddRows(v1::Seal& seal) const {
  std::map<std::string, uint32_t> places;
  for (const v1::Member& member : world_.members()) {
    seal.add_incarnations(nodes_.at(member.node()).hello.incarnation());
    seal.add_epochs(node_epochs_.EpochOf(member.node()));
    const std::string token_id = node_epochs_.TokenOf(member.node());
    uint32_t place = 0;
    if (!token_id.empty()) {
      const auto [at, fresh] = places.try_emplace(
          token_id, static_cast<uint32_t>(places.size() + 1));
      if (fresh) seal.add_token_ids(token_id);
      place = at->second;
    }
    seal.add_token_of(place);
  }
  seal.set_epoch_highest(node_epochs_.highest());
}

v1::DaemonMessage Job::CommitMessage() const {
  v1::DaemonMessage message;
  v1::Commit& commit = *message.mutable_commit();
  commit.set_generation(generation_);
  commit.set_seal(seal_->SerializeAsString());
  if (keys_.commit_proof) {
    commit.set_proof(keys_.commit_proof(run_, generation_, proposal_.world(),
                                        commit.seal()));
  }
  return message;
}

StateClaim::From Job::OriginOf(const Node& node) const {
  if (node.served_in != 0 && node.served_in == last_world_) {
    return StateClaim::From::kEnded;
  }
  return node.served_in != 0 || !knows_all_worlds_
             ? StateClaim::From::kEarlier
             : StateClaim::From::kNewcomer;
}

// Chooses among the ranks that kept running, one per node. Seats are in the
// order of node ranks.
std::optional<v1::StateSource> Job::FindStateSource() {
  std::vector<const v1::Member*> rows;
  std::vector<StateClaim> claims;
  for (const v1::Member& member : world_.members()) {
    const Node& node = nodes_.at(member.node());
    if (!node.state_held.has_value()) continue;
    rows.push_back(&member);
    claims.push_back({node.state_held->completed_step(), OriginOf(node)});
  }
  const StateChoice choice = ChooseStateSource(claims);
  for (size_t i = 0; i < choice.disbelieved.size() && i < kNamedMax; ++i) {
    const size_t at = choice.disbelieved[i];
    const std::string& name = rows[at]->node();
    const std::string compared =
        claims[at].from == StateClaim::From::kNewcomer
            ? "was in no world of this run"
            : absl::StrCat("the median of the world that ended is step ",
                           choice.median.value_or(0));
    SayOf(
        nodes_.at(name), Log::Level::kWarning,
        absl::StrCat("event=warning node=", name, " text=",
                     Quoted(absl::StrCat(
                         "node ", name, " reports that a rank of it holds the ",
                         "state of step ", claims[at].step, ", and ", compared,
                         "; its ranks take the state of the others"))));
  }
  if (!choice.source.has_value()) return std::nullopt;
  const v1::Member& member = *rows[*choice.source];
  const v1::RankState& state = *nodes_.at(member.node()).state_held;
  v1::StateSource source;
  source.set_rank(member.first_rank() + state.local_rank());
  source.set_step(state.completed_step());
  return source;
}

// Ends the current generation. The next one is formed as soon as possible.
void Job::Reform(v1::ReasonCode code, const std::string& reason,
                 const std::string& node) {
  EndGeneration(code, reason, node);
  // All ranks were asked to end anyway; no new world is formed.
  if (notices_.end_then().has_value()) return Finish(*notices_.end_then());
  Gather(/*at_once=*/true);
}

void Job::EndGeneration(v1::ReasonCode code, const std::string& reason,
                        const std::string& node, bool tell) {
  CHECK(phase_ == Phase::kForming || phase_ == Phase::kRunning);
  if (phase_ == Phase::kRunning) FenceOff();
  why_.Clear();
  why_.set_generation(generation_);
  why_.set_code(code);
  why_.set_reason(reason);
  why_.set_node(node);
  why_.set_restarts_charged(failures_.charged());
  actions_.push_back(
      Journal{Journal::Kind::kEnded, generation_, why_.SerializeAsString()});
  if (tell) TellAbort();
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (at->second.state == v1::NODE_STATE_RUNNING ||
        at->second.state == v1::NODE_STATE_FINISHED ||
        at->second.state == v1::NODE_STATE_PREPARING) {
      at->second.state = v1::NODE_STATE_ATTENDING;
    }
  }
  Say(Log::Level::kWarning, absl::StrCat("event=abort generation=", generation_,
                                         " code=", v1::ReasonCode_Name(code),
                                         " reason=", Quoted(reason)));
  finished_due_ = absl::InfiniteFuture();
  DropPending();
  hangs_.DropAll();
  EndProbes();
  Changed();
}

// To the members of the generation that has ended.
void Job::TellAbort() {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(generation_);
  message.mutable_abort()->set_code(why_.code());
  message.mutable_abort()->set_reason(why_.reason());
  // The rank that hung is killed at once: it would not react to SIGTERM.
  if (why_.code() == v1::REASON_CODE_HANG && !why_.node().empty()) {
    const auto rank = static_cast<uint32_t>(failures_.cause().rank());
    for (const v1::Member& member : world_.members()) {
      if (member.node() != why_.node()) continue;
      message.mutable_abort()->set_hung_node(member.node());
      message.mutable_abort()->set_hung_local_rank(rank - member.first_rank());
    }
  }
  actions_.push_back(Send{MemberSessions(), std::move(message)});
}

}  // namespace rollcall
