// Job: how a Job value begins: as a new run, or restored from its journal.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"
#include "daemon/core/status_words.h"

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
      {limits.setup_timeout, &S::has_setup_timeout, &S::mutable_setup_timeout},
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

}  // namespace

Job::Job(std::string job, std::string run, const v1::JobSettings& settings,
         const Limits& limits, absl::Time now)
    : out_(std::move(job)),
      settings_(settings),
      limits_(limits),
      now_(now),
      credentials_(std::move(run)),
      gathering_(now, limits) {
  CHECK_GE(settings_.nodes_min(), 1u);
  CHECK_LE(settings_.nodes_min(), settings_.nodes_max());
  CHECK_LE(settings_.nodes_max(), Limits::nodes_max);
  ApplySettings(settings_, limits_);
  gathering_ = Gathering(now, limits_);
  waiting_.TellAt(now + absl::Seconds(1));
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
  // Far enough below the maximum of the message's field that the run can
  // continue to count from it.
  return AdmitCount("generation", state.generation, uint64_t{1} << 61);
}

Job Job::Restore(std::string job, const JournalState& state,
                 const Limits& limits, absl::Time now) {
  CHECK(!state.end.has_value());
  Job restored(std::move(job), state.run, state.settings, limits, now);
  restored.generations_ = Generations(state.generation);
  restored.failures_.SetCharged(
      std::min(state.restarts_charged, restored.limits_.max_restarts));
  restored.failures_.reasons() =
      Reasons(v1::REASON_CODE_DAEMON_RESTART, "the daemon was restarted");
  restored.credentials_.Restore(state.node_epochs);
  const absl::StatusOr<v1::World> world = WorldOf(state);
  if (world.ok())
    restored.TakeUpWorld(*world, *state.proposal, state.world_commit);
  if (restored.phase_ == Phase::kGathering) {
    restored.gathering_.fence() = FenceOf(state, restored.membership_, now);
  }
  if (state.finished.has_value() && restored.IsRunning()) {
    restored.completion_.TakeUp(*state.finished, restored.world(),
                                restored.membership_);
  }
  if (state.leaving.has_value()) restored.TakeUpLeaving(*state.leaving);
  return restored;
}

void Job::TakeUpWorld(const v1::World& world, const v1::Proposal& proposal,
                      const std::optional<v1::WorldCommit>& world_commit) {
  for (int row = 0; row < world.members_size(); ++row) {
    const v1::Member& member = world.members(row);
    Node& node = membership_.Add(member.node());
    node.hello.set_node(member.node());
    node.hello.set_ranks(member.ranks());
    node.observed_address = member.address();
    node.heard_at = now_;
    node.seat = static_cast<int>(member.seat());
    if (world_commit.has_value())
      node.node_rank = static_cast<int>(member.node_rank());
    if (world_commit.has_value()) node.served_in = world.generation();
    // The world may have run for long, so the node's loss does not delay
    // newcomers.
    if (world_commit.has_value()) node.joined_at = absl::InfinitePast();
    if (world_commit.has_value() && row < world_commit->incarnations_size()) {
      node.incarnation_committed = world_commit->incarnations(row);
    }
    Await(node);
  }
  if (!world_commit.has_value()) return;
  generations_.TakeUp(world.generation());
  // A committed world runs, even if some members have not come back yet.
  phase_ = Phase::kRunning;
  formation_.TakeUp(world, proposal, *world_commit);
  completion_ = Completion(world, /*taken_up=*/true, now_, membership_);
  BeginStarts();
  vetting_.probes().PingLater(now_, limits_);
  waiting_.Stop();
  failures_.reasons().Proposed(generation());
  exchanges_.Begin(generation(), RanksOf(world));
  store_.Restore(generation(), static_cast<uint32_t>(world.members_size()));
}

// A node from the journal that has not come back yet.
void Job::Await(Node& node) {
  node.state = v1::NODE_STATE_SUSPECT;
  node.reason = "not back since the daemon was restarted";
  // After a restart most nodes are not heard, so one node's silence does not
  // show that this node failed.
  node.broke_with_many = true;
  membership_.Suspect(node);
  node.lease_until = now_ + limits_.reattach_grace;
  membership_.SetDeadline(node, node.lease_until);
}

// Restores earlier requests to leave. Each node gets its request again when it
// comes back.
void Job::TakeUpLeaving(const v1::Notice& leaving) {
  notices_.TakeUp(leaving);
  for (const std::string& name : leaving.nodes()) {
    Node* const at = membership_.Find(name);
    if (!AdmitNodeName(name).ok() ||
        (at == nullptr &&
         membership_.nodes().size() >= Membership::kKnownMax)) {
      continue;
    }
    // A node that has already left does not come back, and is removed after
    // reattach_grace.
    notices_.Leave(name);
    Node& node = membership_.Add(name);
    if (at == nullptr) {
      node.hello.set_node(name);
      Await(node);
    }
    node.reason = absl::StrCat(name, " leaves: as it was asked to");
  }
  const std::optional<v1::End>& end = notices_.end_then();
  const std::set<std::string>& names = notices_.leaving();
  if (!IsRunning() || (names.empty() && !end)) return;
  Ask(notices_.kind(), limits_.reattach_grace + limits_.stop_grace,
      end ? end->reason() : absl::StrCat(*names.begin(), " leaves"));
  out_.Clear();  // There is no agent to send to yet.
}

std::vector<Action> Job::Start() {
  if (generation() == 0) {
    out_.Write(Journal::Kind::kRunStarted, 0, settings_);
    // Replaces the node epochs that were journaled before.
    if (credentials_.epochs().highest() > 0 ||
        credentials_.epochs().bytes() > 0) {
      out_.Write(Journal::Kind::kNodeEpochs, 0, credentials_.epochs().Whole());
    }
    if (!notices_.leaving().empty()) JournalLeaving();
  }
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=start nodes=", settings_.nodes_min(), ":",
                        settings_.nodes_max(), " generation=", generation(),
                        " state=", Word(state())));
  // All ranks were asked to end, and no rank runs, so the job ends now.
  if (notices_.end_then().has_value() && phase_ == Phase::kGathering) {
    Finish(*notices_.end_then());
  }
  return out_.Take();
}

}  // namespace rollcall
