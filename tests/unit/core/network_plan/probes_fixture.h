// Nodes that probe each other, for tests of Probes.
#ifndef ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_PROBES_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_PROBES_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/probes.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {

// Nodes a, b, c and d on machines of their own, each with one address. A round
// takes two seconds; a node that was not reached waits for 30.
class ProbesTest : public testing::Test {
 protected:
  ProbesTest() { Begin(); }

  static absl::Time At(double seconds) {
    return absl::UnixEpoch() + absl::Seconds(seconds);
  }
  // Stands for the draw that a daemon makes with its secret.
  static std::string Draw(uint64_t round, const std::string& word) {
    std::string secret =
        absl::StrCat(round, "/", std::hash<std::string>()(word));
    secret.resize(Limits::probe_bytes, 'x');
    return secret;
  }

  // `members`: how many of the nodes are members of the running world.
  void Begin(int members = 0) {
    membership_ = Membership();
    probes_ = Probes();
    probes_.UseKey(Draw);
    for (int i = 0; i < 4; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      Node& node = AddMember(membership_, name, i < members ? i : -1);
      node.attended_at = At(0);
      v1::Facts& facts = *node.hello.mutable_facts();
      facts = FactsOf(name, absl::StrCat("eth0=10.0.0.", i + 1, "/24"));
      facts.set_probe_port(40000);
    }
  }
  // "abc": a node for each letter.
  std::vector<PlanNode> Plan(const std::string& names) const {
    std::vector<PlanNode> nodes;
    for (const char letter : names) {
      const std::string name(1, letter);
      nodes.push_back({name, &membership_.At(name).hello.facts(), ""});
    }
    return nodes;
  }
  Probes::Round Open(const std::string& names, double at,
                     Probing::Pairs which = Probing::Pairs::kUnknown,
                     bool gathering = true) {
    Probes::Round round = probes_.Open(Plan(names), which, gathering,
                                       membership_, At(at), limits_);
    for (const auto& [name, probe] : round.asked) asked_[name] = probe;
    return round;
  }
  // The node answers; the contents of its report do not matter.
  bool Answer(const std::string& name, double at, bool running = false) {
    v1::Probed probed;
    probed.set_probe(asked_[name].probe());
    return probes_.Take(membership_.At(name), probed, running, membership_,
                        At(at), limits_);
  }
  // Runs a round of all pairs in which all nodes report.
  void ProbeAll(const std::string& names, double at) {
    Open(names, at, Probing::Pairs::kAll, false);
    for (const char letter : names) Answer(std::string(1, letter), at);
  }
  // Whether a result of `prober` about `target` is known.
  bool Knows(const std::string& prober, const std::string& target) const {
    const auto* reports = probes_.Of(target);
    return reports != nullptr && reports->contains(prober);
  }

  Limits limits_;
  Membership membership_;
  Probes probes_;
  std::map<std::string, v1::Probe> asked_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_PROBES_FIXTURE_H_
