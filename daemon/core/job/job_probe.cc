// Job: nodes probe each other before a world is formed, and while it runs.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/name_list.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/newcomer_verdict.h"

namespace rollcall {
namespace {

// Probers report within this fraction of the round, so that their reports
// arrive before its end.
constexpr double kProbersPart = 0.75;
// How often the probe results of a node may become outdated before a world
// runs.
constexpr int kReprobesMax = 3;
// Most nodes named in a message.
constexpr size_t kProbersNamedMax = 8;

// The address that the platform names, if no interface has it (1:1 NAT).
std::string TranslatedAddress(const v1::Facts& facts) {
  for (const v1::Interface& interface : facts.interfaces()) {
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      if (a.address() == facts.advertised_address()) return "";
    }
  }
  return facts.advertised_address();
}

// All facts that a probe of the node depends on: its location and the addresses
// at which others may reach it. Interfaces of containers, which come and go,
// are not part of it.
std::set<std::string> ProbedPart(const PlanNode& node) {
  const v1::Facts& facts = *node.facts;
  std::set<std::string> part = {
      absl::StrCat("port ", facts.probe_port()),
      absl::StrCat("platform ", facts.advertised_address()),
      absl::StrCat("machine ", facts.boot_id(), " ",
                   facts.network_namespace())};
  const std::vector<std::string> addresses = CandidateAddresses(node);
  const std::set<std::string> candidates(addresses.begin(), addresses.end());
  for (const v1::Interface& interface : facts.interfaces()) {
    for (const v1::InterfaceAddress& at : interface.addresses()) {
      if (!candidates.contains(at.address())) continue;
      part.insert(absl::StrCat(interface.name(), " ", at.address()));
    }
  }
  return part;
}

bool SamePorts(const v1::Facts& a, const v1::Facts& b) {
  return std::equal(
      a.infiniband().begin(), a.infiniband().end(), b.infiniband().begin(),
      b.infiniband().end(),
      [](const v1::InfinibandPort& one, const v1::InfinibandPort& other) {
        return one.SerializeAsString() == other.SerializeAsString();
      });
}

}  // namespace

std::vector<ProbeNode> Job::ProbeNodes(
    const std::vector<PlanNode>& nodes) const {
  std::vector<ProbeNode> probed;
  for (const PlanNode& node : nodes) {
    probed.push_back({node.node, nodes_.at(node.node).hello.incarnation(),
                      CandidateAddresses(node), node.facts->probe_port(),
                      TranslatedAddress(*node.facts)});
  }
  return probed;
}

// Opens a round if one is needed. Returns whether the world has to wait for a
// round.
bool Job::AwaitProbes(const std::vector<PlanNode>& nodes,
                      Probing::Pairs which) {
  if (IsOneMachine(nodes) || !keys_.probe_secret) return false;
  if (probing_.Open(now_)) return true;
  const std::vector<ProbeNode> probed = ProbeNodes(nodes);
  const bool again = which == Probing::Pairs::kAll;
  if (!again && !probing_.Needed(probed)) return false;
  if (phase_ == Phase::kGathering) {
    std::set<std::string> names;
    for (const PlanNode& node : nodes) names.insert(node.node);
    rounds_.Open(std::move(names), now_);
  }
  auto asked = probing_.Begin(probed, keys_.probe_secret, now_,
                              limits_.probe_timeout, which);
  if (!again) {
    Say(Log::Level::kInfo, absl::StrCat("event=probe nodes=", asked.size()));
  }
  for (auto& [name, probe] : asked) {
    ToProto(limits_.probe_timeout * kProbersPart, probe.mutable_timeout());
    v1::DaemonMessage message;
    *message.mutable_probe() = std::move(probe);
    ToNode(nodes_.at(name), std::move(message));
  }
  Changed();
  return probing_.Open(now_);
}

// The node is probed again after a delay, or at once if a world needs it. An
// excluded node stays excluded.
void Job::HoldUnreached(const std::string& name) {
  if (barred_.contains(name)) return;
  reach_.Unreached(name, now_ + limits_.unreached_delay);
}

// The node's probe results are outdated. A node for which this happens
// repeatedly is excluded; otherwise it would be probed each time and all others
// would wait.
void Job::ProbeAnew(Node& node, bool moved) {
  if (phase_ == Phase::kEnded) return;
  const std::string name = node.hello.node();
  const bool proposed = phase_ == Phase::kForming && node.member();
  if (++node.reprobes > kReprobesMax && !node.hello.launcher() &&
      !barred_.contains(name)) {
    Bar(node,
        absl::StrCat("its agent came back while it was probed, or with other "
                     "addresses, ",
                     node.reprobes, " times; it is probed again later"));
    reach_.Unreached(name, now_ + limits_.unreached_delay);
  } else if (moved) {
    HoldUnreached(name);
    if (node.reason.empty())
      node.reason = "its new addresses are not probed yet";
  }
  if (!moved || !proposed) return;
  Reform(v1::REASON_CODE_FACTS_CHANGED,
         absl::StrCat(name, " has other addresses than before"), name);
}

// The request or the report may be lost with the stream.
void Job::ForgetProbes(const std::string& name) {
  const bool silent = IsSilentProber(name);
  if (!silent && !probing_.Awaits(name)) return;
  if (phase_ == Phase::kRunning && nodes_.at(name).member()) {
    probing_.Excuse(name);
  } else {
    probing_.Forget(name);
    // Otherwise a node whose stream breaks repeatedly would be probed each
    // time.
    if (silent || phase_ == Phase::kRunning) HoldUnreached(name);
  }
  if (phase_ != Phase::kRunning) return;
  // Others may wait for the result.
  if (!probing_.Open(now_)) rounds_.JudgeBy(now_);
}

// Takes the current facts of an agent that continues, and returns what changed
// among the facts that worlds are planned with. Probe results for its former
// addresses say nothing about new ones. For a member of the running world, new
// facts apply when that world ends; until then others reach it at its former
// addresses.
Job::FactsChange Job::TakeFacts(Node& node, const v1::Facts& facts) {
  const v1::Facts& known = node.hello.facts();
  const auto part = [&](const v1::Facts& of) {
    return ProbedPart(PlanNode{node.hello.node(), &of, node.observed_address});
  };
  const FactsChange change = part(known) != part(facts)
                                 ? FactsChange::kAddresses
                             : SamePorts(known, facts) ? FactsChange::kNone
                                                       : FactsChange::kPorts;
  if (phase_ == Phase::kRunning && node.member() &&
      node.hello.incarnation() != 0) {
    const v1::Facts& last =
        node.told_facts.has_value() ? *node.told_facts : known;
    if (change == FactsChange::kAddresses && part(last) != part(facts)) {
      SayOf(node, Log::Level::kWarning,
            absl::StrCat("event=moved node=", node.hello.node(), " text=",
                         Quoted("its addresses have changed; the running world "
                                "keeps the old ones")));
    }
    node.told_facts = facts;
    return FactsChange::kNone;
  }
  node.told_facts.reset();
  if (change == FactsChange::kAddresses) {
    ForgetProbes(node.hello.node());
    probing_.Forget(node.hello.node());
  }
  *node.hello.mutable_facts() = facts;
  return change;
}

// The running world has ended.
void Job::TakeToldFacts() {
  for (auto& [name, node] : nodes_) {
    if (!node.told_facts.has_value()) continue;
    const v1::Facts facts = *std::exchange(node.told_facts, std::nullopt);
    TakeFacts(node, facts);
  }
}

// --- While a world runs ------------------------------------------------------

// Waits for last_call, since more nodes may come, unless this one has filled
// the world.
void Job::ProbeSoon() {
  const bool fills = Present() == nodes_max_ &&
                     static_cast<uint32_t>(world_.members_size()) < nodes_max_;
  rounds_.ProbeBy(fills ? now_ : now_ + limits_.last_call);
}

// Newcomers are probed before a world is ended for them. A few spares are
// probed too, so that a free seat is taken without a round of probes.
void Job::MaybeProbe() {
  if (phase_ != Phase::kRunning || isolation_.on()) return;
  if (now_ < rounds_.due()) return;
  const bool ping = rounds_.PingDue(now_);
  absl::Time wait = absl::InfinitePast();
  if (probing_.Open(now_)) {
    wait = probing_.until();
  } else if (SeatedSuspect()) {
    wait = now_ + std::max(limits_.reconnect_grace, absl::Seconds(1));
  } else {
    JudgeRound();
    wait = rounds_.pause_ends();
  }
  if (wait > now_) return rounds_.PutOff(wait);
  if (ping) rounds_.PingLater(now_, limits_);
  rounds_.JudgeAt(OpenRound(ping) ? probing_.until() : absl::InfiniteFuture());
}

// Probes the newcomers that have waited longest: as many as there are free
// seats, and spares_probed more. Returns whether the round is open.
bool Job::OpenRound(bool ping) {
  std::vector<Seated> members;
  std::vector<Seated> proven;
  for (const auto& [name, node] : nodes_) {
    if (node.session == 0 || barred_.contains(name)) continue;
    if (node.member()) {
      members.push_back({name, 0});
    } else if (!Leaves(node) && !IsSilentProber(name) &&
               reach_.HeldUntil(name) == absl::InfinitePast()) {
      proven.push_back({name, 0});
    }
  }
  const size_t places =
      nodes_max_ + Limits::spares_probed -
      std::min<size_t>(nodes_max_, static_cast<size_t>(world_.members_size()));
  if (proven.size() > places) proven.resize(places);
  const std::vector<std::string> to_probe =
      reach_.ToProbe(places - proven.size(), [&](const auto& name) {
        const Node& node = nodes_.at(name);
        return node.session != 0 && !node.member() && !barred_.contains(name);
      });
  if (!rounds_.OpenFor({to_probe.begin(), to_probe.end()}, ping, Present(),
                       now_)) {
    return false;
  }
  std::vector<Seated> all = std::move(members);
  all.insert(all.end(), proven.begin(), proven.end());
  for (const std::string& name : rounds_.nodes()) all.push_back({name, 0});
  if (AwaitProbes(PlanNodes(all),
                  ping ? Probing::Pairs::kAll : Probing::Pairs::kUnknown)) {
    return true;
  }
  JudgeRound();
  return false;
}

// Finds the newcomers of the latest round that all members reach.
void Job::JudgeRound() {
  if (rounds_.nodes().empty()) return;
  std::vector<Seated> names;
  for (const auto& [name, node] : nodes_) {
    if (node.member() && node.session != 0) names.push_back({name, 0});
  }
  for (const std::string& name : rounds_.TakeNodes()) {
    // It may have left, or attended with a new incarnation.
    if (!reach_.WasToProbe(name, rounds_.opened_at())) continue;
    Node& node = nodes_.at(name);
    if (IsSilentProber(name)) {
      SetUnreached(node, kSilentText);
    } else if (node.session != 0 && !node.member() && !barred_.contains(name)) {
      names.push_back({name, 0});
    }
  }
  const NewcomerVerdict verdict = JudgeNewcomers(PlanNodes(names));
  for (const std::string& name : verdict.apart) probing_.Forget(name);
  for (const auto& [name, reason] : verdict.unreached) {
    SetUnreached(nodes_.at(name), reason);
  }
  for (const std::string& name : verdict.reached) SetReached(nodes_.at(name));
}

// Its addresses are proven as far as possible now.
void Job::SetReached(Node& node) {
  reach_.Forget(node.hello.node());
  grow_at_ = std::min(grow_at_, now_);
  if (node.reason.empty() || Leaves(node)) return;
  node.reason.clear();
  SayHold(node);
  Changed();
}

void Job::SetUnreached(Node& node, const std::string& why) {
  const std::string reason = Printable(why, Limits::node_reason_bytes_max);
  reach_.Unreached(node.hello.node(), now_ + limits_.unreached_delay);
  if (std::exchange(node.reason, reason) == reason) return;
  SayOf(node, Log::Level::kWarning,
        absl::StrCat("event=unreached node=", node.hello.node(),
                     " reason=", Quoted(reason)));
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(reason);
  ToNode(node, std::move(message));
  Changed();
}

// How much earlier nodes that were not reached are probed again.
absl::Duration Job::SoonerProbed() const {
  const bool awaited = phase_ == Phase::kGathering && Able() < nodes_min_;
  return awaited ? limits_.unreached_delay - limits_.unreached_delay_waiting
                 : absl::ZeroDuration();
}

// Nodes that were not reached are probed again, in case that was fixed.
void Job::TakeBackUnreached() {
  if (!MayProbeUnreached() || isolation_.on()) return;
  for (const std::string& name : reach_.Expire(now_ + SoonerProbed())) {
    Node& node = nodes_.at(name);
    probing_.Forget(name);
    const bool only_unreached =
        !node.quarantined && !node.differs && !Leaves(node);
    if (only_unreached && barred_.erase(name) > 0) {
      node.state = StateByPhase(node);
    }
    if (phase_ == Phase::kRunning) {
      rounds_.ProbeBy(now_);
    } else {
      reach_.Forget(name);
    }
    Changed();
  }
}

// The world has ended. The next one waits for no round that was opened while it
// ran.
void Job::EndProbes() {
  const std::set<std::string> newcomers = rounds_.EndWorld();
  const bool open = probing_.Open(now_);
  for (const std::string& name : probing_.Unheard()) {
    const bool asked = open && probing_.Awaits(name);
    if (asked || nodes_.at(name).member()) probing_.Excuse(name);
  }
  // A round that was not finished has too few reports to prove anything.
  if (open) {
    for (const std::string& name : newcomers) probing_.Forget(name);
  }
  reach_.WorldEnded(now_ + limits_.unreached_delay);
}

// --- Before a world is formed ------------------------------------------------

// A node that has not answered within its round gets no seat until it does.
bool Job::IsSilentProber(const std::string& name) const {
  return probing_.IsSilent(name, now_);
}

size_t Job::Able() const {
  size_t silent = 0;
  for (const std::string& name : probing_.Silent(now_)) {
    silent += nodes_.at(name).session != 0 && !barred_.contains(name);
  }
  return Present() - silent;
}

// Nodes that were not in the latest round would need another one, and could
// delay a world for as long as nodes keep attending. They are taken in
// afterwards, if there are enough nodes without them.
std::vector<Candidate> Job::WithoutLatecomers(
    std::vector<Candidate> candidates) const {
  std::vector<Candidate> early;
  for (const Candidate& candidate : candidates) {
    if (rounds_.Covers(candidate.node, nodes_.at(candidate.node).attended_at)) {
      early.push_back(candidate);
    }
  }
  return early.size() >= nodes_min_ ? early : candidates;
}

// Discards the results of these nodes so that they are probed once more.
// Returns false if that was done often enough, or if there are no results.
bool Job::MayProbeAgain(const std::vector<std::string>& nodes) {
  if (!rounds_.MayRepeat()) return false;
  // While the ranks of a world wait, newcomers that are not needed get only one
  // try.
  if (generation_ > 0 && Able() >= nodes_min_ + nodes.size() &&
      std::all_of(nodes.begin(), nodes.end(), [&](const std::string& name) {
        return nodes_.at(name).served_in == 0;
      })) {
    return false;
  }
  bool probed = false;
  for (const std::string& name : nodes) {
    probed = probed || probing_.Of(name) != nullptr;
    probing_.Forget(name);
  }
  if (!probed) return false;
  rounds_.Repeat(now_);
  return true;
}

void Job::OnProbed(Node& node, const v1::Probed& probed) {
  const std::string& name = node.hello.node();
  const bool late = IsSilentProber(name);
  if (!late && !probing_.Awaits(name)) return;
  probing_.Take(name, probed, now_);
  if (probing_.Awaits(name)) return;
  if (phase_ == Phase::kRunning) {
    if (!probing_.Open(now_)) rounds_.JudgeBy(now_);
    // Others' results about it are outdated.
    if (late && !node.member() && !barred_.contains(name)) {
      reach_.Unreached(name, now_ + limits_.last_call);
    }
  } else if (late) {
    // It may have a seat again, at once if too few others are present. It is
    // probed again, since others may have got no answer from it.
    probing_.Forget(name);
    if (!node.member()) HoldUnreached(name);
    node.reason.clear();
  }
  Changed();
}

// For waiting nodes: why no world is formed. Empty: the reason is not a round
// of probes.
std::string Job::ProbesText() const {
  const std::set<std::string> unheard = probing_.Unheard();
  if (unheard.empty()) return "";
  return absl::StrCat(
      "probing addresses; no answer yet from ",
      NameList({unheard.begin(), unheard.end()}, kProbersNamedMax));
}

}  // namespace rollcall
