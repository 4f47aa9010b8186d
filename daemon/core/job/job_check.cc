// Job: the checks of nodes in pairs before a world is formed (--node-check).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// Begins a check if one of these nodes was not checked yet. Returns whether the
// world has to wait for it.
bool Job::AwaitNodeCheck(const std::vector<Seated>& seated,
                         const NetworkPlan& plan) {
  if (!settings_.node_check()) return false;
  std::vector<NodeToCheck> nodes;
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
  }
  if (node_check_.exhausted()) return LeaveUnchecked(nodes, seated.size());
  NodeCheck::Requests requests = node_check_.Open(nodes, now_);
  if (!node_check_.under_way()) return false;
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=node_check_begun groups=", requests.size()));
  SendGroupChecks(std::move(requests));
  out_.Changed();
  return true;
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
      Exclude(node,
              "--node-check has not checked it in time; it is checked "
              "before a later world");
      probes_.Unreached(name, now_ + limits_.unreached_delay);
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
  if (phase_ != Phase::kGathering) return node_check_.Stop();
  // While the daemon is isolated, silence is not held against a node.
  if (!node_check_.under_way() || isolation_.on()) return;
  SendGroupChecks(node_check_.Advance(now_));
  const size_t able = probes_.Able(membership_, now_);
  const size_t spare = able - std::min<size_t>(able, settings_.nodes_min());
  const std::optional<NodeCheckVerdict> verdict =
      node_check_.TakeVerdict(spare);
  if (!verdict.has_value()) return;
  for (const NodeCheckVerdict::Passed& passed : verdict->checked) {
    Node& node = membership_.At(passed.node);
    node.node_checked = true;
    node.check_product = passed.product;
  }
  const auto milliseconds = [](std::optional<absl::Duration> time) {
    return absl::ToDoubleMilliseconds(time.value_or(absl::ZeroDuration()));
  };
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=node_check nodes=", verdict->checked.size(),
                        " rounds=", verdict->rounds,
                        " found=", verdict->findings.size(),
                        " product_ms=", milliseconds(verdict->product),
                        " all_reduce_ms=", milliseconds(verdict->all_reduce)));
  for (const NodeCheckVerdict::Finding& finding : verdict->findings) {
    Node& node = membership_.At(finding.node);
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
