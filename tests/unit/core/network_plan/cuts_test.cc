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
      // The prober of a single cut.
      {"ab", "", "", "a"},
      // In both directions: the first of the two.
      {"ab ba", "", "", "a"},
      // The node with most cuts, whichever direction they have.
      {"ab cb db", "", "", "b"},
      {"ba bc bd", "", "", "b"},
      {"ab cb db ed", "", "", "b e"},
      // Two pairs that share no node.
      {"ab cd", "", "", "a c"},
      // The running world comes before a newcomer, however many cuts it has.
      {"ab ac ad", "", "a", "b c d"},
      {"ab ac", "", "abc", "a"},
      // The launcher's agent comes before the running world.
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
