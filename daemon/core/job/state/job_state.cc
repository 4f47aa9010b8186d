#include "daemon/core/job/state/job_state.h"

#include <string>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/durations.h"

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

}  // namespace

JobState::JobState(std::string job, std::string run,
                   const v1::JobSettings& asked, const Limits& defaults,
                   absl::Time at)
    : out(std::move(job)),
      settings(asked),
      limits(defaults),
      now(at),
      credentials(std::move(run)),
      gathering(at, defaults) {
  CHECK_GE(settings.nodes_min(), 1u);
  CHECK_LE(settings.nodes_min(), settings.nodes_max());
  CHECK_LE(settings.nodes_max(), Limits::nodes_max);
  ApplySettings(settings, limits);
  gathering = Gathering(at, limits);
  waiting.TellAt(at + absl::Seconds(1));
}

absl::Duration JobState::FenceLeft(absl::Time at) const {
  return phase == JobPhase::kGathering ? gathering.FenceLeft(at)
                                       : absl::ZeroDuration();
}

v1::NodeState JobState::StateByPhase(const Node& node) const {
  if (HasEnded()) return v1::NODE_STATE_FINISHED;
  if (Leaves(node)) return v1::NODE_STATE_DRAINING;
  if (node.exclusion.quarantined) return v1::NODE_STATE_QUARANTINED;
  if (membership.IsSettingUp(node)) return v1::NODE_STATE_SETTING_UP;
  if (!HasWorld()) return v1::NODE_STATE_ATTENDING;
  if (!node.member()) return v1::NODE_STATE_SPARE;
  if (phase == JobPhase::kForming) return v1::NODE_STATE_PREPARING;
  return node.finished() ? v1::NODE_STATE_FINISHED : v1::NODE_STATE_RUNNING;
}

std::string JobState::ChangesOf(const std::string& node) const {
  const Node* const at = membership.Find(node);
  return at == nullptr ? "" : at->changes.TextAround(now);
}

v1::End JobState::EndFor(const Node& node) const {
  return ending.For(node, membership.IsExcluded(node), formation.world_commit(),
                    generations.knows_all_worlds(), now);
}

NameRules JobState::Names() const {
  return {{run(), IsRunning() ? generation() : 0, HasEnded(), now}, limits};
}

Seats JobState::SeatsNow() const {
  return {membership, newcomers, vetting.probes(), now, limits};
}

Vetting::View JobState::ForVetting() const {
  return {.membership = membership,
          .settings = settings,
          .limits = limits,
          .now = now,
          .gathering = phase == JobPhase::kGathering,
          .running = IsRunning(),
          .isolated = isolation.on(),
          .ranks_wait = generation() > 0};
}

}  // namespace rollcall
