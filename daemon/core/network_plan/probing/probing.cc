#include "daemon/core/network_plan/probing/probing.h"

#include <algorithm>
#include <bit>

#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// The time that each node adds to a round of a large job: two processors handle
// about 1,000 Probes and reports a second.
constexpr absl::Duration kReportTime = absl::Milliseconds(1);
// While reports still arrive, a round of a large job may last at most this many
// times its normal time.
constexpr int kLongerMax = 5;

// Pseudorandom numbers from a seed that cannot be guessed outside the daemon:
// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", 2014).
class Numbers {
 public:
  explicit Numbers(const std::string& seed) {
    for (size_t i = 0; i < seed.size() && i < sizeof(state_); ++i) {
      state_ = state_ << 8 | static_cast<unsigned char>(seed[i]);
    }
  }
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_ = 0;
};

// Adds both directions between `i` and its two neighbours, and between `i` and
// log2 N nodes drawn at random.
void DrawPartners(size_t i, size_t count, Numbers& numbers,
                  std::set<std::pair<size_t, size_t>>& pairs) {
  const auto add = [&](size_t j) {
    if (i == j) return;
    pairs.emplace(i, j);
    pairs.emplace(j, i);
  };
  add((i + 1) % count);
  add((i + count - 1) % count);
  for (int n = std::bit_width(count); n > 0; --n) add(numbers.Next() % count);
}

}  // namespace

std::string AnswerAt(const v1::Probe& probe, const std::string& address) {
  for (const v1::ProbeAnswer& each : probe.answers()) {
    if (each.address() == address) return each.answer();
  }
  return "";
}

absl::Duration Probing::RoundTime(absl::Duration timeout, size_t nodes) {
  if (nodes <= Limits::probe_all_pairs_max) return timeout;
  return timeout + static_cast<int64_t>(nodes) * kReportTime;
}

bool Probing::Knows(const ProbeNode& prober, const ProbeNode& target) const {
  const auto at = targets_.find(target.node);
  if (at == targets_.end() || at->second.incarnation != target.incarnation) {
    return false;
  }
  const auto by = at->second.by.find(prober.node);
  return by != at->second.by.end() &&
         by->second.incarnation == prober.incarnation;
}

// True if the probers that are left are at least half as many as DrawPartners
// draws. Probers leave, and the reports of very few prove nothing.
bool Probing::Knows(const ProbeNode& node, size_t count) const {
  const auto at = targets_.find(node.node);
  return at != targets_.end() && at->second.incarnation == node.incarnation &&
         2 * at->second.by.size() >= static_cast<size_t>(std::bit_width(count));
}

// The pairs of the next round. `draw` may be null if only their number is
// needed.
std::set<Probing::Pair> Probing::PairsOf(const std::vector<ProbeNode>& nodes,
                                         const Draw* draw, Pairs which) const {
  const bool again = which == Pairs::kAll;
  std::vector<size_t> able;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].port != 0 && !nodes[i].addresses.empty()) able.push_back(i);
  }
  std::set<Pair> pairs;
  if (able.size() < 2) return pairs;
  if (able.size() <= Limits::probe_all_pairs_max) {
    for (const size_t prober : able) {
      for (const size_t target : able) {
        if (prober != target &&
            (again || !Knows(nodes[prober], nodes[target]))) {
          pairs.emplace(prober, target);
        }
      }
    }
    return pairs;
  }
  Numbers numbers(draw == nullptr ? "" : (*draw)(round_ + 1, "partners"));
  std::set<Pair> places;
  for (size_t i = 0; i < able.size(); ++i) {
    if (!Knows(nodes[able[i]], able.size())) {
      DrawPartners(i, able.size(), numbers, places);
    }
  }
  for (const auto& [prober, target] : places) {
    pairs.emplace(able[prober], able[target]);
  }
  if (!again) return pairs;
  std::map<std::string, size_t> place_of;
  for (const size_t i : able) place_of[nodes[i].node] = i;
  for (const size_t target : able) {
    const auto known = targets_.find(nodes[target].node);
    if (known == targets_.end() ||
        known->second.incarnation != nodes[target].incarnation) {
      continue;
    }
    for (const auto& [name, report] : known->second.by) {
      const auto prober = place_of.find(name);
      if (prober != place_of.end()) pairs.emplace(prober->second, target);
    }
  }
  return pairs;
}

bool Probing::Needed(const std::vector<ProbeNode>& nodes) const {
  return !PairsOf(nodes, nullptr, Pairs::kUnknown).empty();
}

void Probing::ForgetOthers(const std::vector<ProbeNode>& nodes) {
  std::map<std::string, uint64_t> incarnations;
  for (const ProbeNode& node : nodes)
    incarnations[node.node] = node.incarnation;
  const auto gone = [&](const std::string& node, uint64_t incarnation) {
    const auto at = incarnations.find(node);
    return at == incarnations.end() || at->second != incarnation;
  };
  std::erase_if(targets_, [&](const auto& entry) {
    return gone(entry.first, entry.second.incarnation);
  });
  drawn_.clear();
  for (auto& [name, target] : targets_) {
    std::erase_if(target.by, [&](const auto& entry) {
      return gone(entry.first, entry.second.incarnation);
    });
    for (const auto& [prober, report] : target.by) drawn_[prober].insert(name);
  }
}

std::vector<std::pair<std::string, v1::Probe>> Probing::Begin(
    const std::vector<ProbeNode>& nodes, const Draw& draw, absl::Time now,
    absl::Duration timeout, Pairs which) {
  ForgetOthers(nodes);
  const std::set<Pair> pairs = PairsOf(nodes, &draw, which);
  ++round_;
  for (const auto& [name, targets] : unanswered_) silent_.insert(name);
  unanswered_.clear();
  begun_ = now;
  const absl::Duration time = RoundTime(timeout, nodes.size());
  until_ = now + time;
  longest_until_ = time > timeout ? now + kLongerMax * time : until_;
  timeout_ = timeout;
  std::map<size_t, v1::Probe> probes;
  for (const auto& [prober, target] : pairs) {
    const ProbeNode& of = nodes[target];
    if (static_cast<size_t>(probes[prober].targets_size()) >=
        Limits::probe_targets_max) {
      continue;
    }
    v1::ProbeTarget& asked = *probes[prober].add_targets();
    asked.set_node(of.node);
    asked.set_port(of.port);
    Target& known = targets_[of.node];
    if (known.round != round_) {
      known.round = round_;
      known.incarnation = of.incarnation;
      known.translated = of.translated;
      known.answers.clear();
      for (const std::string& address : of.addresses) {
        if (known.answers.size() == Limits::probe_addresses_max) break;
        known.answers[address] =
            draw(round_, "answer of " + of.node + " at " + address);
      }
    }
    for (const std::string& address : of.addresses) {
      if (asked.addresses_size() ==
          static_cast<int>(Limits::probe_addresses_max)) {
        break;
      }
      asked.add_addresses(address);
    }
    known.by[nodes[prober].node].incarnation = nodes[prober].incarnation;
    drawn_[nodes[prober].node].insert(of.node);
    // A target gets a Probe even if it probes no other node, because it must
    // know its answers.
    probes[target];
  }
  std::vector<std::pair<std::string, v1::Probe>> asked;
  const std::string ask = draw(round_, "ask");
  for (auto& [place, probe] : probes) {
    const std::string& name = nodes[place].node;
    probe.set_probe(round_);
    probe.set_ask(ask);
    const auto known = targets_.find(name);
    if (known != targets_.end()) {
      for (const auto& [address, answer] : known->second.answers) {
        v1::ProbeAnswer& given = *probe.add_answers();
        given.set_address(address);
        given.set_answer(answer);
      }
    }
    ToProto(timeout, probe.mutable_timeout());
    for (const v1::ProbeTarget& target : probe.targets()) {
      unanswered_[name].push_back(target.node());
    }
    if (probe.targets_size() > 0) silent_.erase(name);
    asked.emplace_back(name, std::move(probe));
  }
  return asked;
}

void Probing::Take(const std::string& node, const v1::Probed& probed,
                   absl::Time now) {
  silent_.erase(node);
  const auto waited = unanswered_.find(node);
  if (probed.probe() != round_ || waited == unanswered_.end()) return;
  // A report after the round's end counts too, because the daemon may have been
  // busy.
  if (now < longest_until_) {
    until_ = std::min(std::max(until_, now + timeout_), longest_until_);
  }
  for (const std::string& name : waited->second) {
    const auto at = targets_.find(name);
    if (at == targets_.end()) continue;
    const auto by = at->second.by.find(node);
    if (by == at->second.by.end()) continue;
    by->second.answered = true;
    by->second.at = begun_;
    by->second.found.clear();
  }
  unanswered_.erase(waited);
  for (const v1::ProbeResult& result : probed.results()) {
    const auto at = targets_.find(result.node());
    if (at == targets_.end() || at->second.round != round_) continue;
    Target& target = at->second;
    const auto by = target.by.find(node);
    const auto expected = target.answers.find(result.address());
    if (by == target.by.end() || expected == target.answers.end()) continue;
    ProbeFinding& found = by->second.found[result.address()];
    found.reached = result.answer() == expected->second;
    if (!found.reached && result.address() == target.translated) {
      found.reached = std::any_of(
          target.answers.begin(), target.answers.end(),
          [&](const auto& other) { return result.answer() == other.second; });
    }
    if (found.reached && result.has_round_trip()) {
      found.round_trip = FromProto(result.round_trip());
    }
    found.error =
        result.error().empty() && !found.reached && !result.answer().empty()
            ? "something else answers there"
            : Printable(result.error(), Limits::probe_error_bytes_max);
  }
}

void Probing::Forget(const std::string& node) {
  unanswered_.erase(node);
  silent_.erase(node);
  targets_.erase(node);
  const auto drawn = drawn_.find(node);
  if (drawn == drawn_.end()) return;
  for (const std::string& name : drawn->second) {
    const auto at = targets_.find(name);
    if (at != targets_.end()) at->second.by.erase(node);
  }
  drawn_.erase(drawn);
}

void Probing::Clear() {
  targets_.clear();
  drawn_.clear();
  unanswered_.clear();
  silent_.clear();
}

std::set<std::string> Probing::Unheard() const {
  std::set<std::string> unheard = silent_;
  for (const auto& [name, targets] : unanswered_) unheard.insert(name);
  return unheard;
}

void Probing::Excuse(const std::string& node) {
  silent_.erase(node);
  const auto waited = unanswered_.find(node);
  if (waited == unanswered_.end()) return;
  for (const std::string& name : waited->second) {
    const auto at = targets_.find(name);
    if (at == targets_.end()) continue;
    const auto by = at->second.by.find(node);
    if (by != at->second.by.end() && !by->second.answered) {
      at->second.by.erase(by);
    }
  }
  unanswered_.erase(waited);
}

const std::map<std::string, ProbeReport>* Probing::Of(
    const std::string& node) const {
  const auto at = targets_.find(node);
  return at == targets_.end() || at->second.by.empty() ? nullptr
                                                       : &at->second.by;
}

}  // namespace rollcall
