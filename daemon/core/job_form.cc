// Job: gathering, and the two phases in which a world is formed.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/admission.h"
#include "daemon/core/check.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/job.h"
#include "daemon/core/network_plan.h"
#include "daemon/core/ranking.h"
#include "daemon/core/world.h"

namespace rollcall {

void Job::Gather(bool at_once) {
  phase_ = Phase::kGathering;
  gathering_since_ = now_;
  last_arrival_ = now_;
  reform_now_ = at_once;
  next_waiting_ = now_ + absl::Seconds(1);
  told_waiting_.clear();
  Changed();
}

// A member whose stream broke keeps its seat until its grace is over; forming
// without it, only to find it back a moment later, would cost a generation.
bool Job::SeatedSuspect() const {
  return std::any_of(
      suspects_.begin(), suspects_.end(),
      [&](const std::string& name) { return nodes_.at(name).seat >= 0; });
}

void Job::MaybeForm() {
  if (phase_ != Phase::kGathering || isolated_ || !claimants_.empty()) {
    return;
  }
  if (SeatedSuspect()) return;
  QuarantineTheBlamed();
  if (Present() < nodes_min_) PardonTheBlamed();
  const size_t present = Present();
  if (present < nodes_min_) {
    reform_now_ = false;  // A new gathering: the last call counts again.
    if (now_ >= gathering_since_ + limits_.join_timeout) {
      Fail(kExitRendezvous, v1::REASON_CODE_JOIN_TIMEOUT,
           absl::StrCat(
               present, " of ", nodes_min_, " nodes attended within ",
               absl::FormatDuration(limits_.join_timeout), "; ", MissingText(),
               generation_ > 0 ? absl::StrCat("; the last world ended because ",
                                              why_.reason())
                               : ""));
    }
    return;
  }
  if (present < nodes_max_ && !reform_now_ &&
      now_ < last_arrival_ + limits_.last_call) {
    return;
  }
  Form(AssignSeats(Candidates(), nodes_max_));
}

std::vector<Candidate> Job::Candidates() const {
  std::vector<Candidate> candidates;
  candidates.reserve(sessions_.size());
  for (const auto& [name, node] : nodes_) {
    if (node.session == 0 || barred_.contains(name)) continue;
    candidates.push_back({name, node.seat, node.hello.launcher()});
  }
  return candidates;
}

void Job::Form(const std::vector<Seated>& seated) {
  std::vector<PlanNode> plan_nodes;
  std::vector<WorldNode> world_nodes;
  for (const Seated& s : seated) {
    const Node& node = nodes_.at(s.node);
    plan_nodes.push_back({s.node, &node.hello.facts(), node.observed_address});
    world_nodes.push_back({&node.hello, s.seat});
  }
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(plan_nodes);
  if (!plan.ok()) {
    Fail(kExitRendezvous, v1::REASON_CODE_NO_ADDRESS,
         std::string(plan.status().message()));
    return;
  }
  generation_ = std::max(generation_, generation_seen_) + 1;
  adoptable_ = false;
  v1::World header;
  header.set_job(job_);
  header.set_run(run_);
  header.set_generation(generation_);
  header.set_restarts_charged(restarts_charged_);
  header.set_max_restarts(limits_.max_restarts);
  Propose(seated, BuildWorld(header, world_nodes, *plan));
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
  next_waiting_ = absl::InfiniteFuture();
  prepare_deadline_ = now_ + limits_.prepare_timeout;
  unprepared_ = seated.size();
  ranks_done_ = 0;
  last_reform_ = why_;
  last_reform_.set_generation(generation_);
  for (auto& [name, node] : nodes_) {
    node.node_rank = -1;
    node.prepared = false;
    node.stopped = false;
    node.at_boundary = false;
    node.state_held.reset();
    node.done.clear();
    const bool eligible = node.session != 0 && !barred_.contains(name);
    if (eligible) node.state = v1::NODE_STATE_SPARE;
  }
  for (size_t i = 0; i < seated.size(); ++i) {
    Node& node = nodes_.at(seated[i].node);
    node.seat = static_cast<int>(seated[i].seat);
    node.node_rank = static_cast<int>(i);
    node.state = v1::NODE_STATE_PREPARING;
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
  WarnOfDifferences();
  TellWaiting();
  Changed();
}

// A node that runs another command is seldom meant.
void Job::WarnOfDifferences() const {
  std::vector<std::string> others;
  const std::string& first =
      nodes_.at(world_.members(0).node()).hello.command_digest();
  for (const v1::Member& member : world_.members()) {
    const std::string& digest = nodes_.at(member.node()).hello.command_digest();
    if (digest != first && others.size() < 8) others.push_back(member.node());
  }
  if (others.empty()) return;
  const_cast<Job*>(this)->Say(
      Log::Level::kWarning,
      absl::StrCat("event=warning text=\"not the same command as on ",
                   world_.members(0).node(), ": ", absl::StrJoin(others, ", "),
                   "\""));
}

// The node stays attended but gets no seat, until it attends anew.
void Job::Bar(Node& node, const std::string& reason) {
  if (node.session != 0) barred_.insert(node.hello.node());
  node.seat = -1;
  node.state = v1::NODE_STATE_SPARE;
  node.reason = reason;
  Say(Log::Level::kWarning, absl::StrCat("event=spare node=", node.hello.node(),
                                         " reason=", Quoted(reason)));
  Changed();
}

void Job::DropLaggards() {
  std::vector<std::string> names;
  for (auto& [name, node] : nodes_) {
    if (!node.member() || node.prepared) continue;
    Bar(node,
        absl::StrCat("did not prepare generation ", generation_, " within ",
                     absl::FormatDuration(limits_.prepare_timeout)));
    if (names.size() < 8) names.push_back(name);
  }
  CHECK(!names.empty());
  Reform(v1::REASON_CODE_PREPARE_TIMEOUT,
         absl::StrCat(absl::StrJoin(names, ", "), " did not prepare in time"),
         names.front());
}

// All are prepared, and the one that failed has said how it is.
void Job::MaybeCommit() {
  if (phase_ == Phase::kForming && unprepared_ == 0 && !isolated_ &&
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
  seal_ = seal;
  phase_ = Phase::kRunning;
  running_since_ = now_;
  progressed_ = false;
  unfinished_ = static_cast<size_t>(world_.members_size());
  std::vector<uint32_t> ranks;
  for (const v1::Member& member : world_.members()) {
    ranks.push_back(member.ranks());
    Node& node = nodes_.at(member.node());
    if (node.session != 0) node.state = v1::NODE_STATE_RUNNING;
    node.served = true;
  }
  exchanges_.Begin(generation_, std::move(ranks));
  actions_.push_back(Journal{Journal::Kind::kCommitted, generation_,
                             seal_->SerializeAsString()});
  v1::DaemonMessage message;
  message.mutable_commit()->set_generation(generation_);
  message.mutable_commit()->set_seal(seal_->SerializeAsString());
  actions_.push_back(Send{MemberSessions(), std::move(message)});
  Say(Log::Level::kInfo,
      absl::StrCat(
          "event=run generation=", generation_, " world_size=",
          world_.world_size(), " master=", seal_->master_address(), ":",
          seal_->master_port(), " nccl_ids=", seal_->nccl_ids_size(),
          seal_->nccl_absent().empty()
              ? ""
              : absl::StrCat(" nccl_absent=\"", seal_->nccl_absent(), "\""),
          seal_->has_state_source()
              ? absl::StrCat(" state_of_rank=", seal_->state_source().rank(),
                             " step=", seal_->state_source().step())
              : ""));
  if (HasNewcomer()) GrowSoon();
  Changed();
}

// Of the ranks that stayed alive: the highest completed step, then the lowest
// seat. Seats grow with node ranks.
std::optional<v1::StateSource> Job::FindStateSource() const {
  std::optional<v1::StateSource> source;
  for (const v1::Member& member : world_.members()) {
    const Node& node = nodes_.at(member.node());
    if (!node.state_held.has_value()) continue;
    const v1::RankState& state = *node.state_held;
    if (source.has_value() && state.completed_step() <= source->step()) {
      continue;
    }
    source.emplace();
    source->set_rank(member.first_rank() + state.local_rank());
    source->set_step(state.completed_step());
  }
  return source;
}

// The current generation is over; the next one is formed as soon as it can be.
void Job::Reform(v1::ReasonCode code, const std::string& reason,
                 const std::string& node) {
  EndGeneration(code, reason, node);
  // All were to end anyway, and no world is formed for that.
  if (end_then_.has_value()) return Finish(*end_then_);
  Gather(/*at_once=*/true);
}

void Job::EndGeneration(v1::ReasonCode code, const std::string& reason,
                        const std::string& node, bool tell) {
  CHECK(phase_ == Phase::kForming || phase_ == Phase::kRunning);
  why_.Clear();
  why_.set_generation(generation_);
  why_.set_code(code);
  why_.set_reason(reason);
  why_.set_node(node);
  why_.set_restarts_charged(restarts_charged_);
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
  DropPending();
  DropStalls();
  Changed();
}

// To the members of the generation that has ended.
void Job::TellAbort() {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(generation_);
  message.mutable_abort()->set_code(why_.code());
  message.mutable_abort()->set_reason(why_.reason());
  if (hung_.has_value()) {
    message.mutable_abort()->set_hung_node(why_.node());
    message.mutable_abort()->set_hung_local_rank(*hung_);
  }
  actions_.push_back(Send{MemberSessions(), std::move(message)});
}

}  // namespace rollcall
