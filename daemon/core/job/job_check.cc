// Job: the checks of nodes before they get a seat (--node-check).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// The reason that a spare shows while it waits for its check.
constexpr char kCheckedAlone[] =
    "--node-check checks it before it is called in";

// A node that waits for its check says so.
void Job::SayUnchecked(Node& node) {
  if (!node.reason.empty() || !IsUnchecked(node)) return;
  node.reason = kCheckedAlone;
  TellSpare(node);
}

bool Job::IsUnchecked(const Node& node) const {
  return settings_.node_check() && node.hello.checks_groups() &&
         !node.node_checked && !node.checked_alone && node.served_in == 0;
}

// Begins a check if one of these nodes was not checked yet. Returns whether the
// world has to wait for it.
bool Job::AwaitNodeCheck(const std::vector<Seated>& seated,
                         const NetworkPlan& plan) {
  if (!settings_.node_check()) return false;
  std::vector<NodeToCheck> nodes;
  bool other_partner = false;
  for (size_t i = 0; i < seated.size(); ++i) {
    Node& node = membership_.At(seated[i].node);
    if (!node.hello.checks_groups()) {
      if (std::exchange(node.node_checked, true)) continue;
      out_.SayOf(node, Log::Level::kWarning,
                 absl::StrCat("event=warning node=", node.name(),
                              " text=\"--node-check does not check it: its "
                              "agent has no rollcall-train\""));
      continue;
    }
    nodes.push_back({node.name(), plan.nodes[i].address,
                     node.node_checked || node.served_in != 0,
                     node.check_product, node.hello.launcher()});
    other_partner |= !nodes.back().checked && node.found_in_pairs > 0;
  }
  // A node that was found once gets another partner.
  if (other_partner) std::reverse(nodes.begin(), nodes.end());
  if (node_check_.exhausted()) return LeaveUnchecked(nodes, seated.size());
  // The ranks of an earlier world wait, so they do not wait twice for nodes
  // that are not needed.
  const size_t unchecked = static_cast<size_t>(std::count_if(
      nodes.begin(), nodes.end(), [](const auto& n) { return !n.checked; }));
  const bool once =
      generation() > 0 && seated.size() - unchecked >= settings_.nodes_min();
  if (once && LeaveCut(nodes)) return true;
  return BeginNodeCheck(
      nodes, once ? NodeCheck::Way::kPairsOnce : NodeCheck::Way::kPairs);
}

// Leaves out those whose check alone had no answer when the world ended, and
// begins a world of the others. Returns whether there were any.
bool Job::LeaveCut(const std::vector<NodeToCheck>& nodes) {
  bool any = false;
  for (const NodeToCheck& each : nodes) {
    Node& node = membership_.At(each.node);
    if (each.checked || each.launcher ||
        !std::exchange(node.check_cut, false)) {
      continue;
    }
    any = true;
    CheckLater(node,
               "its check by --node-check had not ended when the world did; it "
               "is checked again later");
  }
  if (any) MaybeForm();
  return any;
}

// Returns whether a check is under way now.
bool Job::BeginNodeCheck(const std::vector<NodeToCheck>& nodes,
                         NodeCheck::Way way) {
  NodeCheck::Requests requests = node_check_.Open(nodes, way, now_);
  if (!node_check_.under_way()) return false;
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=node_check_begun groups=", requests.size(),
                        " alone=", node_check_.alone() ? "true" : "false"));
  SendGroupChecks(std::move(requests));
  out_.Changed();
  return true;
}

// While a world runs, its spares are checked each by itself, so that a node
// whose check fails or hangs does not end a world. MaybeGrow waits for it.
void Job::MaybeCheckSpares() {
  if (!IsRunning() || isolation_.on() || node_check_.under_way() ||
      !node_check_.TakeSpares() || !settings_.node_check()) {
    return;
  }
  std::vector<NodeToCheck> nodes;
  for (auto& [name, node] : membership_.nodes()) {
    const bool waits = !node.member() && membership_.IsEligible(node);
    if (!node.member() && !waits) continue;
    const bool checks = waits && IsUnchecked(node);
    if (checks) node.check_cut = false;
    nodes.push_back({name, node.observed_address, !checks, node.check_product,
                     node.hello.launcher()});
  }
  BeginNodeCheck(nodes, NodeCheck::Way::kAlone);
}

// The time for checks is over. Nodes that were not checked get no seat if there
// are enough others. Returns whether a world without them was begun.
bool Job::LeaveUnchecked(const std::vector<NodeToCheck>& nodes, size_t seated) {
  std::vector<std::string> unchecked;
  for (const NodeToCheck& node : nodes) {
    if (!node.checked && !node.launcher) unchecked.push_back(node.node);
  }
  if (unchecked.empty()) return false;
  const bool enough = seated - unchecked.size() >= settings_.nodes_min();
  for (const std::string& name : unchecked) {
    Node& node = membership_.At(name);
    if (enough) {
      CheckLater(node,
                 "--node-check has not checked it in time; it is checked "
                 "before a later world");
      continue;
    }
    out_.SayOf(node, Log::Level::kWarning,
               absl::StrCat("event=warning node=", name,
                            " text=\"--node-check has not checked it in time; "
                            "it takes part: too few other nodes are there\""));
  }
  if (enough) MaybeForm();
  return enough;
}

// Leaves the node out of the next world.
void Job::CheckLater(Node& node, const std::string& why) {
  Exclude(node, why);
  probes_.Unreached(node.name(), now_ + limits_.unreached_delay);
}

// The world has ended. A node whose check alone has no answer yet may hang, so
// it is not checked with another node while ranks wait.
void Job::CutSpareChecks() {
  if (!node_check_.under_way() || !node_check_.alone()) return;
  for (const std::string& name : node_check_.AwaitedNodes()) {
    membership_.At(name).check_cut = true;
  }
}

void Job::SendGroupChecks(NodeCheck::Requests requests) {
  for (auto& [name, request] : requests) {
    v1::DaemonMessage message;
    *message.mutable_group_check() = std::move(request);
    out_.SendTo(membership_.At(name), std::move(message));
  }
}

void Job::OnGroupMessage(Node& node, const v1::AgentMessage& message) {
  if (message.has_group_listening()) {
    out_.Changed();
    return SendGroupChecks(node_check_.TakeListening(
        node.name(), message.group_listening(), now_));
  }
  if (node_check_.TakeChecked(node.name(), message.group_checked())) {
    out_.Changed();
  }
}

// Begins the second round, or applies the verdict.
void Job::MaybeEndNodeCheck() {
  if (node_check_.alone() ? !IsRunning() : phase_ != Phase::kGathering) {
    return node_check_.Stop();
  }
  // While the daemon is isolated, silence is not held against a node.
  if (!node_check_.under_way() || isolation_.on()) return;
  SendGroupChecks(node_check_.Advance(now_));
  const size_t able = probes_.Able(membership_, now_);
  const size_t spare = able - std::min<size_t>(able, settings_.nodes_min());
  const std::optional<NodeCheckVerdict> verdict =
      node_check_.TakeVerdict(spare);
  if (!verdict.has_value()) return;
  const bool alone = node_check_.alone();
  for (const NodeCheckVerdict::Passed& passed : verdict->checked) {
    Node& node = membership_.At(passed.node);
    (alone ? node.checked_alone : node.node_checked) = true;
    node.check_product = passed.product;
    if (node.reason == kCheckedAlone) node.reason.clear();
  }
  if (alone) newcomers_.GrowBy(now_);
  const auto milliseconds = [](std::optional<absl::Duration> time) {
    return absl::ToDoubleMilliseconds(time.value_or(absl::ZeroDuration()));
  };
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=node_check nodes=", verdict->checked.size(),
                        " rounds=", verdict->rounds,
                        " found=", verdict->findings.size(),
                        " product_ms=", milliseconds(verdict->product),
                        " all_reduce_ms=", milliseconds(verdict->all_reduce),
                        " alone=", alone ? "true" : "false"));
  for (const NodeCheckVerdict::Finding& finding : verdict->findings) {
    Node& node = membership_.At(finding.node);
    if (finding.stays.empty() && finding.again && ++node.found_in_pairs == 1) {
      node.node_checked = node.checked_alone = false;
      CheckLater(node,
                 absl::StrCat(finding.text, "; it is checked again later"));
      continue;
    }
    if (finding.stays.empty()) {
      SetQuarantined(node, finding.text);
      continue;
    }
    out_.SayOf(
        node, Log::Level::kWarning,
        absl::StrCat("event=warning node=", finding.node, " text=",
                     Quoted(absl::StrCat(finding.text,
                                         "; it takes part: ", finding.stays))));
  }
  out_.Changed();
}

}  // namespace rollcall
