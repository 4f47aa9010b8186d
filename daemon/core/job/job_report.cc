#include "daemon/core/job/job_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/base/name_list.h"

namespace rollcall {
namespace {

constexpr size_t kSettingUpNamedMax = 8;

}  // namespace

v1::JobState JobReport::State() const {
  if (job_.isolation_.on()) return v1::JOB_STATE_ISOLATED;
  switch (job_.phase_) {
    case Job::Phase::kGathering:
      return v1::JOB_STATE_GATHERING;
    case Job::Phase::kForming:
      return v1::JOB_STATE_FORMING;
    case Job::Phase::kRunning:
    case Job::Phase::kBlameWindow:
      return v1::JOB_STATE_RUNNING;
    case Job::Phase::kEnded:
      return job_.end()->finished() ? v1::JOB_STATE_FINISHED
             : job_.Lingers()       ? v1::JOB_STATE_LINGERING
                                    : v1::JOB_STATE_FAILED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

std::string JobReport::MissingText() const {
  const std::vector<std::string> names =
      job_.membership_.Missing(job_.settings_);
  std::vector<std::string> without_seat;
  for (const std::string& name : job_.membership_.excluded()) {
    without_seat.push_back(
        absl::StrCat(name, " (", job_.membership_.At(name).reason, ")"));
  }
  const std::set<std::string>& setting_up = job_.membership_.setting_up();
  const size_t here =
      job_.membership_.present() + setting_up.size() + without_seat.size();
  const size_t missing = job_.settings_.nodes_min() > here
                             ? job_.settings_.nodes_min() - here
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
  return job_.vetting_.WaitingText(/*gathering=*/true);
}

// "the set-up command runs on a, b"; empty: on no node.
std::string JobReport::SettingUpText() const {
  const std::set<std::string>& names = job_.membership_.setting_up();
  return names.empty() ? ""
                       : absl::StrCat("the set-up command runs on ",
                                      NameList({names.begin(), names.end()},
                                               kSettingUpNamedMax));
}

// Members that have not come back since the daemon was restarted.
std::vector<std::string> JobReport::AwayFromTakenUp() const {
  std::vector<std::string> away;
  if (!job_.completion_.taken_up()) return away;
  for (const Node* node : job_.membership_.MembersOf(job_.world())) {
    if (node->session == 0) away.push_back(node->name());
  }
  return away;
}

// Why this node has no seat in the running world; empty: all seats are taken.
std::string JobReport::WhyNoSeat(const Node& node) const {
  if (!node.reason.empty()) return node.reason;
  if (job_.isolation_.on()) {
    return absl::StrCat(
        "this daemon hears less than half of the running world; it forms no "
        "world until it hears more, or for ",
        absl::FormatDuration(job_.limits_.daemon_grace), " at most");
  }
  if (const std::vector<std::string> away = AwayFromTakenUp(); !away.empty()) {
    return absl::StrCat("the daemon was restarted, and waits for ",
                        NameList(away, 4), " of the running world, for ",
                        absl::FormatDuration(job_.limits_.reattach_grace),
                        " at most");
  }
  if (static_cast<uint32_t>(job_.world().members_size()) >=
      job_.settings_.nodes_max())
    return "";
  if (job_.settings_.grow() == v1::GROW_NEVER) {
    return "a running world takes in no node (--grow never)";
  }
  if (job_.completion_.HasBegun(job_.membership_)) {
    return "ranks have exited 0, so the world takes in no more nodes";
  }
  return "a new world with it is formed once its addresses are probed";
}

v1::Waiting JobReport::Waiting() const {
  v1::Waiting waiting;
  waiting.set_nodes_min(job_.settings_.nodes_min());
  waiting.set_nodes_max(job_.settings_.nodes_max());
  waiting.set_present(static_cast<uint32_t>(job_.membership_.present()));
  for (std::string& name : job_.membership_.Missing(job_.settings_)) {
    *waiting.add_missing() = std::move(name);
  }
  const absl::Duration fence = job_.FenceLeft(job_.now_);
  waiting.set_reason(fence > absl::ZeroDuration()
                         ? job_.fence().Text(fence, job_.membership_)
                         : Awaits());
  if (waiting.reason().empty()) waiting.set_reason(SettingUpText());
  if (waiting.reason().empty() && job_.generation() > 0) {
    waiting.set_reason(job_.failures_.reasons().next().reason());
  }
  return waiting;
}

v1::JobStatus JobReport::Status(absl::Time now) const {
  v1::JobStatus status;
  status.set_job(job_.name());
  status.set_run(job_.run());
  status.set_state(State());
  status.set_generation(job_.generation());
  const bool formed = job_.phase_ != Job::Phase::kGathering;
  status.set_world_size(formed ? job_.world().world_size() : 0);
  status.set_nodes_min(job_.settings_.nodes_min());
  status.set_nodes_max(job_.settings_.nodes_max());
  for (const auto& [name, node] : job_.membership_.nodes()) {
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
    const bool has_credential = node.confirmed || node.by_credential;
    row.set_incarnation(has_credential ? node.hello.incarnation() : 0);
    row.set_address(node.member()
                        ? job_.world().members(node.node_rank).address()
                        : node.observed_address);
    if (node.deadline != absl::InfiniteFuture()) {
      row.set_lease_ms(absl::ToInt64Milliseconds(node.deadline - now));
    }
    row.set_ranks(node.hello.ranks());
    row.set_step(node.step);
    // Why the node has no seat, or, for a member, what is wrong with its
    // network.
    row.set_reason(node.reason.empty() && node.member() ? node.plan_warning
                                                        : node.reason);
    row.set_seat(node.seat);
    if (job_.phase_ == Job::Phase::kForming && node.member()) {
      row.set_prepared(node.prepared);
    }
    for (const FactChanges::Kept& kept : node.changes.latest()) {
      v1::NodeChange& change = *row.add_changes();
      *change.mutable_change() = kept.change;
      ToProto(now - kept.at, change.mutable_age());
    }
    row.set_changes_dropped(node.changes.dropped());
  }
  if (job_.phase_ == Job::Phase::kGathering) {
    for (std::string& name : job_.membership_.Missing(job_.settings_)) {
      *status.add_missing() = std::move(name);
    }
    status.set_missing_count(static_cast<uint32_t>(
        job_.settings_.nodes_min() > job_.membership_.present()
            ? job_.settings_.nodes_min() - job_.membership_.present()
            : 0));
    ToProto(now - job_.gathering_.since(), status.mutable_waited());
    status.set_awaits(Awaits());
  } else {
    status.set_awaits(job_.vetting_.WaitingText(/*gathering=*/false));
  }
  *status.mutable_last_reform() = job_.last_reform();
  const std::vector<v1::RootCause>& causes = job_.failures_.causes();
  if (!causes.empty()) *status.mutable_root_cause() = causes.back();
  for (const v1::RootCause& cause : causes) *status.add_causes() = cause;
  for (const v1::Difference& difference : job_.vetting_.differences()) {
    *status.add_differences() = difference;
  }
  job_.steps_.Show(job_.generation(), job_.IsRunning(), status);
  status.set_restarts_charged(job_.failures_.charged());
  status.set_max_restarts(job_.limits_.max_restarts);
  status.set_revision(job_.revision());
  if (job_.notices_.pending())
    *status.mutable_notice() = job_.notices_.Now(now);
  if (job_.end().has_value()) {
    status.set_exit_code(job_.end()->exit_code());
    status.set_end_code(job_.end()->code());
    status.set_end_reason(job_.end()->reason());
  }
  const absl::Duration fence = job_.FenceLeft(now);
  if (fence > absl::ZeroDuration()) {
    ToProto(fence, status.mutable_fence());
    status.set_fence_reason(job_.fence().Text(fence, job_.membership_));
  }
  if (job_.Lingers()) {
    ToProto(job_.ending_.LingerLeft(now), status.mutable_lingers());
  }
  return status;
}

}  // namespace rollcall
