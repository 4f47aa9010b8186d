// Job: nodes probe each other before a world is formed.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/job.h"
#include "daemon/core/network_plan.h"

namespace rollcall {
namespace {

// Probers report within this part of the round, so that the report arrives
// before its end.
constexpr double kProbersPart = 0.75;
// Of many nodes that share a fault, in a message.
constexpr size_t kNamedMax = 8;

}  // namespace

// Opens a round if one is needed. Returns whether the world has to wait for
// one.
bool Job::AwaitProbes(const std::vector<PlanNode>& nodes) {
  if (IsOneMachine(nodes) || !keys_.probe_secret) return false;
  if (probing_.Open(now_)) return true;
  std::vector<ProbeNode> probed;
  for (const PlanNode& node : nodes) {
    probed.push_back({node.node, nodes_.at(node.node).hello.incarnation(),
                      CandidateAddresses(node), node.facts->probe_port()});
  }
  if (!probing_.Needed(probed)) return false;
  if (first_probe_at_ == absl::InfiniteFuture()) first_probe_at_ = now_;
  auto asked = probing_.Begin(probed, keys_.probe_secret, now_,
                              limits_.probe_timeout);
  Say(Log::Level::kInfo, absl::StrCat("event=probe nodes=", asked.size()));
  for (auto& [name, probe] : asked) {
    ToProto(limits_.probe_timeout * kProbersPart, probe.mutable_timeout());
    v1::DaemonMessage message;
    *message.mutable_probe() = std::move(probe);
    ToNode(nodes_.at(name), std::move(message));
  }
  Changed();
  return true;
}

// A node that has not answered within its round gets no seat until it does.
bool Job::IsSilentProber(const std::string& name) const {
  return probing_.Awaits(name) && !probing_.Open(now_);
}

// Nodes that attend while others are probed would need another round, and so
// could put off a world for as long as nodes keep attending. They are taken in
// afterwards, if there are enough without them.
void Job::DropLatecomers(std::vector<Candidate>& candidates) const {
  std::vector<Candidate> early;
  for (const Candidate& candidate : candidates) {
    if (nodes_.at(candidate.node).attended_at <= first_probe_at_) {
      early.push_back(candidate);
    }
  }
  if (early.size() >= nodes_min_) candidates = std::move(early);
}

void Job::OnProbed(Node& node, const v1::Probed& probed) {
  const bool late = IsSilentProber(node.hello.node());
  probing_.Take(node.hello.node(), probed);
  if (late && !IsSilentProber(node.hello.node())) {
    node.reason.clear();
    Changed();
  }
}

std::string Job::UnansweredText() const {
  std::vector<std::string> names = probing_.Unanswered();
  if (names.empty()) return "";
  const size_t more = names.size() > kNamedMax ? names.size() - kNamedMax : 0;
  names.resize(names.size() - more);
  return absl::StrCat("no answer to probes from ", absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace rollcall
