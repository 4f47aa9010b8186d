// Job: nodes probe each other before a world is formed.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/durations.h"
#include "daemon/core/job.h"
#include "daemon/core/network_plan/network_plan.h"

namespace rollcall {
namespace {

// Probers report within this part of the round, so that the report arrives
// before its end.
constexpr double kProbersPart = 0.75;
// A connection may fail once for many reasons, and ends no job: so many rounds,
// and a pause before the next one.
constexpr int kProbeRounds = 3;
constexpr absl::Duration kProbePause = absl::Seconds(1);
// Of many nodes that share a fault, in a message.
constexpr size_t kProbersNamedMax = 8;

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
  auto asked =
      probing_.Begin(probed, keys_.probe_secret, now_, limits_.probe_timeout);
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

size_t Job::Able() const {
  if (probing_.Open(now_)) return Present();
  size_t silent = 0;
  for (const auto& [name, targets] : probing_.unanswered()) {
    silent += nodes_.at(name).session != 0 && !barred_.contains(name);
  }
  return Present() - silent;
}

// Nodes that attend while others are probed would need another round, and so
// could put off a world for as long as nodes keep attending. They are taken in
// afterwards, if there are enough without them.
std::vector<Candidate> Job::WithoutLatecomers(
    std::vector<Candidate> candidates) const {
  std::vector<Candidate> early;
  for (const Candidate& candidate : candidates) {
    if (nodes_.at(candidate.node).attended_at <= first_probe_at_) {
      early.push_back(candidate);
    }
  }
  return early.size() >= nodes_min_ ? early : candidates;
}

// What was found of these nodes is looked into once more, unless that was done
// often enough or nothing was.
bool Job::MayProbeAgain(const std::vector<std::string>& nodes) {
  if (failed_rounds_ + 1 >= kProbeRounds) return false;
  bool probed = false;
  for (const std::string& name : nodes) {
    probed = probed || probing_.Of(name) != nullptr;
    probing_.Forget(name);
  }
  if (!probed) return false;
  ++failed_rounds_;
  probe_again_at_ = now_ + kProbePause;
  return true;
}

// One that answers late is taken up again, and probed anew: others may have
// found it silent.
void Job::OnProbed(Node& node, const v1::Probed& probed) {
  const std::string& name = node.hello.node();
  if (!probing_.Awaits(name)) return;
  const bool late = IsSilentProber(name);
  probing_.Take(name, probed);
  if (late && !probing_.Awaits(name)) {
    probing_.Forget(name);
    node.reason.clear();
    if (phase_ == Phase::kRunning && !node.member()) GrowSoon();
  }
  Changed();
}

// For those who wait: why nothing is formed. Empty: not for a round of probes.
std::string Job::ProbesText() const {
  const auto& unanswered = probing_.unanswered();
  if (unanswered.empty()) return "";
  std::vector<std::string> names;
  for (const auto& [name, targets] : unanswered) {
    if (names.size() == kProbersNamedMax) break;
    names.push_back(name);
  }
  const size_t more = unanswered.size() - names.size();
  return absl::StrCat("probing addresses; no answer yet from ",
                      absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace rollcall
