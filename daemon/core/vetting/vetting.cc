#include "daemon/core/vetting/vetting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/network_plan/comparison/differences.h"
#include "daemon/core/network_plan/cuts.h"
#include "daemon/core/network_plan/newcomer_verdict.h"

namespace rollcall {
namespace {

using Act = Vetting::Act;
using Decision = Vetting::Decision;

// How many times a node's probe results may become outdated before a world
// runs.
constexpr int kOutdatedMax = 3;

// The daemon's address to which most nodes connect; empty: they use loopback,
// or the address is not known.
std::string DaemonAddress(const Membership::Nodes& nodes) {
  std::map<std::string, size_t> nodes_at;
  for (const auto& [name, node] : nodes) {
    if (node.session != 0 && !IsUnusable(node.arrived_at)) {
      ++nodes_at[node.arrived_at];
    }
  }
  const auto most = std::max_element(
      nodes_at.begin(), nodes_at.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == nodes_at.end() ? "" : most->first;
}

void AddLine(Decision& decision, Log::Level level, std::string text) {
  decision.acts.push_back(
      {.kind = Act::Kind::kSay, .text = std::move(text), .level = level});
}

void AddWarning(Decision& decision, const std::string& node,
                const std::string& text) {
  decision.acts.push_back({.kind = Act::Kind::kSay,
                           .node = node,
                           .text = absl::StrCat("event=warning node=", node,
                                                " text=", Quoted(text)),
                           .level = Log::Level::kWarning});
}

void AddAct(Decision& decision, Act::Kind kind, const std::string& node,
            std::string text = "") {
  decision.acts.push_back(
      {.kind = kind, .node = node, .text = std::move(text)});
}

void AddRequests(Decision& decision, NodeCheck::Requests requests) {
  for (auto& [name, request] : requests) {
    Act act{.kind = Act::Kind::kSend, .node = name};
    *act.message.mutable_group_check() = std::move(request);
    decision.acts.push_back(std::move(act));
  }
}

void AddDiffering(Decision& decision, const std::string& node,
                  const std::string& text, const v1::JobSettings& settings) {
  const bool strict = settings.preflight() == v1::PREFLIGHT_STRICT;
  AddAct(decision, Act::Kind::kDiffers, node,
         absl::StrCat(strict ? "--preflight strict: " : "--shared: ", text));
}

}  // namespace

void Vetting::UseKey(const Probing::Draw& draw) {
  probes_.UseKey(draw);
  check_.UseKey(draw);
}

// A node whose check alone has no answer yet may hang, so it is not checked
// with another node while ranks wait.
void Vetting::Gather() {
  probes_.Reset();
  if (check_.under_way() && check_.alone()) {
    for (const std::string& name : check_.AwaitedNodes()) {
      nodes_[name].cut = true;
    }
  }
  check_.Begin();
}

void Vetting::Clear() {
  probes_.Clear();
  check_.Begin();
  nodes_.clear();
}

void Vetting::Joined(const std::string& name) {
  const auto at = nodes_.find(name);
  if (at != nodes_.end()) at->second.outdated = 0;
}

void Vetting::StreamBroke(const Node& node, const View& view) {
  probes_.StreamBroke(node, view.running, view.membership, view.now,
                      view.limits);
  check_.Gone(node.name());
}

const Vetting::Vetted& Vetting::Of(const std::string& name) const {
  static const Vetted kNone;
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? kNone : at->second;
}

// --- Before a world is proposed ----------------------------------------------

std::vector<PlanNode> Vetting::PlanNodes(const std::vector<Seated>& seated,
                                         const View& view) const {
  std::vector<PlanNode> nodes;
  const std::string daemon_address = DaemonAddress(view.membership.nodes());
  for (const Seated& s : seated) {
    const Node& node = view.membership.At(s.node);
    const bool stays = view.running && node.member();
    // The launcher's agent connects to its daemon over loopback.
    const bool known = !node.hello.launcher() || daemon_address.empty() ||
                       !IsUnusable(node.observed_address);
    nodes.push_back({s.node, &node.hello.facts(),
                     known ? node.observed_address : daemon_address,
                     node.hello.launcher(), probes_.Of(s.node), stays});
  }
  return nodes;
}

Decision Vetting::Probe(const std::vector<PlanNode>& nodes,
                        Probing::Pairs which, const View& view) {
  Decision decision;
  Probes::Round round = probes_.Open(nodes, which, view.gathering,
                                     view.membership, view.now, view.limits);
  if (round.open) decision.next = Decision::Next::kWait;
  if (round.asked.empty()) return decision;
  if (which == Probing::Pairs::kUnknown) {
    AddLine(decision, Log::Level::kInfo,
            absl::StrCat("event=probe nodes=", round.asked.size()));
  }
  for (auto& [name, probe] : round.asked) {
    Act act{.kind = Act::Kind::kSend, .node = name};
    *act.message.mutable_probe() = std::move(probe);
    decision.acts.push_back(std::move(act));
  }
  decision.changed = true;
  return decision;
}

Decision Vetting::NoPlan(const std::vector<PlanNode>& nodes,
                         const std::vector<std::string>& without,
                         const std::string& reason, const View& view) {
  Decision decision;
  // While the ranks of a world wait, nodes that are not needed get fewer tries.
  const size_t needed = view.ranks_wait ? view.settings.nodes_min() : 0;
  if (probes_.MayRepeat(without, needed, view.membership, view.now)) {
    decision.next = Decision::Next::kWait;
    return decision;
  }
  // A node that its peers cannot reach gets no seat, and the job goes on. But
  // the launcher's own agent must have a seat.
  if (without.empty() ||
      std::any_of(without.begin(), without.end(), [&](const auto& name) {
        return view.membership.At(name).hello.launcher();
      })) {
    return decision;
  }
  auto partners = CutPartners(nodes);
  for (const std::string& name : without) {
    AddAct(decision, Act::Kind::kLeaveOut, name, reason);
    decision.acts.back().partners = std::move(partners[name]);
  }
  decision.next = Decision::Next::kWithout;
  return decision;
}

Decision Vetting::Compare(const std::vector<PlanNode>& nodes,
                          const NetworkPlan& plan, const View& view) {
  Decision decision;
  const Preflight::Verdict verdict =
      preflight_.Judge(nodes, plan, view.membership, view.settings);
  for (const v1::Difference& difference : verdict.fresh) {
    AddLine(
        decision, Log::Level::kWarning,
        absl::StrCat("event=differs text=", Quoted(DifferenceText(difference)),
                     " advice=", Quoted(difference.advice())));
  }
  for (const auto& [name, text] : verdict.excluded) {
    AddDiffering(decision, name, text, view.settings);
    decision.next = Decision::Next::kWithout;
  }
  return decision;
}

Decision Vetting::Check(const std::vector<PlanNode>& seated,
                        const NetworkPlan& plan, const View& view) {
  Decision decision;
  if (!view.settings.node_check()) return decision;
  std::vector<NodeToCheck> nodes;
  bool other_partner = false;
  for (size_t i = 0; i < seated.size(); ++i) {
    const Node& node = view.membership.At(seated[i].node);
    Vetted& vetted = nodes_[node.name()];
    if (!node.hello.checks_groups()) {
      if (std::exchange(vetted.checked, true)) continue;
      AddWarning(decision, node.name(),
                 "--node-check does not check it: its agent has no "
                 "rollcall-train");
      continue;
    }
    nodes.push_back({node.name(), plan.nodes[i].address,
                     vetted.checked || node.served_in != 0, vetted.product,
                     node.hello.launcher()});
    other_partner |= !nodes.back().checked && vetted.found_in_pairs > 0;
  }
  // A node that was found once gets another partner.
  if (other_partner) std::reverse(nodes.begin(), nodes.end());
  const auto then = [&decision](Decision next) {
    next.acts.insert(next.acts.begin(), decision.acts.begin(),
                     decision.acts.end());
    return next;
  };
  if (check_.exhausted()) {
    return then(LeaveUnchecked(nodes, seated.size(), view));
  }
  // The ranks of an earlier world wait, so they do not wait twice for nodes
  // that are not needed.
  const size_t unchecked = static_cast<size_t>(std::count_if(
      nodes.begin(), nodes.end(), [](const auto& n) { return !n.checked; }));
  const bool once =
      view.ranks_wait && seated.size() - unchecked >= view.settings.nodes_min();
  if (once) {
    Decision without = LeaveCut(nodes);
    if (!without.acts.empty()) return then(std::move(without));
  }
  return then(Begin(nodes,
                    once ? NodeCheck::Way::kPairsOnce : NodeCheck::Way::kPairs,
                    view.now));
}

// Leaves out those whose check alone had no answer when the world ended.
Decision Vetting::LeaveCut(const std::vector<NodeToCheck>& nodes) {
  Decision decision;
  for (const NodeToCheck& each : nodes) {
    if (each.checked || each.launcher ||
        !std::exchange(nodes_[each.node].cut, false)) {
      continue;
    }
    AddAct(decision, Act::Kind::kLeaveOut, each.node,
           "its check by --node-check had not ended when the world did; it is "
           "checked again later");
    decision.next = Decision::Next::kWithout;
  }
  return decision;
}

// The time for checks is over. Nodes that were not checked get no seat if there
// are enough others.
Decision Vetting::LeaveUnchecked(const std::vector<NodeToCheck>& nodes,
                                 size_t seated, const View& view) {
  Decision decision;
  std::vector<std::string> unchecked;
  for (const NodeToCheck& node : nodes) {
    if (!node.checked && !node.launcher) unchecked.push_back(node.node);
  }
  if (unchecked.empty()) return decision;
  const bool enough = seated - unchecked.size() >= view.settings.nodes_min();
  for (const std::string& name : unchecked) {
    if (enough) {
      AddAct(decision, Act::Kind::kLeaveOut, name,
             "--node-check has not checked it in time; it is checked before a "
             "later world");
    } else {
      AddWarning(
          decision, name,
          "--node-check has not checked it in time; it takes part: too few "
          "other nodes are there");
    }
  }
  if (enough) decision.next = Decision::Next::kWithout;
  return decision;
}

Decision Vetting::Begin(const std::vector<NodeToCheck>& nodes,
                        NodeCheck::Way way, absl::Time now) {
  Decision decision;
  NodeCheck::Requests requests = check_.Open(nodes, way, now);
  if (!check_.under_way()) return decision;
  AddLine(decision, Log::Level::kInfo,
          absl::StrCat("event=node_check_begun groups=", requests.size(),
                       " alone=", check_.alone() ? "true" : "false"));
  AddRequests(decision, std::move(requests));
  decision.changed = true;
  decision.next = Decision::Next::kWait;
  return decision;
}

// --- While a world runs ------------------------------------------------------

Decision Vetting::CompareNewcomer(const Node& node, const v1::World& world,
                                  const View& view) {
  Decision decision;
  if (const auto text = preflight_.JudgeNewcomer(node, view.membership, world,
                                                 view.settings)) {
    AddDiffering(decision, node.name(), *text, view.settings);
  }
  return decision;
}

Decision Vetting::NextRound(
    size_t places, const std::function<bool(const std::string&)>& leaves,
    const View& view) {
  Decision decision;
  JudgeRound(view, decision);
  const Probes::Next next =
      probes_.TakeNext(places, view.membership, leaves, view.now, view.limits);
  if (next.nodes.empty()) return decision;
  Decision round = Probe(PlanNodes(next.nodes, view), next.which, view);
  decision.changed = round.changed;
  for (Act& act : round.acts) decision.acts.push_back(std::move(act));
  const bool open = round.next == Decision::Next::kWait;
  if (!open) JudgeRound(view, decision);
  probes_.Opened(open);
  return decision;
}

// Finds the newcomers of the latest round that all members reach.
void Vetting::JudgeRound(const View& view, Decision& decision) {
  const absl::Time later = view.now + view.limits.unreached_delay;
  std::vector<std::string> silent;
  const std::vector<Seated> judged =
      probes_.TakeRound(view.membership, view.now, silent);
  for (const std::string& name : silent) {
    probes_.Unreached(name, later);
    AddAct(decision, Act::Kind::kUnreached, name, kSilentText);
  }
  if (judged.empty()) return;
  NewcomerVerdict verdict = JudgeNewcomers(PlanNodes(judged, view));
  probes_.Apart(verdict.apart);
  for (NewcomerVerdict::Unreached& unreached : verdict.unreached) {
    probes_.Unreached(unreached.node, later, std::move(unreached.partners));
    AddAct(decision, Act::Kind::kUnreached, unreached.node, unreached.reason);
  }
  for (const std::string& name : verdict.reached) {
    probes_.Forget(name);
    AddAct(decision, Act::Kind::kReached, name);
  }
}

bool Vetting::IsUnchecked(const Node& node, const View& view) const {
  const Vetted& vetted = Of(node.name());
  return view.settings.node_check() && node.hello.checks_groups() &&
         !vetted.checked && !vetted.checked_alone && node.served_in == 0;
}

Decision Vetting::CheckSpares(const View& view) {
  if (!view.running || view.isolated || check_.under_way() ||
      !check_.TakeSpares() || !view.settings.node_check()) {
    return {};
  }
  std::vector<NodeToCheck> nodes;
  for (const auto& [name, node] : view.membership.nodes()) {
    const bool waits = !node.member() && view.membership.IsEligible(node);
    if (!node.member() && !waits) continue;
    const bool checks = waits && IsUnchecked(node, view);
    if (checks) nodes_[name].cut = false;
    nodes.push_back({name, node.observed_address, !checks, Of(name).product,
                     node.hello.launcher()});
  }
  return Begin(nodes, NodeCheck::Way::kAlone, view.now);
}

// --- Answers and time --------------------------------------------------------

Decision Vetting::TakeGroupMessage(const Node& node,
                                   const v1::AgentMessage& message,
                                   const View& view) {
  Decision decision;
  if (message.has_group_listening()) {
    AddRequests(
        decision,
        check_.TakeListening(node.name(), message.group_listening(), view.now));
    decision.changed = true;
    return decision;
  }
  decision.changed = check_.TakeChecked(node.name(), message.group_checked());
  return decision;
}

Decision Vetting::Advance(const View& view) {
  Decision decision;
  if (check_.alone() ? !view.running : !view.gathering) {
    check_.Stop();
    return decision;
  }
  // While the daemon is isolated, silence is not held against a node.
  if (!check_.under_way() || view.isolated) return decision;
  AddRequests(decision, check_.Advance(view.now));
  const size_t able = probes_.Able(view.membership, view.now);
  const size_t spare = able - std::min<size_t>(able, view.settings.nodes_min());
  if (const auto verdict = check_.TakeVerdict(spare)) {
    TakeVerdict(*verdict, decision);
  }
  return decision;
}

void Vetting::TakeVerdict(const NodeCheckVerdict& verdict, Decision& decision) {
  const bool alone = check_.alone();
  for (const NodeCheckVerdict::Passed& passed : verdict.checked) {
    Vetted& vetted = nodes_[passed.node];
    (alone ? vetted.checked_alone : vetted.checked) = true;
    vetted.product = passed.product;
    AddAct(decision, Act::Kind::kPassed, passed.node);
  }
  if (alone) AddAct(decision, Act::Kind::kGrow, "");
  const auto milliseconds = [](std::optional<absl::Duration> time) {
    return absl::ToDoubleMilliseconds(time.value_or(absl::ZeroDuration()));
  };
  AddLine(decision, Log::Level::kInfo,
          absl::StrCat("event=node_check nodes=", verdict.checked.size(),
                       " rounds=", verdict.rounds,
                       " found=", verdict.findings.size(),
                       " product_ms=", milliseconds(verdict.product),
                       " all_reduce_ms=", milliseconds(verdict.all_reduce),
                       " alone=", alone ? "true" : "false"));
  for (const NodeCheckVerdict::Finding& finding : verdict.findings) {
    if (!finding.stays.empty()) {
      AddWarning(
          decision, finding.node,
          absl::StrCat(finding.text, "; it takes part: ", finding.stays));
      continue;
    }
    Vetted& vetted = nodes_[finding.node];
    if (finding.again && ++vetted.found_in_pairs == 1) {
      vetted.checked = vetted.checked_alone = false;
      AddAct(decision, Act::Kind::kLeaveOut, finding.node,
             absl::StrCat(finding.text, "; it is checked again later"));
      continue;
    }
    AddAct(decision, Act::Kind::kQuarantine, finding.node, finding.text);
  }
  decision.changed = true;
}

Decision Vetting::Outdated(const Node& node, bool moved, const View& view) {
  Decision decision;
  const int times = ++nodes_[node.name()].outdated;
  if (times > kOutdatedMax && !node.hello.launcher() &&
      !view.membership.IsExcluded(node)) {
    AddAct(
        decision, Act::Kind::kLeaveOut, node.name(),
        absl::StrCat("its agent came back while it was probed or checked, or "
                     "with other addresses, ",
                     times, " times; it is probed again later"));
  } else if (moved) {
    probes_.Hold(node, view.membership, view.now, view.limits);
    AddAct(decision, Act::Kind::kExplain, node.name(),
           "its new addresses are not probed yet");
  }
  return decision;
}

// How much earlier than usual nodes that were not reached are probed again.
absl::Duration Vetting::Sooner(const View& view) const {
  const bool awaited =
      view.gathering &&
      probes_.Able(view.membership, view.now) < view.settings.nodes_min();
  return awaited
             ? view.limits.unreached_delay - view.limits.unreached_delay_waiting
             : absl::ZeroDuration();
}

std::vector<std::string> Vetting::TakeExpired(const View& view) {
  if ((!view.gathering && !view.running) || view.isolated) return {};
  return probes_.Expire(Sooner(view), view.running, view.now);
}

absl::Time Vetting::NextExpiry(const View& view) const {
  if (!view.gathering && !view.running) return absl::InfiniteFuture();
  return probes_.NextExpiry() - Sooner(view);
}

std::string Vetting::WaitingText(bool gathering) const {
  std::string probes = gathering ? probes_.WaitingText() : "";
  return probes.empty() ? check_.WaitingText() : probes;
}

}  // namespace rollcall
