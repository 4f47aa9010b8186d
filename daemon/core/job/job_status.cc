// Job: status, and which nodes are waited for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/base/name_list.h"
#include "daemon/core/job/job.h"
#include "daemon/core/network_plan/pings.h"

namespace rollcall {

v1::JobState Job::state() const {
  if (isolation_.on()) return v1::JOB_STATE_ISOLATED;
  switch (phase_) {
    case Phase::kGathering:
      return v1::JOB_STATE_GATHERING;
    case Phase::kForming:
      return v1::JOB_STATE_FORMING;
    case Phase::kRunning:
    case Phase::kSettling:
      return v1::JOB_STATE_RUNNING;
    case Phase::kEnded:
      return end_->finished() ? v1::JOB_STATE_FINISHED
             : Lingers()      ? v1::JOB_STATE_LINGERING
                              : v1::JOB_STATE_FAILED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

// Names that are known and absent: expected ones first, then lost members. At
// most as many as are missing.
std::vector<std::string> Job::MissingNames() const {
  const size_t present = Present();
  const size_t missing = nodes_max_ > present ? nodes_max_ - present : 0;
  std::vector<std::string> names;
  std::set<std::string> named;
  const auto name_one = [&](const std::string& name) {
    const auto at = nodes_.find(name);
    const bool absent = at == nodes_.end() || at->second.session == 0;
    if (!absent || names.size() >= missing || !named.insert(name).second) {
      return;
    }
    names.push_back(name);
  };
  for (const std::string& name : settings_.expected_nodes()) name_one(name);
  for (const auto& [name, node] : nodes_) {
    if (node.state == v1::NODE_STATE_LOST ||
        node.state == v1::NODE_STATE_SUSPECT) {
      name_one(name);
    }
  }
  return names;
}

std::string Job::MissingText() const {
  const std::vector<std::string> names = MissingNames();
  std::vector<std::string> barred;
  for (const std::string& name : barred_) {
    barred.push_back(absl::StrCat(name, " (", nodes_.at(name).reason, ")"));
  }
  const size_t missing =
      nodes_min_ > Present() ? nodes_min_ - Present() : size_t{0};
  std::string text = absl::StrCat("missing: ");
  if (names.empty()) {
    absl::StrAppend(&text, missing, " node", missing == 1 ? "" : "s",
                    " that never attended");
  } else {
    absl::StrAppend(&text, absl::StrJoin(names, ", "));
    if (names.size() < missing) {
      absl::StrAppend(&text, " and ", missing - names.size(), " more");
    }
  }
  if (!barred.empty()) {
    absl::StrAppend(&text, "; without a seat: ", absl::StrJoin(barred, ", "));
  }
  if (const std::string probes = ProbesText(); !probes.empty()) {
    absl::StrAppend(&text, "; ", probes);
  }
  return text;
}

// Members that have not come back since the daemon was restarted.
std::vector<std::string> Job::AwayFromTakenUp() const {
  std::vector<std::string> away;
  if (!world_taken_up_) return away;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (at->second.session == 0) away.push_back(member.node());
  }
  return away;
}

// Why this node has no seat in the running world; empty: all seats are taken.
std::string Job::WhyNoSeat(const Node& node) const {
  if (!node.reason.empty()) return node.reason;
  if (isolation_.on()) {
    return absl::StrCat(
        "this daemon hears less than half of the running world; it forms no "
        "world until it hears more, or for ",
        absl::FormatDuration(limits_.daemon_grace), " at most");
  }
  if (const std::vector<std::string> away = AwayFromTakenUp(); !away.empty()) {
    return absl::StrCat("the daemon was restarted, and waits for ",
                        NameList(away, 4), " of the running world, for ",
                        absl::FormatDuration(limits_.reattach_grace),
                        " at most");
  }
  if (static_cast<uint32_t>(world_.members_size()) >= nodes_max_) return "";
  if (settings_.grow() == v1::GROW_NEVER) {
    return "a running world takes in no node (--grow never)";
  }
  if (WorkIsDone()) {
    return "ranks have exited 0, so the world takes in no more nodes";
  }
  return "a new world with it is formed once its addresses are probed";
}

void Job::TellSpare(const Node& node) {
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(WhyNoSeat(node));
  ToNode(node, std::move(message));
}

// Sends spares their reason again, since the last one is no longer true.
void Job::TellSpares() {
  if (phase_ != Phase::kRunning) return;
  for (const auto& [name, node] : nodes_) {
    if (node.session != 0 && !node.member()) TellSpare(node);
  }
}

v1::Waiting Job::GatheringWaiting() const {
  v1::Waiting waiting;
  waiting.set_nodes_min(nodes_min_);
  waiting.set_nodes_max(nodes_max_);
  waiting.set_present(static_cast<uint32_t>(Present()));
  for (std::string& name : MissingNames()) {
    *waiting.add_missing() = std::move(name);
  }
  const absl::Duration fence = FenceLeft(now_);
  waiting.set_reason(fence > absl::ZeroDuration() ? FenceText(fence)
                                                  : ProbesText());
  if (waiting.reason().empty() && generation_ > 0) {
    waiting.set_reason(why_.reason());
  }
  return waiting;
}

// At most once a second, and only if something changed.
void Job::TellWaiting() {
  v1::DaemonMessage message;
  v1::Waiting& waiting = *message.mutable_waiting();
  waiting.set_nodes_min(nodes_min_);
  waiting.set_nodes_max(nodes_max_);
  waiting.set_present(static_cast<uint32_t>(Present()));
  std::vector<SessionId> to;
  std::string said;
  if (phase_ == Phase::kGathering) {
    next_waiting_ = now_ + absl::Seconds(1);
    waiting = GatheringWaiting();
    to = AllSessions();
    // While a fence holds, a change of the remaining time or of the present
    // nodes is not sent.
    if (FenceLeft(now_) > absl::ZeroDuration()) {
      said = FenceText(limits_.unheard());
    }
  } else if (phase_ == Phase::kForming) {
    waiting.set_spare(true);
    for (const auto& [name, node] : nodes_) {
      if (node.session == 0 || node.member()) continue;
      if (node.reason.empty()) {
        to.push_back(node.session);
        continue;
      }
      v1::DaemonMessage own = message;
      own.mutable_waiting()->set_reason(node.reason);
      ToNode(node, std::move(own));
    }
  } else if (phase_ == Phase::kRunning) {
    next_waiting_ = now_ + absl::Minutes(1);
    for (const v1::Member& member : world_.members()) {
      const auto at = nodes_.find(member.node());
      if (at == nodes_.end() || at->second.gone) continue;  // Finished, left.
      if (at->second.ended()) {
        if (at->second.session != 0) to.push_back(at->second.session);
      } else {
        waiting.add_missing(member.node());
      }
    }
    waiting.set_reason("no rank runs on this node; others still run");
  } else {
    next_waiting_ = absl::InfiniteFuture();
    return;
  }
  if (said.empty()) said = waiting.SerializeAsString();
  if (phase_ != Phase::kForming && said == told_waiting_) return;
  told_waiting_ = said;
  ToProto(now_ - gathering_since_, waiting.mutable_waited());
  if (!to.empty()) actions_.push_back(Send{std::move(to), std::move(message)});
}

v1::Pings Job::Pings(absl::Time now) const {
  return PingsOf(world_, probing_, now);
}

v1::JobStatus Job::Status(absl::Time now) const {
  v1::JobStatus status;
  status.set_job(job_);
  status.set_run(run_);
  status.set_state(state());
  status.set_generation(generation_);
  const bool world = phase_ != Phase::kGathering;
  status.set_world_size(world ? world_.world_size() : 0);
  status.set_nodes_min(nodes_min_);
  status.set_nodes_max(nodes_max_);
  for (const auto& [name, node] : nodes_) {
    v1::NodeStatus& row = *status.add_nodes();
    row.set_node(name);
    // The agent leaves as soon as all of its ranks have ended.
    row.set_state(Lingers() && node.member() && node.session != 0
                      ? v1::NODE_STATE_RUNNING
                      : node.state);
    row.set_node_rank(world ? node.node_rank : -1);
    // Hidden until the agent has its credential. Before that, whoever shows a
    // token and this incarnation would get the Welcome that is meant for the
    // agent.
    const bool has_credential = node.confirmed || node.by_credential;
    row.set_incarnation(has_credential ? node.hello.incarnation() : 0);
    row.set_address(node.member() ? world_.members(node.node_rank).address()
                                  : node.observed_address);
    if (node.deadline != absl::InfiniteFuture()) {
      row.set_lease_ms(absl::ToInt64Milliseconds(node.deadline - now));
    }
    row.set_ranks(node.hello.ranks());
    row.set_step(node.step);
    // Why it has no seat, or, for a member, what is wrong with its network.
    row.set_reason(node.reason.empty() && node.member() ? node.plan_warning
                                                        : node.reason);
    row.set_seat(node.seat);
  }
  if (phase_ == Phase::kGathering) {
    for (std::string& name : MissingNames()) {
      *status.add_missing() = std::move(name);
    }
    status.set_missing_count(static_cast<uint32_t>(
        nodes_min_ > Present() ? nodes_min_ - Present() : 0));
    ToProto(now - gathering_since_, status.mutable_waited());
  }
  // While the next world is awaited, its reason is the latest one.
  const bool between =
      phase_ == Phase::kGathering || phase_ == Phase::kSettling;
  *status.mutable_last_reform() = between ? why_ : last_reform_;
  const std::vector<v1::RootCause>& causes = failures_.causes();
  if (!causes.empty()) *status.mutable_root_cause() = causes.back();
  for (const v1::RootCause& cause : causes) *status.add_causes() = cause;
  for (const v1::Difference& difference : differences_) {
    *status.add_differences() = difference;
  }
  status.set_step(highest_step_);
  if (pace_.has_value()) *status.mutable_pace() = *pace_;
  status.set_restarts_charged(failures_.charged());
  status.set_max_restarts(limits_.max_restarts);
  status.set_revision(revision_);
  if (notices_.pending()) *status.mutable_notice() = notices_.Now(now);
  if (end_.has_value()) {
    status.set_exit_code(end_->exit_code());
    status.set_end_code(end_->code());
    status.set_end_reason(end_->reason());
  }
  const absl::Duration fence = FenceLeft(now);
  if (fence > absl::ZeroDuration()) {
    ToProto(fence, status.mutable_fence());
    status.set_fence_reason(FenceText(fence));
  }
  if (Lingers()) {
    ToProto(std::max(lingers_until_ - now, absl::ZeroDuration()),
            status.mutable_lingers());
  }
  return status;
}

}  // namespace rollcall
