#include "daemon/core/network_plan/newcomer_verdict.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"

namespace rollcall {
namespace {

using Names = std::vector<std::string>;

// The probe results about node n<i>; see ReportsOf. The node's address is
// 10.0.0.<i>.
struct NodeRow {
  const char* probed;
  bool stays = false;
};

NewcomerVerdict Judge(const std::vector<NodeRow>& rows) {
  std::vector<v1::Facts> facts;
  std::vector<Reports> reports;
  for (size_t i = 0; i < rows.size(); ++i) {
    facts.push_back(
        FactsOf(absl::StrCat("m", i), absl::StrCat("e=10.0.0.", i, "/24")));
    reports.push_back(ReportsOf(rows[i].probed));
  }
  std::vector<PlanNode> nodes;
  for (size_t i = 0; i < rows.size(); ++i) {
    nodes.push_back({absl::StrCat("n", i), &facts[i],
                     absl::StrCat("10.0.0.", i), false, &reports[i],
                     rows[i].stays});
  }
  return JudgeNewcomers(std::move(nodes));
}

TEST(NewcomerVerdict, ThoseThatAllMembersReachAndThatReachThemAreReached) {
  struct Row {
    const char* what;
    std::vector<NodeRow> nodes;
    Names reached;
    // With the nodes with which each could not connect.
    std::string unreached;
    Names apart;
  };
  const Row kRows[] = {
      {"no newcomer", {{"n1=", true}, {"n0=", true}}, {}, "", {}},
      {"one",
       {{"n1=10.0.0.0 n2=10.0.0.0", true},
        {"n0=10.0.0.1 n2=10.0.0.1", true},
        {"n0=10.0.0.2 n1=10.0.0.2"}},
       {"n2"},
       "",
       {}},
      {"one of two",
       {{"n1=10.0.0.0 n2=10.0.0.0 n3=", true},
        {"n0=10.0.0.1 n2=10.0.0.1 n3=", true},
        {"n0=10.0.0.2 n1=10.0.0.2 n3=10.0.0.2"},
        {"n0= n1= n2="}},
       {"n2"},
       "n3<n0,n1,n2",
       {}},
      {"members that do not reach each other",
       {{"n1= n2=10.0.0.0 n3=10.0.0.0", true},
        {"n0= n2=10.0.0.1 n3=10.0.0.1", true},
        {"n0=10.0.0.2 n1=10.0.0.2 n3=10.0.0.2"},
        {"n0=10.0.0.3 n1=10.0.0.3 n2=10.0.0.3"}},
       {},
       "n2 n3",
       {"n0"}},
  };
  for (const Row& row : kRows) {
    const NewcomerVerdict verdict = Judge(row.nodes);
    EXPECT_EQ(verdict.reached, row.reached) << row.what;
    Names unreached;
    for (const auto& [node, reason, partners] : verdict.unreached) {
      unreached.push_back(
          partners.empty()
              ? node
              : absl::StrCat(node, "<", absl::StrJoin(partners, ",")));
      EXPECT_TRUE(absl::StrContains(reason, "cannot reach")) << reason;
      EXPECT_EQ(absl::StartsWith(reason, "it waits because nodes of the "),
                !row.apart.empty())
          << reason;
    }
    EXPECT_EQ(absl::StrJoin(unreached, " "), row.unreached) << row.what;
    EXPECT_EQ(verdict.apart, row.apart) << row.what;
  }
}

}  // namespace
}  // namespace rollcall
