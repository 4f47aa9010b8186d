// Job: the probes of nodes by each other, before and while a world runs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"
#include "daemon/core/network_plan/facts_change.h"
#include "daemon/core/network_plan/newcomer_verdict.h"

namespace rollcall {
namespace {

// How many times a node's probe results may become outdated before a world
// runs.
constexpr int kReprobesMax = 3;

}  // namespace

// Opens a round if one is needed. Returns whether the world has to wait for a
// round.
bool Job::AwaitProbes(const std::vector<PlanNode>& nodes,
                      Probing::Pairs which) {
  Probes::Round round = probes_.Open(nodes, which, phase_ == Phase::kGathering,
                                     membership_, now_, limits_);
  if (round.asked.empty()) return round.open;
  if (which == Probing::Pairs::kUnknown) {
    out_.Say(Log::Level::kInfo,
             absl::StrCat("event=probe nodes=", round.asked.size()));
  }
  for (auto& [name, probe] : round.asked) {
    v1::DaemonMessage message;
    *message.mutable_probe() = std::move(probe);
    out_.SendTo(membership_.At(name), std::move(message));
  }
  out_.Changed();
  return round.open;
}

// The node's probe results are outdated. If this happens repeatedly, the node
// is excluded; otherwise it would be probed each time while all others wait.
void Job::ProbeAgain(Node& node, bool moved) {
  if (HasEnded()) return;
  const std::string name = node.name();
  const bool proposed = phase_ == Phase::kForming && node.member();
  if (++node.reprobes > kReprobesMax && !node.hello.launcher() &&
      !membership_.IsExcluded(name)) {
    Exclude(
        node,
        absl::StrCat(
            "its agent came back while it was probed or checked, or with other "
            "addresses, ",
            node.reprobes, " times; it is probed again later"));
    probes_.Unreached(name, now_ + limits_.unreached_delay);
  } else if (moved) {
    probes_.Hold(node, membership_, now_, limits_);
    if (node.reason.empty())
      node.reason = "its new addresses are not probed yet";
  }
  if (!moved || !proposed) return;
  Reform(v1::REASON_CODE_FACTS_CHANGED,
         absl::StrCat(name, " has other addresses than before"), name);
}

// Takes the current facts of an agent that continues. Returns which of the
// facts that worlds are planned with have changed. Probe results for former
// addresses do not apply to new ones. For a member of the running world, new
// facts apply when that world ends; until then others reach it at its former
// addresses.
FactsChange Job::TakeFacts(Node& node, const v1::Facts& facts) {
  const v1::Facts& known = node.hello.facts();
  const FactsChange change = ChangeOf(known, facts, node.observed_address);
  if (IsRunning() && node.member() && !node.restored()) {
    const v1::Facts& last =
        node.told_facts.has_value() ? *node.told_facts : known;
    if (change == FactsChange::kAddresses &&
        ChangeOf(last, facts, node.observed_address) ==
            FactsChange::kAddresses) {
      out_.SayOf(
          node, Log::Level::kWarning,
          absl::StrCat("event=moved node=", node.name(), " text=",
                       Quoted("its addresses have changed; the running world "
                              "keeps the old ones")));
    }
    node.told_facts = facts;
    return FactsChange::kNone;
  }
  node.told_facts.reset();
  if (change == FactsChange::kAddresses) {
    probes_.Moved(node, IsRunning(), membership_, now_, limits_);
  }
  *node.hello.mutable_facts() = facts;
  return change;
}

// Applies the facts that members reported while the world ran. The world has
// ended.
void Job::TakeToldFacts() {
  for (auto& [name, node] : membership_.nodes()) {
    if (!node.told_facts.has_value()) continue;
    const v1::Facts facts = *std::exchange(node.told_facts, std::nullopt);
    TakeFacts(node, facts);
  }
}

// --- While a world runs ------------------------------------------------------

// Newcomers are probed before a world is ended for them. A few spares are
// probed too, so that a free seat is taken without a round of probes.
void Job::MaybeProbe() {
  if (!IsRunning() || isolation_.on() || now_ < probes_.due()) return;
  if (!probes_.MayOpen(membership_, now_, limits_)) return;
  JudgeRound();
  const uint32_t members = static_cast<uint32_t>(world().members_size());
  const size_t places = settings_.nodes_max() + Limits::spares_probed -
                        std::min(settings_.nodes_max(), members);
  const Probes::Next next = probes_.TakeNext(
      places, membership_,
      [this](const std::string& name) { return notices_.Leaves(name); }, now_,
      limits_);
  if (next.nodes.empty()) return;
  const bool open = AwaitProbes(PlanNodes(next.nodes), next.which);
  if (!open) JudgeRound();
  probes_.Opened(open);
}

// Finds the members that stand out in the latest round, and its newcomers that
// all members reach.
void Job::JudgeRound() {
  steps_.TakeRound(world(), probes_.results());
  std::vector<std::string> silent;
  const std::vector<Seated> judged =
      probes_.TakeRound(membership_, now_, silent);
  for (const std::string& name : silent) {
    SetUnreached(membership_.At(name), kSilentText);
  }
  if (judged.empty()) return;
  const NewcomerVerdict verdict = JudgeNewcomers(PlanNodes(judged));
  probes_.Apart(verdict.apart);
  for (const NewcomerVerdict::Unreached& unreached : verdict.unreached) {
    SetUnreached(membership_.At(unreached.node), unreached.reason,
                 unreached.partners);
  }
  for (const std::string& name : verdict.reached) {
    SetReached(membership_.At(name));
  }
}

// All that can be proven about the node's addresses now is proven.
void Job::SetReached(Node& node) {
  probes_.Forget(node.name());
  newcomers_.GrowBy(now_);
  if (node.reason.empty() || Leaves(node)) return;
  if (newcomers_.HoldText(node.name(), now_, limits_).empty()) {
    node.reason.clear();
  } else {
    SayHold(node);
  }
  SayUnchecked(node);
  out_.Changed();
}

void Job::SetUnreached(Node& node, const std::string& why,
                       const std::set<std::string>& partners) {
  const std::string reason = Printable(why, Limits::node_reason_bytes_max);
  probes_.Unreached(node.name(), now_ + limits_.unreached_delay, partners);
  if (std::exchange(node.reason, reason) == reason) return;
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=unreached node=", node.name(),
                          " reason=", Quoted(reason)));
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(reason);
  out_.SendTo(node, std::move(message));
  out_.Changed();
}

// How much earlier than usual nodes that were not reached are probed again.
absl::Duration Job::SoonerProbed() const {
  const bool awaited = phase_ == Phase::kGathering &&
                       probes_.Able(membership_, now_) < settings_.nodes_min();
  return awaited ? limits_.unreached_delay - limits_.unreached_delay_waiting
                 : absl::ZeroDuration();
}

// Probes nodes again that were not reached, because the cause may be gone.
void Job::TakeBackUnreached() {
  if (!MayProbeUnreached() || isolation_.on()) return;
  for (const std::string& name :
       probes_.Expire(SoonerProbed(), IsRunning(), now_)) {
    Node& node = membership_.At(name);
    const bool only_unreached =
        !node.quarantined && !node.differs && !Leaves(node);
    if (only_unreached && membership_.Readmit(name)) {
      node.state = StateByPhase(node);
    }
    out_.Changed();
  }
}

void Job::OnProbed(Node& node, const v1::Probed& probed) {
  if (probes_.Take(node, probed, IsRunning(), membership_, now_, limits_)) {
    out_.Changed();
  }
}

}  // namespace rollcall
