#include "daemon/core/job/state/job_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

constexpr size_t kSettingUpNamedMax = 8;

}  // namespace

v1::JobState JobReport::State() const {
  if (job_.isolation.on()) return v1::JOB_STATE_ISOLATED;
  switch (job_.phase) {
    case JobPhase::kGathering:
      return v1::JOB_STATE_GATHERING;
    case JobPhase::kForming:
      return v1::JOB_STATE_FORMING;
    case JobPhase::kRunning:
    case JobPhase::kBlameWindow:
      return v1::JOB_STATE_RUNNING;
    case JobPhase::kEnded:
      return job_.ending.end()->finished() ? v1::JOB_STATE_FINISHED
             : job_.Lingers()              ? v1::JOB_STATE_LINGERING
                                           : v1::JOB_STATE_FAILED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

std::string JobReport::MissingText() const {
  const std::vector<std::string> names = job_.membership.Missing(job_.settings);
  std::vector<std::string> without_seat;
  for (const std::string& name : job_.membership.excluded()) {
    without_seat.push_back(
        absl::StrCat(name, " (", job_.membership.At(name).reason, ")"));
  }
  const std::set<std::string>& setting_up = job_.membership.setting_up();
  const size_t here =
      job_.membership.present() + setting_up.size() + without_seat.size();
  const size_t missing = job_.settings.nodes_min() > here
                             ? job_.settings.nodes_min() - here
                             : size_t{0};
  std::string text = absl::StrCat("missing: ");
  if (missing == 0 && names.empty()) {
    text = "no node is missing";
  } else if (names.empty()) {
    absl::StrAppend(&text, missing, " node", missing == 1 ? "" : "s",
                    " that never attended");
  } else {
    absl::StrAppend(&text, absl::StrJoin(names, ", "));
    if (names.size() < missing) {
      absl::StrAppend(&text, " and ", missing - names.size(), " more");
    }
  }
  if (!setting_up.empty()) {
    absl::StrAppend(&text, "; ", SettingUpText());
  }
  if (!without_seat.empty()) {
    absl::StrAppend(&text,
                    "; without a seat: ", absl::StrJoin(without_seat, ", "));
  }
  if (const std::string awaits = Awaits(); !awaits.empty()) {
    absl::StrAppend(&text, "; ", awaits);
  }
  return text;
}

std::string JobReport::Awaits() const {
  return job_.vetting.WaitingText(/*gathering=*/true);
}

// "the set-up command runs on a, b"; empty: on no node.
std::string JobReport::SettingUpText() const {
  const std::set<std::string>& names = job_.membership.setting_up();
  return names.empty() ? ""
                       : absl::StrCat("the set-up command runs on ",
                                      NameList({names.begin(), names.end()},
                                               kSettingUpNamedMax));
}

// Members that have not come back since the daemon was restarted.
std::vector<std::string> JobReport::AwayFromTakenUp() const {
  std::vector<std::string> away;
  if (!job_.completion.taken_up()) return away;
  for (const Node* node : job_.membership.MembersOf(job_.world())) {
    if (node->session == 0) away.push_back(node->name());
  }
  return away;
}

// Why this node has no seat in the running world; empty: all seats are taken.
std::string JobReport::WhyNoSeat(const Node& node) const {
  if (!node.reason.empty()) return node.reason;
  if (job_.isolation.on()) {
    return absl::StrCat(
        "this daemon hears less than half of the running world; it forms no "
        "world until it hears more, or for ",
        absl::FormatDuration(job_.limits.daemon_grace), " at most");
  }
  if (const std::vector<std::string> away = AwayFromTakenUp(); !away.empty()) {
    return absl::StrCat("the daemon was restarted, and waits for ",
                        NameList(away, 4), " of the running world, for ",
                        absl::FormatDuration(job_.limits.reattach_grace),
                        " at most");
  }
  if (static_cast<uint32_t>(job_.world().members_size()) >=
      job_.settings.nodes_max())
    return "";
  if (job_.settings.grow() == v1::GROW_NEVER) {
    return "a running world takes in no node (--grow never)";
  }
  if (job_.completion.HasBegun(job_.membership)) {
    return "ranks have exited 0, so the world takes in no more nodes";
  }
  return "a new world with it is formed once its addresses are probed";
}

const v1::Reform& JobReport::LastReform() const {
  const bool between = job_.phase == JobPhase::kGathering ||
                       job_.phase == JobPhase::kBlameWindow;
  return between ? job_.failures.reasons().next()
                 : job_.failures.reasons().current();
}

v1::Waiting JobReport::Waiting() const {
  v1::Waiting waiting;
  waiting.set_nodes_min(job_.settings.nodes_min());
  waiting.set_nodes_max(job_.settings.nodes_max());
  waiting.set_present(static_cast<uint32_t>(job_.membership.present()));
  for (std::string& name : job_.membership.Missing(job_.settings)) {
    *waiting.add_missing() = std::move(name);
  }
  const absl::Duration fence = job_.FenceLeft(job_.now);
  waiting.set_reason(fence > absl::ZeroDuration()
                         ? job_.fence().Text(fence, job_.membership)
                         : Awaits());
  if (waiting.reason().empty()) waiting.set_reason(SettingUpText());
  if (waiting.reason().empty() && job_.generation() > 0) {
    waiting.set_reason(job_.failures.reasons().next().reason());
  }
  return waiting;
}

v1::JobStatus JobReport::Status(absl::Time now) const {
  v1::JobStatus status;
  status.set_job(job_.name());
  status.set_run(job_.run());
  status.set_state(State());
  status.set_generation(job_.generation());
  const bool formed = job_.phase != JobPhase::kGathering;
  status.set_world_size(formed ? job_.world().world_size() : 0);
  status.set_nodes_min(job_.settings.nodes_min());
  status.set_nodes_max(job_.settings.nodes_max());
  for (const auto& [name, node] : job_.membership.nodes()) {
    v1::NodeStatus& row = *status.add_nodes();
    row.set_node(name);
    // The agent leaves as soon as all of its ranks have ended.
    row.set_state(job_.Lingers() && node.member() && node.session != 0
                      ? v1::NODE_STATE_RUNNING
                      : node.state);
    row.set_node_rank(formed ? node.node_rank : -1);
    // Hidden until the agent has its credential. Before that, a client that
    // shows a token and this incarnation would get the Welcome that is meant
    // for the agent.
    const bool has_credential =
        node.credential.confirmed || node.credential.shown;
    row.set_incarnation(has_credential ? node.hello.incarnation() : 0);
    row.set_address(node.member()
                        ? job_.world().members(node.node_rank).address()
                        : node.observed_address);
    if (node.lease.deadline != absl::InfiniteFuture()) {
      row.set_lease_ms(absl::ToInt64Milliseconds(node.lease.deadline - now));
    }
    row.set_ranks(node.hello.ranks());
    row.set_step(node.ranks.step);
    // Why the node has no seat, or, for a member, what is wrong with its
    // network.
    row.set_reason(node.reason.empty() && node.member() ? node.plan_warning
                                                        : node.reason);
    row.set_seat(node.seat);
    if (job_.phase == JobPhase::kForming && node.member()) {
      row.set_prepared(node.prepared);
    }
    for (const FactChanges::Kept& kept : node.changes.latest()) {
      v1::NodeChange& change = *row.add_changes();
      *change.mutable_change() = kept.change;
      ToProto(now - kept.at, change.mutable_age());
    }
    row.set_changes_dropped(node.changes.dropped());
  }
  if (job_.phase == JobPhase::kGathering) {
    for (std::string& name : job_.membership.Missing(job_.settings)) {
      *status.add_missing() = std::move(name);
    }
    status.set_missing_count(static_cast<uint32_t>(
        job_.settings.nodes_min() > job_.membership.present()
            ? job_.settings.nodes_min() - job_.membership.present()
            : 0));
    ToProto(now - job_.gathering.since(), status.mutable_waited());
    status.set_awaits(Awaits());
  } else {
    status.set_awaits(job_.vetting.WaitingText(/*gathering=*/false));
  }
  *status.mutable_last_reform() = LastReform();
  const std::vector<v1::RootCause>& causes = job_.failures.causes();
  if (!causes.empty()) *status.mutable_root_cause() = causes.back();
  for (const v1::RootCause& cause : causes) *status.add_causes() = cause;
  for (const v1::Difference& difference : job_.vetting.differences()) {
    *status.add_differences() = difference;
  }
  job_.steps.Show(job_.generation(), job_.IsRunning(), status);
  status.set_restarts_charged(job_.failures.charged());
  status.set_max_restarts(job_.limits.max_restarts);
  status.set_revision(job_.out.revision());
  if (job_.notices.pending()) *status.mutable_notice() = job_.notices.Now(now);
  if (job_.ending.end().has_value()) {
    status.set_exit_code(job_.ending.end()->exit_code());
    status.set_end_code(job_.ending.end()->code());
    status.set_end_reason(job_.ending.end()->reason());
  }
  const absl::Duration fence = job_.FenceLeft(now);
  if (fence > absl::ZeroDuration()) {
    ToProto(fence, status.mutable_fence());
    status.set_fence_reason(job_.fence().Text(fence, job_.membership));
  }
  if (job_.Lingers()) {
    ToProto(job_.ending.LingerLeft(now), status.mutable_lingers());
  }
  return status;
}

}  // namespace rollcall
