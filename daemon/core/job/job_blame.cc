// Job: consequences of blame for a node: its checks between two generations,
// and its quarantine if it fails them or is to blame repeatedly.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// Whether, of the nodes whose ranks publish steps, most have published a higher
// step in the running world than before. So a single node's report neither
// refills the restart budget nor prevents a refill. The report of the node
// whose rank fails does not count, unless it is node rank 0, which may publish
// for all.
bool Job::HasProgressed(const Node* failing) const {
  size_t publish = 0;
  size_t higher = 0;
  bool counts = false;
  for (const auto& [name, node] : nodes_) {
    if (!node.member() || node.step == 0) continue;
    ++publish;
    if (node.step <= node.step_before.value_or(node.step)) continue;
    ++higher;
    counts = counts || &node != failing || node.node_rank == 0;
  }
  return counts && higher * 2 > publish;
}

// After progress, blame counts and charged restarts go back to 0.
void Job::MadeProgress() {
  failures_.GiveBack();
  for (auto& [name, node] : nodes_) node.blames = 0;
}

// `times`: 1, or 0 to take the blame back because another failure was first.
void Job::BlameNode(const v1::RootCause& cause, uint32_t times) {
  if (cause.rank() < 0) return;
  const auto at = nodes_.find(cause.node());
  if (at == nodes_.end() || at->second.gone) return;
  Node& node = at->second;
  if (times > 0) {
    node.blames += times;
    may_quarantine_ = true;
    return AskForChecks(node);
  }
  if (node.blames > 0) --node.blames;
  const bool stays =
      node.blames >= limits_.blames_in_a_row || node.unfit || Leaves(node);
  if (!node.quarantined || stays) return;
  Pardon(node);
  if (phase_ == Phase::kRunning && node.session != 0) GrowSoon(node);
}

void Job::AskForChecks(Node& node) {
  // An ended job assigns no seats.
  if (node.session == 0 || phase_ == Phase::kEnded) return;
  node.check = ++last_check_;
  node.checked_until = now_ + limits_.check_timeout;
  checking_.insert(node.hello.node());
  v1::DaemonMessage message;
  message.mutable_check_request()->set_request(node.check);
  ToNode(node, std::move(message));
}

void Job::OnCheckReport(Node& node, const v1::CheckReport& report) {
  if (node.check == 0 || report.request() != node.check) {
    const bool moved = report.has_facts() && TakeFacts(node, report.facts()) ==
                                                 FactsChange::kAddresses;
    if (moved) ProbeAnew(node, moved);
    return;
  }
  node.check = 0;
  checking_.erase(node.hello.node());
  const bool changed = report.has_facts() &&
                       TakeFacts(node, report.facts()) != FactsChange::kNone;
  std::vector<std::string> fatal;
  for (const v1::CheckFinding& finding : report.findings()) {
    if (finding.severity() == v1::CheckFinding::SEVERITY_OK) continue;
    const std::string text =
        absl::StrCat(finding.check(), ": ", finding.text());
    if (finding.severity() == v1::CheckFinding::SEVERITY_FATAL) {
      fatal.push_back(text);
      continue;
    }
    SayOf(node, Log::Level::kWarning,
          absl::StrCat("event=warning node=", node.hello.node(),
                       " text=", Quoted(text)));
  }
  const std::string name = node.hello.node();
  if (fatal.empty()) {
    if (changed && phase_ == Phase::kForming && node.member()) {
      Reform(v1::REASON_CODE_FACTS_CHANGED,
             absl::StrCat(name, " has other addresses or RDMA ports than ",
                          "before it failed"),
             name);
    }
    return;
  }
  node.unfit = true;
  const std::string reason =
      absl::StrCat("its checks failed: ", absl::StrJoin(fatal, "; "));
  const bool in_world =
      node.member() && (phase_ == Phase::kForming || phase_ == Phase::kRunning);
  Quarantine(node, reason);
  if (!in_world) return;
  Reform(v1::REASON_CODE_QUARANTINED, absl::StrCat(name, ": ", reason), name);
}

// Whether the check result of a failed node is outstanding.
bool Job::ChecksPending() const {
  return std::any_of(checking_.begin(), checking_.end(),
                     [&](const std::string& name) {
                       return now_ < nodes_.at(name).checked_until;
                     });
}

// Quarantines only while enough other nodes remain: a program that fails
// everywhere is not the fault of its nodes, and the restart budget ends it.
void Job::QuarantineTheBlamed() {
  if (!may_quarantine_ || Present() <= nodes_min_) return;
  std::vector<std::string> blamed;
  for (const auto& [name, node] : nodes_) {
    if (node.session != 0 && node.blames >= limits_.blames_in_a_row &&
        !barred_.contains(name)) {
      blamed.push_back(name);
    }
  }
  for (const std::string& name : blamed) {
    if (Present() <= nodes_min_) return;
    Node& node = nodes_.at(name);
    Quarantine(
        node, absl::StrCat("to blame for ", node.blames, " failures in a row"));
  }
  may_quarantine_ = false;
}

// A world with a blamed node may fail again, which the restart budget limits.
// Without enough nodes, no world can be formed at all.
void Job::PardonTheBlamed() {
  std::vector<Node*> blamed;
  for (const std::string& name : barred_) {
    Node& node = nodes_.at(name);
    if (node.quarantined && !node.unfit && node.session != 0 && !Leaves(node)) {
      blamed.push_back(&node);
    }
  }
  std::stable_sort(
      blamed.begin(), blamed.end(),
      [](const Node* a, const Node* b) { return a->blames < b->blames; });
  for (Node* node : blamed) {
    if (Present() >= nodes_min_) return;
    Pardon(*node);
    Say(Log::Level::kWarning,
        absl::StrCat("event=pardoned node=", node->hello.node(), " blames=",
                     node->blames, " reason=\"without it fewer than ",
                     nodes_min_, " nodes are left\""));
  }
}

void Job::Pardon(Node& node) {
  node.quarantined = false;
  barred_.erase(node.hello.node());
  node.state = StateByPhase(node);
  node.reason.clear();
  Changed();
}

void Job::Quarantine(Node& node, const std::string& reason) {
  Bar(node, reason);
  node.excluded_for = node.reason;
  node.quarantined = true;
  node.state = v1::NODE_STATE_QUARANTINED;
  Say(Log::Level::kError,
      absl::StrCat("event=quarantined node=", node.hello.node(),
                   " reason=", Quoted(reason),
                   " next=\"repair it and start its agent again\""));
}

}  // namespace rollcall
