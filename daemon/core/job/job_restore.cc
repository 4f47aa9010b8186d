// Job: how a job begins: new, or restored from its journal.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// Applies each limit that the job sets; a setting overrides the default. Unset
// settings get the default, so that status shows the value in effect.
void ApplyDurations(v1::JobSettings& s, Limits& limits) {
  struct Row {
    absl::Duration& limit;
    bool (v1::JobSettings::*has)() const;
    google::protobuf::Duration* (v1::JobSettings::*setting)();
  };
  using S = v1::JobSettings;
  const Row rows[] = {
      {limits.lease, &S::has_lease, &S::mutable_lease},
      {limits.join_timeout, &S::has_join_timeout, &S::mutable_join_timeout},
      {limits.stop_grace, &S::has_stop_grace, &S::mutable_stop_grace},
      {limits.notice_time, &S::has_notice_time, &S::mutable_notice_time},
      {limits.hang_timeout, &S::has_hang_timeout, &S::mutable_hang_timeout},
      {limits.start_timeout, &S::has_start_timeout, &S::mutable_start_timeout},
      {limits.last_call, &S::has_last_call, &S::mutable_last_call},
      {limits.prepare_timeout, &S::has_prepare_timeout,
       &S::mutable_prepare_timeout},
      {limits.daemon_grace, &S::has_daemon_grace, &S::mutable_daemon_grace},
      {limits.reconnect_grace, &S::has_reconnect_grace,
       &S::mutable_reconnect_grace},
      {limits.reattach_grace, &S::has_reattach_grace,
       &S::mutable_reattach_grace},
      {limits.linger, &S::has_linger, &S::mutable_linger},
      {limits.ping_interval, &S::has_ping_interval, &S::mutable_ping_interval},
  };
  for (const Row& row : rows) {
    if ((s.*row.has)()) row.limit = FromProto(*(s.*row.setting)());
    ToProto(row.limit, (s.*row.setting)());
  }
}

void ApplySettings(v1::JobSettings& s, Limits& limits) {
  ApplyDurations(s, limits);
  if (s.has_max_restarts()) limits.max_restarts = s.max_restarts();
  s.set_max_restarts(limits.max_restarts);
  if (s.has_requeue_exit_code()) {
    limits.requeue_exit_code = s.requeue_exit_code();
  }
  s.set_requeue_exit_code(limits.requeue_exit_code);
  if (s.grow() == v1::GROW_UNSPECIFIED) s.set_grow(v1::GROW_BOUNDARY);
  if (s.preflight() == v1::PREFLIGHT_UNSPECIFIED) {
    s.set_preflight(v1::PREFLIGHT_WARN);
  }
}

// The open generation's world, if the journal has a valid one.
absl::StatusOr<v1::World> WorldOf(const JournalState& state) {
  if (!state.proposal.has_value()) return absl::NotFoundError("no proposal");
  absl::StatusOr<v1::World> world = DecodeWorld(state.proposal->world());
  if (!world.ok()) return world;
  // Its number is below the highest if it was adopted from its members.
  bool fits = world->run() == state.run &&
              world->generation() <= state.generation &&
              world->generation() == state.proposal->generation();
  for (const v1::Member& member : world->members()) {
    fits = fits && member.seat() < state.settings.nodes_max();
  }
  if (state.seal.has_value()) {
    fits = fits && AdmitSeal(*state.seal, *world).ok();
  }
  if (fits) return world;
  return absl::InvalidArgumentError("a world of another run or generation");
}

}  // namespace

Job::Job(std::string job, std::string run, const v1::JobSettings& settings,
         const Limits& limits, absl::Time now)
    : job_(std::move(job)),
      run_(std::move(run)),
      settings_(settings),
      limits_(limits),
      nodes_min_(settings.nodes_min()),
      nodes_max_(settings.nodes_max()),
      now_(now),
      gathering_since_(now),
      last_call_(now),
      unattended_since_(now) {
  CHECK_GE(nodes_min_, 1u);
  CHECK_LE(nodes_min_, nodes_max_);
  CHECK_LE(nodes_max_, Limits::nodes_max);
  ApplySettings(settings_, limits_);
  why_.set_code(v1::REASON_CODE_FIRST);
  why_.set_reason("the first world");
  join_until_ = now + limits_.join_timeout;
  next_waiting_ = now + absl::Seconds(1);
}

absl::Status Job::CheckJournal(const JournalState& state) {
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
  // Far enough below the maximum of a message that the run can continue from
  // it.
  return AdmitCount("generation", state.generation, uint64_t{1} << 61);
}

Job Job::Restore(std::string job, const JournalState& state,
                 const Limits& limits, absl::Time now) {
  CHECK(!state.end.has_value());
  Job restored(std::move(job), state.run, state.settings, limits, now);
  restored.generation_ = state.generation;
  restored.knows_all_worlds_ = state.generation == 0;
  restored.failures_.SetCharged(
      std::min(state.restarts_charged, restored.limits_.max_restarts));
  restored.why_.set_code(v1::REASON_CODE_DAEMON_RESTART);
  restored.why_.set_reason("the daemon was restarted");
  restored.node_epochs_ = state.node_epochs;
  const absl::StatusOr<v1::World> world = WorldOf(state);
  if (world.ok()) restored.TakeUpWorld(*world, *state.proposal, state.seal);
  if (restored.phase_ == Phase::kGathering) restored.RestoreFence(state);
  if (state.finished.has_value()) restored.TakeUpFinished(*state.finished);
  if (state.leaving.has_value()) restored.TakeUpLeaving(*state.leaving);
  return restored;
}

void Job::TakeUpWorld(const v1::World& world, const v1::Proposal& proposal,
                      const std::optional<v1::Seal>& seal) {
  for (int row = 0; row < world.members_size(); ++row) {
    const v1::Member& member = world.members(row);
    Node& node = nodes_[member.node()];
    node.hello.set_node(member.node());
    node.hello.set_ranks(member.ranks());
    node.observed_address = member.address();
    node.heard_at = now_;
    node.seat = static_cast<int>(member.seat());
    if (seal.has_value()) node.node_rank = static_cast<int>(member.node_rank());
    if (seal.has_value()) node.served_in = world.generation();
    // It may have run for long, so its loss does not delay newcomers.
    if (seal.has_value()) node.joined_at = absl::InfinitePast();
    if (seal.has_value() && row < seal->incarnations_size()) {
      node.incarnation_committed = seal->incarnations(row);
    }
    Await(node);
  }
  if (!seal.has_value()) return;
  last_world_ = world.generation();
  generation_seen_ = std::max(generation_seen_, generation_);
  generation_ = world.generation();
  // A committed world runs, even while members have not come back yet.
  phase_ = Phase::kRunning;
  world_taken_up_ = true;
  world_ = world;
  proposal_ = proposal;
  seal_ = seal;
  running_since_ = now_;
  BeginStarts();
  rounds_.PingLater(now_, limits_);
  next_waiting_ = absl::InfiniteFuture();
  CountStarted();
  last_reform_ = why_;
  last_reform_.set_generation(generation_);
  std::vector<uint32_t> ranks;
  for (const v1::Member& m : world_.members()) ranks.push_back(m.ranks());
  exchanges_.Begin(generation_, std::move(ranks));
}

// Finished members are waited for like others, but losing one changes nothing.
void Job::TakeUpFinished(const v1::FinishedNodes& finished) {
  if (phase_ != Phase::kRunning) return;
  for (const uint32_t node_rank : finished.node_ranks()) TakeUpEnded(node_rank);
}

void Job::TakeUpEnded(uint32_t node_rank) {
  if (node_rank >= static_cast<uint32_t>(world_.members_size())) return;
  const v1::Member& member = world_.members(static_cast<int>(node_rank));
  Node& node = nodes_.at(member.node());
  // If all had finished, the run would have ended.
  if (node.ended() || unfinished_ == 1) return;
  for (uint32_t i = 0; i < node.started; ++i) node.done.insert(i);
  ranks_over_ += node.started;
  --unfinished_;
  finished_.insert(node_rank);
  node.broke_with_many = false;
}

// A node from the journal that has not come back yet.
void Job::Await(Node& node) {
  node.state = v1::NODE_STATE_SUSPECT;
  node.reason = "not back since the daemon was restarted";
  // Most nodes are not heard after a restart, so this one's silence is no
  // evidence against it.
  node.broke_with_many = true;
  suspects_.insert(node.hello.node());
  node.lease_until = now_ + limits_.reattach_grace;
  SetDeadline(node, node.lease_until);
}

// Restores earlier requests to leave. Each node gets its request again when it
// comes back.
void Job::TakeUpLeaving(const v1::Notice& leaving) {
  notices_.TakeUp(leaving);
  for (const std::string& name : leaving.nodes()) {
    const auto at = nodes_.find(name);
    if (!AdmitNodeName(name).ok() ||
        (at == nodes_.end() && nodes_.size() >= kKnownMax)) {
      continue;
    }
    // A node that has left already does not come back, and is removed then.
    notices_.Leave(name);
    Node& node = at != nodes_.end() ? at->second : nodes_[name];
    if (at == nodes_.end()) {
      node.hello.set_node(name);
      Await(node);
    }
    node.reason = absl::StrCat(name, " leaves: as it was asked to");
  }
  const std::optional<v1::End>& end = notices_.end_then();
  const std::set<std::string>& names = notices_.leaving();
  if (phase_ != Phase::kRunning || (names.empty() && !end)) return;
  Ask(notices_.kind(), limits_.reattach_grace + limits_.stop_grace,
      end ? end->reason() : absl::StrCat(*names.begin(), " leaves"));
  actions_.clear();  // No agent is here yet.
}

std::vector<Action> Job::Start() {
  actions_.clear();
  if (generation_ == 0) {
    actions_.push_back(
        Journal{Journal::Kind::kRunStarted, 0, settings_.SerializeAsString()});
    // Clears the node epochs that were journaled before.
    if (node_epochs_.highest() > 0 || node_epochs_.bytes() > 0) {
      actions_.push_back(Journal{Journal::Kind::kNodeEpochs, 0,
                                 node_epochs_.Whole().SerializeAsString()});
    }
    if (!notices_.leaving().empty()) JournalLeaving();
  }
  Say(Log::Level::kInfo, absl::StrCat("event=start nodes=", nodes_min_, ":",
                                      nodes_max_, " generation=", generation_));
  // All ranks were asked to end, and none runs that the end would wait for.
  if (notices_.end_then().has_value() && phase_ == Phase::kGathering) {
    Finish(*notices_.end_then());
  }
  return std::move(actions_);
}

}  // namespace rollcall
