#include "daemon/core/network_plan/probes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

// Probers report within this fraction of the round's time, so that their
// reports arrive before the round ends.
constexpr double kProbersPart = 0.75;
// A message names at most this many nodes.
constexpr size_t kUnheardNamedMax = 8;

// The address that the platform names, if no interface has it (1:1 NAT).
std::string TranslatedAddress(const v1::Facts& facts) {
  for (const v1::Interface& interface : facts.interfaces()) {
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      if (a.address() == facts.advertised_address()) return "";
    }
  }
  return facts.advertised_address();
}

std::vector<ProbeNode> ProbeNodes(const std::vector<PlanNode>& nodes,
                                  const Membership& membership) {
  std::vector<ProbeNode> probed;
  for (const PlanNode& node : nodes) {
    probed.push_back({node.node, membership.At(node.node).hello.incarnation(),
                      CandidateAddresses(node), node.facts->probe_port(),
                      TranslatedAddress(*node.facts)});
  }
  return probed;
}

}  // namespace

void Probes::Clear() {
  probing_.Clear();
  reach_ = Reach();
  rounds_.Reset();
}

Probes::Round Probes::Open(const std::vector<PlanNode>& nodes,
                           Probing::Pairs which, bool gathering,
                           const Membership& membership, absl::Time now,
                           const Limits& limits) {
  if (IsOneMachine(nodes) || !draw_) return {};
  if (probing_.Open(now)) return {.open = true};
  const std::vector<ProbeNode> probed = ProbeNodes(nodes, membership);
  if (which == Probing::Pairs::kUnknown && !probing_.Needed(probed)) return {};
  if (gathering) {
    std::set<std::string> names;
    for (const PlanNode& node : nodes) names.insert(node.node);
    rounds_.Open(std::move(names), now);
  }
  Round round;
  round.asked = probing_.Begin(probed, draw_, now, limits.probe_timeout, which);
  for (auto& [name, probe] : round.asked) {
    ToProto(limits.probe_timeout * kProbersPart, probe.mutable_timeout());
  }
  round.open = probing_.Open(now);
  return round;
}

bool Probes::Take(Node& node, const v1::Probed& probed, bool running,
                  const Membership& membership, absl::Time now,
                  const Limits& limits) {
  const std::string& name = node.name();
  const bool late = IsSilent(name, now);
  if (!late && !Awaits(name)) return false;
  probing_.Take(name, probed, now);
  if (Awaits(name)) return false;
  if (running) {
    if (!probing_.Open(now)) rounds_.JudgeBy(now);
    // What other nodes reported about this node is outdated.
    if (late && !node.member() && !membership.IsExcluded(node)) {
      reach_.Unreached(name, now + limits.arrivals_pause);
    }
  } else if (late) {
    // The node may have a seat again; at once if too few other nodes are
    // present. It is probed again, because other nodes may have got no answer
    // from it.
    probing_.Forget(name);
    if (!node.member()) Hold(node, membership, now, limits);
    node.reason.clear();
  }
  return true;
}

bool Probes::MayRepeat(const std::vector<std::string>& nodes, size_t needed,
                       const Membership& membership, absl::Time now) {
  if (!rounds_.MayRepeat()) return false;
  // While the ranks of a world wait, newcomers that are not needed get only one
  // try.
  if (needed > 0 && Able(membership, now) >= needed + nodes.size() &&
      std::all_of(nodes.begin(), nodes.end(), [&](const std::string& name) {
        return membership.At(name).served_in == 0;
      })) {
    return false;
  }
  bool probed = false;
  for (const std::string& name : nodes) {
    probed = probed || probing_.Of(name) != nullptr;
    probing_.Forget(name);
  }
  if (probed) rounds_.Repeat(now);
  return probed;
}

size_t Probes::Able(const Membership& membership, absl::Time now) const {
  size_t silent = 0;
  for (const std::string& name : probing_.Silent(now)) {
    silent += membership.IsEligible(membership.At(name));
  }
  return membership.present() - silent;
}

void Probes::Hold(const Node& node, const Membership& membership,
                  absl::Time now, const Limits& limits) {
  if (membership.IsExcluded(node)) return;
  reach_.Unreached(node.name(), now + limits.unreached_delay);
}

std::vector<std::string> Probes::Expire(absl::Duration sooner, bool running,
                                        absl::Time now) {
  std::vector<std::string> expired = reach_.Expire(now + sooner);
  for (const std::string& name : expired) {
    probing_.Forget(name);
    if (running) {
      rounds_.ProbeBy(now);
    } else {
      reach_.Forget(name);
    }
  }
  return expired;
}

std::vector<Candidate> Probes::WithoutLatecomers(
    std::vector<Candidate> candidates, size_t needed,
    const Membership& membership) const {
  std::vector<Candidate> early;
  for (const Candidate& candidate : candidates) {
    if (rounds_.Covers(candidate.node,
                       membership.At(candidate.node).attended_at)) {
      early.push_back(candidate);
    }
  }
  return early.size() >= needed ? early : candidates;
}

std::string Probes::WaitingText() const {
  const std::set<std::string> unheard = probing_.Unheard();
  if (unheard.empty()) return "";
  return absl::StrCat(
      "probing addresses; no answer yet from ",
      NameList({unheard.begin(), unheard.end()}, kUnheardNamedMax));
}

void Probes::StreamBroke(const Node& node, bool running,
                         const Membership& membership, absl::Time now,
                         const Limits& limits) {
  const std::string& name = node.name();
  const bool silent = IsSilent(name, now);
  if (!silent && !Awaits(name)) return;
  if (running && node.member()) {
    probing_.Excuse(name);
  } else {
    probing_.Forget(name);
    // Otherwise a node whose stream breaks repeatedly would be probed each
    // time.
    if (silent || running) Hold(node, membership, now, limits);
  }
  // Other nodes may wait for the round's result.
  if (running && !probing_.Open(now)) rounds_.JudgeBy(now);
}

void Probes::Moved(const Node& node, bool running, const Membership& membership,
                   absl::Time now, const Limits& limits) {
  StreamBroke(node, running, membership, now, limits);
  probing_.Forget(node.name());
}

void Probes::Newcomer(const std::string& name, bool fills, absl::Time now,
                      const Limits& limits) {
  reach_.Came(name, now);
  rounds_.ProbeBy(fills ? now : now + limits.arrivals_pause);
}

bool Probes::MayOpen(const Membership& membership, absl::Time now,
                     const Limits& limits) {
  absl::Time wait = absl::InfinitePast();
  if (probing_.Open(now)) {
    wait = probing_.until();
  } else if (membership.HasSeatedSuspect()) {
    waits_since_ = std::min(waits_since_, now);
    wait = std::min(now + std::max(limits.reconnect_grace, absl::Seconds(1)),
                    waits_since_ + limits.arrivals_wait_max);
  }
  if (wait <= now) {
    waits_since_ = absl::InfiniteFuture();
    return true;
  }
  rounds_.PutOff(wait);
  return false;
}

std::vector<Seated> Probes::TakeRound(const Membership& membership,
                                      absl::Time now,
                                      std::vector<std::string>& silent) {
  if (rounds_.nodes().empty()) return {};
  std::vector<Seated> judged;
  for (const auto& [name, node] : membership.nodes()) {
    if (node.member() && node.session != 0) judged.push_back({name, 0});
  }
  for (const std::string& name : rounds_.TakeNodes()) {
    // The node may have left, or attended with a new incarnation.
    if (!reach_.WasToProbe(name, rounds_.opened_at())) continue;
    const Node& node = membership.At(name);
    if (IsSilent(name, now)) {
      silent.push_back(name);
    } else if (membership.IsEligible(node) && !node.member()) {
      judged.push_back({name, 0});
    }
  }
  return judged;
}

void Probes::Apart(const std::vector<std::string>& nodes) {
  for (const std::string& name : nodes) probing_.Forget(name);
}

Probes::Next Probes::TakeNext(
    size_t places, const Membership& membership,
    const std::function<bool(const std::string&)>& leaves, absl::Time now,
    const Limits& limits) {
  if (rounds_.pause_ends() > now) {
    rounds_.PutOff(rounds_.pause_ends());
    return {};
  }
  const bool ping = rounds_.PingDue(now);
  if (ping) rounds_.PingLater(now, limits);
  Next next;
  std::vector<Seated> proven;
  for (const auto& [name, node] : membership.nodes()) {
    if (!membership.IsEligible(node)) continue;
    if (node.member()) {
      next.nodes.push_back({name, 0});
    } else if (!leaves(name) && !IsSilent(name, now) &&
               reach_.HeldUntil(name) == absl::InfinitePast()) {
      proven.push_back({name, 0});
    }
  }
  if (proven.size() > places) proven.resize(places);
  const std::vector<std::string> to_probe =
      reach_.ToProbe(places - proven.size(), [&](const std::string& name) {
        const Node& node = membership.At(name);
        return membership.IsEligible(node) && !node.member();
      });
  Opened(false);
  if (!rounds_.OpenFor({to_probe.begin(), to_probe.end()}, ping,
                       membership.present(), now)) {
    return {};
  }
  next.nodes.insert(next.nodes.end(), proven.begin(), proven.end());
  for (const std::string& name : rounds_.nodes()) {
    next.nodes.push_back({name, 0});
  }
  if (ping) next.which = Probing::Pairs::kAll;
  return next;
}

void Probes::Opened(bool open) {
  rounds_.JudgeAt(open ? probing_.until() : absl::InfiniteFuture());
}

void Probes::WorldEnded(const Membership& membership, absl::Time now,
                        const Limits& limits) {
  waits_since_ = absl::InfiniteFuture();
  const std::set<std::string> newcomers = rounds_.EndWorld();
  const bool open = probing_.Open(now);
  for (const std::string& name : probing_.Unheard()) {
    const bool asked = open && Awaits(name);
    if (asked || membership.At(name).member()) probing_.Excuse(name);
  }
  // An unfinished round has too few reports to prove anything.
  if (open) {
    for (const std::string& name : newcomers) probing_.Forget(name);
  }
  reach_.WorldEnded(now + limits.unreached_delay);
}

}  // namespace rollcall
