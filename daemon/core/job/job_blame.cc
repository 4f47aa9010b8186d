// Job: what blame means for a node: checks between two generations, and
// quarantine if it fails them or is to blame repeatedly.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// After progress, blame counts and charged restarts go back to 0.
void Job::MadeProgress() {
  failures_.GiveBack();
  for (auto& [name, node] : membership_.nodes()) node.blames = 0;
}

// `times`: 1, or 0 to take the blame back because another failure came first.
void Job::BlameNode(const v1::RootCause& cause, uint32_t times) {
  if (cause.rank() < 0) return;
  Node* const at = membership_.Find(cause.node());
  if (at == nullptr || at->gone) return;
  Node& node = *at;
  if (times > 0) {
    node.blames += times;
    quarantine_.NoteBlame();
    return AskForChecks(node);
  }
  if (node.blames > 0) --node.blames;
  const bool stays =
      node.blames >= limits_.blames_in_a_row || node.unfit || Leaves(node);
  if (!node.quarantined || stays) return;
  Release(node);
  if (IsRunning() && node.session != 0) GrowSoon(node);
}

void Job::AskForChecks(Node& node) {
  // An ended job assigns no seats.
  if (node.session == 0 || HasEnded()) return;
  v1::DaemonMessage message;
  message.mutable_check_request()->set_request(
      quarantine_.Ask(node, now_, limits_));
  out_.SendTo(node, std::move(message));
}

void Job::OnCheckReport(Node& node, const v1::CheckReport& report) {
  if (!quarantine_.TakeResult(node, report.request())) {
    const bool moved = report.has_facts() && TakeFacts(node, report.facts()) ==
                                                 FactsChange::kAddresses;
    if (moved) ProbeAgain(node, moved);
    return;
  }
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
    out_.SayOf(node, Log::Level::kWarning,
               absl::StrCat("event=warning node=", node.name(),
                            " text=", Quoted(text)));
  }
  const std::string name = node.name();
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
  const bool in_world = node.member() && HasWorld();
  SetQuarantined(node, reason);
  if (!in_world) return;
  Reform(v1::REASON_CODE_QUARANTINED, absl::StrCat(name, ": ", reason), name);
}

void Job::ReleaseTheBlamed(size_t missing) {
  for (Node* node : Quarantine::ToRelease(
           membership_, missing,
           [this](const Node& blamed) { return Leaves(blamed); })) {
    Release(*node);
    out_.Say(Log::Level::kWarning,
             absl::StrCat("event=unquarantined node=", node->name(), " blames=",
                          node->blames, " reason=\"without it fewer than ",
                          settings_.nodes_min(), " nodes are left\""));
  }
}

void Job::Release(Node& node) {
  node.quarantined = false;
  membership_.Readmit(node.name());
  node.state = StateByPhase(node);
  node.reason.clear();
  out_.Changed();
}

void Job::SetQuarantined(Node& node, const std::string& reason) {
  Exclude(node, reason);
  node.excluded_for = node.reason;
  node.quarantined = true;
  node.state = v1::NODE_STATE_QUARANTINED;
  out_.Say(Log::Level::kError,
           absl::StrCat("event=quarantined node=", node.name(),
                        " reason=", Quoted(reason),
                        " next=\"repair it and start its agent again\""));
}

}  // namespace rollcall
