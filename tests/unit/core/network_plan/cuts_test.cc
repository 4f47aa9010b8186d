#include "daemon/core/network_plan/cuts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// Nodes a to e. "ab" in `cuts`: a cannot reach b.
struct Row {
  const char* cuts;
  const char* launcher;
  const char* stay;
  const char* without;
};

TEST(Cuts, FewNodesAreLeftOut) {
  const Row kRows[] = {
      {"", "", "", ""},
      // Of a single cut, the prober is excluded.
      {"ab", "", "", "a"},
      // If both directions are cut, the first of the two nodes is excluded.
      {"ab ba", "", "", "a"},
      // The node with the most cuts is excluded; their direction does not
      // matter.
      {"ab cb db", "", "", "b"},
      {"ba bc bd", "", "", "b"},
      {"ab cb db ed", "", "", "b e"},
      // The two cut pairs share no node.
      {"ab cd", "", "", "a c"},
      // The running world is preferred to a newcomer, however many cuts a
      // member has.
      {"ab ac ad", "", "a", "b c d"},
      {"ab ac", "", "abc", "a"},
      // The launcher's agent is preferred to the running world.
      {"ab ac", "a", "bc", "b c"},
      {"ab", "a", "a", "b"},
  };
  const std::string names = "abcde";
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.cuts);
    std::vector<PlanNode> nodes;
    for (const char name : names) {
      PlanNode& node = nodes.emplace_back();
      node.node = std::string(1, name);
      node.launcher = node.node == row.launcher;
      node.stays = std::string(row.stay).find(name) != std::string::npos;
    }
    std::vector<Cut> cuts;
    const std::vector<std::string> pairs =
        absl::StrSplit(row.cuts, ' ', absl::SkipEmpty());
    for (const std::string& pair : pairs) {
      cuts.push_back({names.find(pair[0]), names.find(pair[1])});
    }
    EXPECT_EQ(absl::StrJoin(WithoutCuts(nodes, cuts), " "), row.without);
  }
}

}  // namespace
}  // namespace rollcall
