#include "daemon/core/failures/quarantine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/unit/core/nodes.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

std::string Names(const std::vector<Node*>& nodes) {
  return absl::StrJoin(nodes, ",", [](std::string* text, const Node* node) {
    *text += node->name();
  });
}

struct Blamed {
  std::string node;
  uint32_t blames = 0;
  bool excluded = false;
  bool quarantined = false;
  bool unfit = false;
};

Membership Of(const std::vector<Blamed>& nodes) {
  Membership membership;
  for (const Blamed& blamed : nodes) {
    Node& node = AddNode(membership, blamed.node);
    node.record.blames = blamed.blames;
    node.exclusion.quarantined = blamed.quarantined;
    node.record.unfit = blamed.unfit;
    if (blamed.excluded) membership.Exclude(node);
  }
  return membership;
}

TEST(Quarantine, TakesBlamedNodesWhileEnoughOthersRemain) {
  const Limits limits;
  ASSERT_EQ(limits.blames_in_a_row, 2u);
  struct {
    const char* what;
    std::vector<Blamed> nodes;
    size_t nodes_min;
    std::string expect;
  } const kRows[] = {
      {"no blame", {{"a"}, {"b"}}, 1, ""},
      {"blamed once", {{"a"}, {"b", 1}}, 1, ""},
      {"blamed twice", {{"a"}, {"b", 2}}, 1, "b"},
      {"blamed more often", {{"a"}, {"b", 5}}, 1, "b"},
      {"no node to spare", {{"a"}, {"b", 2}}, 2, ""},
      {"fewer than that", {{"a"}, {"b", 2}}, 3, ""},
      {"one to spare of two", {{"a", 2}, {"b", 3}, {"c"}}, 2, "a"},
      {"two to spare", {{"a", 2}, {"b", 3}, {"c"}}, 1, "a,b"},
      {"excluded for another reason",
       {{"a", 2, true}, {"b", 2}, {"c"}},
       1,
       "b"},
      {"excluded nodes do not remain", {{"a", 0, true}, {"b", 2}}, 1, ""},
  };
  for (const auto& row : kRows) {
    Membership membership = Of(row.nodes);
    Quarantine quarantine;
    EXPECT_EQ(Names(quarantine.ToQuarantine(membership, row.nodes_min, limits)),
              "")
        << row.what;
    quarantine.NoteBlame();
    EXPECT_EQ(Names(quarantine.ToQuarantine(membership, row.nodes_min, limits)),
              row.expect)
        << row.what;
  }
}

TEST(Quarantine, NodesThatCouldNotBeSparedAreTakenOnceOthersAttend) {
  const Limits limits;
  Membership membership = Of({{"a", 2}, {"b", 2}});
  Quarantine quarantine;
  quarantine.NoteBlame();
  EXPECT_EQ(Names(quarantine.ToQuarantine(membership, 2, limits)), "");
  AddNode(membership, "c");
  EXPECT_EQ(Names(quarantine.ToQuarantine(membership, 2, limits)), "a");
  membership.Exclude(membership.At("a"));
  AddNode(membership, "d");
  EXPECT_EQ(Names(quarantine.ToQuarantine(membership, 2, limits)), "b");
  // Once all have been judged, no node is quarantined for its earlier blames
  // alone.
  AddNode(membership, "e");
  EXPECT_EQ(Names(quarantine.ToQuarantine(membership, 2, limits)), "");
}

TEST(Quarantine, ReleasesNoMoreThanAreMissing) {
  struct {
    const char* what;
    std::vector<Blamed> nodes;  // "l": it has been asked to leave.
    size_t missing;
    std::string expect;
  } const kRows[] = {
      {"enough", {{"a"}, {"b", 2, true, true}}, 0, ""},
      {"one is missing", {{"a"}, {"b", 2, true, true}}, 1, "b"},
      {"the one with fewer blames",
       {{"a"}, {"b", 3, true, true}, {"c", 2, true, true}},
       1,
       "c"},
      {"with as many: by name",
       {{"a"}, {"c", 2, true, true}, {"b", 2, true, true}},
       1,
       "b"},
      {"two are missing",
       {{"a"}, {"b", 3, true, true}, {"c", 2, true, true}},
       2,
       "c,b"},
      {"more than there are", {{"a"}, {"b", 3, true, true}}, 9, "b"},
      {"its checks have failed", {{"a"}, {"b", 2, true, true, true}}, 1, ""},
      {"excluded for another reason", {{"a"}, {"b", 2, true, false}}, 1, ""},
      {"asked to leave", {{"a"}, {"l", 2, true, true}}, 1, ""},
  };
  for (const auto& row : kRows) {
    Membership membership = Of(row.nodes);
    EXPECT_EQ(Names(Quarantine::ToRelease(
                  membership, row.missing,
                  [](const Node& node) { return node.name() == "l"; })),
              row.expect)
        << row.what;
  }
}

TEST(Quarantine, AResultCountsOnceAndForTheLatestRequest) {
  const Limits limits;
  Membership membership = Of({{"a"}, {"b"}});
  Node& a = membership.At("a");
  Quarantine quarantine;
  EXPECT_FALSE(quarantine.TakeResult(a, 0));
  const uint64_t first = quarantine.Ask(a, At(1), limits);
  const uint64_t second = quarantine.Ask(a, At(2), limits);
  EXPECT_NE(first, second);
  EXPECT_NE(quarantine.Ask(membership.At("b"), At(2), limits), second);
  EXPECT_EQ(quarantine.checking(), 2u);
  EXPECT_FALSE(quarantine.TakeResult(a, first));
  EXPECT_TRUE(quarantine.TakeResult(a, second));
  EXPECT_FALSE(quarantine.TakeResult(a, second));
  EXPECT_EQ(quarantine.checking(), 1u);
}

TEST(Quarantine, ResultsAreWaitedForUntilEachCheckTimesOut) {
  const Limits limits;
  Membership membership = Of({{"a"}, {"b"}});
  Quarantine quarantine;
  EXPECT_EQ(quarantine.PendingUntil(membership, At(0)), absl::InfinitePast());
  quarantine.Ask(membership.At("a"), At(1), limits);
  quarantine.Ask(membership.At("b"), At(2), limits);
  const absl::Duration timeout = limits.check_timeout;
  struct {
    absl::Time now;
    absl::Time until;
  } const kRows[] = {
      {At(2), At(1) + timeout},
      {At(1) + timeout, At(2) + timeout},
      {At(2) + timeout, absl::InfinitePast()},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(quarantine.PendingUntil(membership, row.now), row.until)
        << row.now;
  }
  // Node a has left.
  quarantine.Forget(membership.At("a"));
  EXPECT_EQ(quarantine.PendingUntil(membership, At(2)), At(2) + timeout);
  EXPECT_EQ(quarantine.checking(), 1u);
  quarantine.Clear();
  EXPECT_EQ(quarantine.PendingUntil(membership, At(2)), absl::InfinitePast());
  EXPECT_EQ(quarantine.checking(), 0u);
}

}  // namespace
}  // namespace rollcall
