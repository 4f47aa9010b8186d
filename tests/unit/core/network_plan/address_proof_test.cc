#include "daemon/core/network_plan/address_proof.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"

namespace rollcall {
namespace {

// The first node has eth0=10.0.0.1 and eth1=10.1.0.1; the others, n1 to n4,
// vote.
struct Row {
  const char* why;
  // The address from which the first node connects.
  const char* observed;
  // As for ReportsOf; empty: no prober was drawn.
  const char* probed;
  const char* proven;
  // n1 and n2 are in the running world.
  bool runs = false;
  bool launcher = false;
  // Another machine has 10.0.0.1 too, and connects from it.
  bool shared = false;
};

TEST(AddressProof, OnlyEvidenceProvesAnAddress) {
  const Row kRows[] = {
      {"no evidence", "10.9.9.9", "", ""},
      {"it connects from there", "10.0.0.1", "", "10.0.0.1"},
      {"so does another machine", "10.0.0.1", "", "", false, false, true},
      {"over half", "", "n1=10.0.0.1,10.1.0.1 n2=10.0.0.1 n3=", "10.0.0.1"},
      {"half is not over half", "", "n1=10.0.0.1 n2=", ""},
      {"one that has not reported is a vote against", "", "n1=10.0.0.1 n2=?",
       ""},
      {"a prober outside of the plan", "", "n8=10.0.0.1 n9=10.0.0.1", ""},
      {"members outvote spares", "",
       "n1=10.0.0.1 n2=10.0.0.1 n3= n4=", "10.0.0.1", true},
      {"spares do not outvote members", "", "n1= n2= n3=10.0.0.1 n4=10.0.0.1",
       "", true},
      {"the launcher's agent without probers", "", "", "10.0.0.1 10.1.0.1",
       false, true},
      {"the launcher's agent with probers", "", "n1=10.1.0.1", "10.1.0.1",
       false, true},
  };
  const v1::Facts target = FactsOf("m0", "eth0=10.0.0.1/24 eth1=10.1.0.1/24");
  const v1::Facts other = FactsOf("m1", "eth0=10.0.0.1/24");
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.why);
    const Reports probed = ReportsOf(row.probed);
    std::vector<PlanNode> nodes = {{"n0", &target, row.observed, row.launcher,
                                    probed.empty() ? nullptr : &probed}};
    for (const char* name : {"n1", "n2", "n3", "n4"}) {
      nodes.push_back({name, &other, row.shared ? "10.0.0.1" : ""});
    }
    nodes[1].stays = nodes[2].stays = row.runs;
    const AddressProof proof(nodes);
    std::vector<std::string> proven;
    for (const UsableAddress& u : UsableAddresses(nodes[0])) {
      if (proof.Proves(nodes[0], u)) proven.push_back(u.address);
    }
    EXPECT_EQ(absl::StrJoin(proven, " "), row.proven);
  }
}

// A node does not probe itself. So if one member is left, all nodes vote.
TEST(AddressProof, TheLastMemberDoesNotVoteAlone) {
  const v1::Facts facts = FactsOf("m0", "eth0=10.0.0.1/24");
  const Reports probed = ReportsOf("n1=10.0.0.1");
  std::vector<PlanNode> nodes = {{"n0", &facts, "", false, &probed},
                                 {"n1", &facts, ""}};
  nodes[0].stays = true;
  EXPECT_TRUE(
      AddressProof(nodes).Proves(nodes[0], UsableAddresses(nodes[0])[0]));
}

}  // namespace
}  // namespace rollcall
