// Job: facts of nodes, and the probes and checks that Vetting decides on.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"
#include "daemon/core/network_plan/facts_change.h"

namespace rollcall {

Vetting::View Job::ForVetting() const {
  return {.membership = membership_,
          .settings = settings_,
          .limits = limits_,
          .now = now_,
          .gathering = phase_ == Phase::kGathering,
          .running = IsRunning(),
          .isolated = isolation_.on(),
          .ranks_wait = generation() > 0};
}

bool Job::CarryOut(Vetting::Decision decision) {
  using Kind = Vetting::Act::Kind;
  using Next = Vetting::Decision::Next;
  for (Vetting::Act& act : decision.acts) {
    Node* const node = act.node.empty() ? nullptr : &membership_.At(act.node);
    switch (act.kind) {
      case Kind::kSend:
        out_.SendTo(*node, std::move(act.message));
        break;
      case Kind::kSay:
        if (node == nullptr) {
          out_.Say(act.level, act.text);
        } else {
          out_.SayOf(*node, act.level, act.text);
        }
        break;
      case Kind::kLeaveOut:
        ExcludeForNow(*node, act.text, std::move(act.partners));
        break;
      case Kind::kDiffers:
        Exclude(*node, act.text);
        node->excluded_for = node->reason;
        node->differs = true;
        break;
      case Kind::kQuarantine:
        SetQuarantined(*node, act.text);
        break;
      case Kind::kExplain:
        if (node->reason.empty()) node->reason = act.text;
        break;
      case Kind::kUnreached:
        SetUnreached(*node, act.text);
        break;
      case Kind::kReached:
        SetReached(*node);
        break;
      case Kind::kPassed:
        if (node->reason == Vetting::kCheckedAlone) node->reason.clear();
        break;
      case Kind::kGrow:
        newcomers_.GrowBy(now_);
        break;
    }
  }
  if (decision.changed) out_.Changed();
  // If too few nodes are left, MaybeForm waits for others.
  if (decision.next == Next::kWithout) MaybeForm();
  return decision.next == Next::kGoOn;
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
    vetting_.probes().Moved(node, IsRunning(), membership_, now_, limits_);
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

// The node's probe results are outdated.
void Job::ProbeAgain(Node& node, bool moved) {
  if (HasEnded()) return;
  const std::string name = node.name();
  const bool proposed = phase_ == Phase::kForming && node.member();
  CarryOut(vetting_.Outdated(node, moved, ForVetting()));
  if (!moved || !proposed) return;
  Reform(v1::REASON_CODE_FACTS_CHANGED,
         absl::StrCat(name, " has other addresses than before"), name);
}

// Newcomers are probed before a world is ended for them. A few spares are
// probed too, so that a free seat is taken without a round of probes.
void Job::MaybeProbe() {
  if (!IsRunning() || isolation_.on() || now_ < vetting_.probes().due()) return;
  if (!vetting_.probes().MayOpen(membership_, now_, limits_)) return;
  steps_.TakeRound(world(), vetting_.probes().results());
  const uint32_t members = static_cast<uint32_t>(world().members_size());
  const size_t places = settings_.nodes_max() + Limits::spares_probed -
                        std::min(settings_.nodes_max(), members);
  CarryOut(vetting_.NextRound(
      places, [this](const std::string& name) { return notices_.Leaves(name); },
      ForVetting()));
}

void Job::TakeBackUnreached() {
  for (const std::string& name : vetting_.TakeExpired(ForVetting())) {
    Node& node = membership_.At(name);
    const bool only_unreached =
        !node.quarantined && !node.differs && !Leaves(node);
    if (only_unreached && membership_.Readmit(name)) {
      node.state = StateByPhase(node);
    }
    out_.Changed();
  }
}

// All that can be proven about the node's addresses now is proven.
void Job::SetReached(Node& node) {
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

void Job::SetUnreached(Node& node, const std::string& why) {
  const std::string reason = Printable(why, Limits::node_reason_bytes_max);
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

// A node that waits for its check says so.
void Job::SayUnchecked(Node& node) {
  if (!node.reason.empty() || !vetting_.IsUnchecked(node, ForVetting())) return;
  node.reason = Vetting::kCheckedAlone;
  TellSpare(node);
}

}  // namespace rollcall
