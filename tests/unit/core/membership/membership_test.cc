#include "daemon/core/membership/membership.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/small_world.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Names = std::vector<std::string>;
using Sessions = std::vector<SessionId>;

// `session`: 0 for a node without a stream.
Node& Put(Membership& membership, const std::string& name,
          SessionId session = 0) {
  Node& node = membership.Add(name);
  node.hello.set_node(name);
  node.hello.set_incarnation(1);
  if (session != 0) membership.Connect(node, session);
  return node;
}

TEST(Node, ARankIsOverIfItExitedOrIsNotStarted) {
  struct {
    const char* name;
    uint32_t started;
    std::set<uint32_t> done;
    int node_rank;
    bool over[2];
    bool finished;
    bool ended;
  } const kRows[] = {
      {"both run", 2, {}, 0, {false, false}, false, false},
      {"one has exited", 2, {1}, 0, {false, true}, false, false},
      {"both have", 2, {0, 1}, 0, {true, true}, true, true},
      {"one is started", 1, {}, 0, {false, true}, false, false},
      {"it has exited", 1, {0}, 0, {true, true}, true, true},
      {"none is started", 0, {}, 0, {true, true}, false, true},
      {"not a member", 0, {}, -1, {true, true}, false, false},
      {"not a member any more", 2, {0, 1}, -1, {true, true}, true, false},
  };
  for (const auto& row : kRows) {
    Node node;
    node.ranks.started = row.started;
    node.ranks.done = row.done;
    node.node_rank = row.node_rank;
    EXPECT_EQ(node.over(0), row.over[0]) << row.name;
    EXPECT_EQ(node.over(1), row.over[1]) << row.name;
    EXPECT_EQ(node.finished(), row.finished) << row.name;
    EXPECT_EQ(node.ended(), row.ended) << row.name;
    EXPECT_EQ(node.member(), row.node_rank >= 0) << row.name;
  }
}

TEST(Node, IsRestoredUntilItsAgentComesBack) {
  Membership membership;
  Node& node = membership.Add("a");
  EXPECT_TRUE(node.restored());
  Put(membership, "a");
  EXPECT_FALSE(node.restored());
}

TEST(Membership, KnowsANodeByName) {
  Membership membership;
  EXPECT_EQ(membership.Find("a"), nullptr);
  EXPECT_FALSE(membership.Has("a"));
  Node& a = Put(membership, "a");
  EXPECT_EQ(&membership.Add("a"), &a);
  EXPECT_EQ(membership.Find("a"), &a);
  EXPECT_EQ(&membership.At("a"), &a);
  EXPECT_TRUE(membership.Has("a"));
  membership.Remove(a);
  EXPECT_EQ(membership.Find("a"), &a);
  EXPECT_FALSE(membership.Has("a"));
  membership.Clear();
  EXPECT_EQ(membership.Find("a"), nullptr);
}

TEST(Membership, AStreamIsOfOneNode) {
  Membership membership;
  Node& a = Put(membership, "a", 7);
  Put(membership, "b", 5);
  Put(membership, "c");
  EXPECT_EQ(a.session, 7u);
  EXPECT_TRUE(membership.Attends(7));
  EXPECT_EQ(membership.OfStream(7), &a);
  EXPECT_EQ(membership.OfStream(9), nullptr);
  EXPECT_EQ(membership.Streams(), (Sessions{5, 7}));
  EXPECT_EQ(membership.attached(), 2u);
  membership.Disconnect(a);
  EXPECT_EQ(a.session, 0u);
  EXPECT_FALSE(membership.Attends(7));
  EXPECT_EQ(membership.OfStream(7), nullptr);
  EXPECT_EQ(membership.attached(), 1u);
  membership.Connect(a, 8);
  EXPECT_EQ(membership.OfStream(8), &a);
  membership.CheckInvariants(/*all=*/true, /*seats=*/1);
}

TEST(Membership, ASuspectMayComeBack) {
  Membership membership;
  Node& a = Put(membership, "a", 1);
  Put(membership, "b", 2);
  EXPECT_EQ(membership.attached(), 2u);
  membership.Disconnect(a);
  membership.Suspect(a);
  EXPECT_TRUE(membership.IsSuspect("a"));
  EXPECT_FALSE(membership.IsSuspect("b"));
  EXPECT_EQ(membership.suspects(), 1u);
  EXPECT_EQ(membership.attached(), 2u);
  EXPECT_EQ(membership.present(), 1u);
  EXPECT_FALSE(membership.HasSeatedSuspect());
  a.seat = 0;
  EXPECT_TRUE(membership.HasSeatedSuspect());
  membership.Suspect(Put(membership, "c"));
  membership.Connect(a, 3);
  EXPECT_FALSE(membership.IsSuspect("a"));
  EXPECT_TRUE(membership.IsSuspect("c"));
  EXPECT_FALSE(membership.HasSeatedSuspect());
  EXPECT_EQ(membership.attached(), 3u);
}

TEST(Membership, OnlyANodeWithAStreamIsExcluded) {
  enum { kNothing, kReadmitted, kStreamEnds, kComesBack, kRemoved };
  struct {
    const char* name;
    bool stream;
    int after;
    bool excluded;
    bool eligible;
    size_t present;  // One other node is present.
  } const kRows[] = {
      {"excluded", true, kNothing, true, false, 1},
      {"without a stream", false, kNothing, false, false, 1},
      {"readmitted", true, kReadmitted, false, true, 2},
      {"its stream ends", true, kStreamEnds, false, false, 1},
      {"it comes back", true, kComesBack, false, true, 2},
      {"it is gone", true, kRemoved, false, false, 1},
  };
  for (const auto& row : kRows) {
    Membership membership;
    Put(membership, "b", 2);
    Node& a = Put(membership, "a", row.stream ? 1 : 0);
    EXPECT_EQ(membership.IsEligible(a), row.stream) << row.name;
    a.exclusion.late = true;
    membership.Exclude(a);
    if (row.after == kReadmitted) {
      EXPECT_TRUE(membership.Readmit("a"));
      EXPECT_FALSE(membership.Readmit("a"));
    }
    const bool ends = row.after == kStreamEnds || row.after == kComesBack;
    if (ends) {
      membership.Disconnect(a);
      EXPECT_FALSE(a.exclusion.late);
    }
    if (row.after == kComesBack) membership.Connect(a, 3);
    if (row.after == kRemoved) membership.Remove(a);
    EXPECT_EQ(membership.IsExcluded(a), row.excluded) << row.name;
    EXPECT_EQ(membership.excluded().contains("a"), row.excluded) << row.name;
    EXPECT_EQ(membership.IsEligible(a), row.eligible) << row.name;
    EXPECT_EQ(membership.present(), row.present) << row.name;
    EXPECT_TRUE(membership.IsEligible(membership.At("b"))) << row.name;
    membership.CheckInvariants(/*all=*/true, /*seats=*/1);
  }
}

TEST(Membership, TheEarliestDeadlineComesFirst) {
  Membership membership;
  Node& a = Put(membership, "a", 1);
  Node& b = Put(membership, "b", 2);
  EXPECT_EQ(membership.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(membership.Overdue(At(1000)), nullptr);
  membership.SetDeadline(a, At(10));
  membership.SetDeadline(b, At(8));
  EXPECT_EQ(membership.NextDeadline(), At(8));
  EXPECT_EQ(membership.Overdue(At(7.9)), nullptr);
  EXPECT_EQ(membership.Overdue(At(8)), &b);
  EXPECT_EQ(membership.Overdue(At(20)), &b);
  // A node has one deadline, so the new one replaces the old.
  membership.SetDeadline(b, At(12));
  EXPECT_EQ(b.lease.deadline, At(12));
  EXPECT_EQ(membership.NextDeadline(), At(10));
  membership.SetDeadline(a, absl::InfiniteFuture());
  EXPECT_EQ(a.lease.deadline, absl::InfiniteFuture());
  EXPECT_EQ(membership.NextDeadline(), At(12));
  membership.EndDeadlines();
  EXPECT_EQ(membership.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(b.lease.deadline, absl::InfiniteFuture());
  membership.SetDeadline(b, At(13));
  EXPECT_EQ(membership.Overdue(At(13)), &b);
}

TEST(Membership, ADelayOfTheDaemonPutsAllLeasesOff) {
  Membership membership;
  Node& a = Put(membership, "a", 1);
  Node& b = Put(membership, "b", 2);
  Node& without = Put(membership, "c", 3);
  membership.SetDeadline(a, At(10));
  a.lease.until = At(14);
  membership.SetDeadline(b, At(11));
  b.lease.until = At(11);
  without.lease.until = At(9);
  // All deadlines move by the same time.
  membership.PutOff(absl::Seconds(1));
  EXPECT_EQ(a.lease.deadline, At(11));
  EXPECT_EQ(a.lease.until, At(15));
  EXPECT_EQ(b.lease.deadline, At(12));
  EXPECT_EQ(b.lease.until, At(12));
  EXPECT_EQ(without.lease.deadline, absl::InfiniteFuture());
  EXPECT_EQ(without.lease.until, At(9));
  EXPECT_EQ(membership.Overdue(At(10.9)), nullptr);
  EXPECT_EQ(membership.Overdue(At(11)), &a);
}

TEST(Membership, ANodeThatIsGoneKeepsItsNameAlone) {
  Membership membership;
  Node& a = Put(membership, "a", 1);
  a.hello.mutable_facts()->set_hostname("host");
  a.seat = 2;
  a.node_rank = 1;
  a.reason = "its lease ended";
  membership.SetDeadline(a, At(10));
  EXPECT_TRUE(membership.Remove(a).empty());
  EXPECT_TRUE(a.gone);
  EXPECT_EQ(a.name(), "a");
  EXPECT_EQ(a.reason, "its lease ended");
  EXPECT_FALSE(a.hello.has_facts());
  EXPECT_EQ(a.seat, -1);
  EXPECT_FALSE(a.member());
  EXPECT_EQ(a.session, 0u);
  EXPECT_FALSE(membership.Attends(1));
  EXPECT_EQ(membership.NextDeadline(), absl::InfiniteFuture());
  // Node b had lost its stream before.
  Node& b = Put(membership, "b", 2);
  membership.Disconnect(b);
  membership.Suspect(b);
  membership.Remove(b);
  EXPECT_EQ(membership.suspects(), 0u);
  EXPECT_EQ(membership.attached(), 0u);
}

TEST(Membership, TheOldestNameIsForgottenFirst) {
  Membership membership;
  const auto leaves = [&](const std::string& name) {
    return membership.Remove(Put(membership, name));
  };
  const auto returns = [&](const std::string& name) {
    membership.Add(name) = Node();
    Put(membership, name, 1);
  };
  for (size_t i = 0; i < Limits::lost_names_max; ++i) {
    EXPECT_TRUE(leaves(absl::StrCat("n", i)).empty()) << i;
  }
  EXPECT_EQ(leaves("x"), Names{"n0"});
  EXPECT_EQ(membership.Find("n0"), nullptr);
  EXPECT_NE(membership.Find("n1"), nullptr);
  // A node that has come back is not forgotten.
  returns("n1");
  EXPECT_TRUE(leaves("y").empty());
  EXPECT_TRUE(membership.Has("n1"));
  EXPECT_EQ(leaves("z"), Names{"n2"});
  EXPECT_EQ(membership.nodes().size(), Limits::lost_names_max + 1);
  membership.CheckInvariants(/*all=*/true, /*seats=*/1);
}

TEST(Membership, MembersAreInTheOrderOfTheWorld) {
  const v1::World world = WorldOf(7, {"c", "a", "d", "b"});
  Membership membership;
  Put(membership, "c", 9).node_rank = 0;
  Put(membership, "a", 3).node_rank = 1;
  Put(membership, "d").node_rank = 2;  // It has no stream.
  Put(membership, "b", 4);             // It is no longer a member.
  Put(membership, "z", 1).node_rank = 0;
  Names names;
  for (const Node* node : membership.MembersOf(world)) {
    names.push_back(node->name());
  }
  EXPECT_EQ(names, (Names{"c", "a", "d"}));
  const Membership& unchanged = membership;
  EXPECT_EQ(unchanged.MembersOf(world).size(), 3u);
  EXPECT_EQ(membership.StreamsOf(world), (Sessions{9, 3}));
  EXPECT_EQ(membership.streams().at(3), "a");
}

TEST(Membership, MembersAreAwayIfNoneHasAStream) {
  Membership membership;
  EXPECT_TRUE(membership.AllMembersAreAway());
  Put(membership, "a", 1);
  Put(membership, "b").node_rank = 0;
  EXPECT_TRUE(membership.AllMembersAreAway());
  membership.Connect(membership.At("b"), 2);
  EXPECT_FALSE(membership.AllMembersAreAway());
}

TEST(Membership, NamesAsManyNodesAsAreMissing) {
  struct {
    const char* name;
    uint32_t nodes_max;
    Names expected;
    Names missing;
  } const kRows[] = {
      // Of the nodes below, a and e are present.
      {"none is missing", 2, {"x"}, {}},
      {"fewer than are present", 1, {"x"}, {}},
      {"lost and suspect nodes", 9, {}, {"c", "d"}},
      {"expected ones come first", 9, {"x", "d"}, {"x", "d", "c"}},
      {"each name once", 9, {"x", "x", "c"}, {"x", "c", "d"}},
      {"nodes that attend are not missing", 9, {"a", "b"}, {"c", "d"}},
      {"one is missing", 3, {"x", "y"}, {"x"}},
      {"one of two that were lost", 3, {}, {"c"}},
      {"a node that has left", 9, {"f"}, {"f", "c", "d"}},
  };
  for (const auto& row : kRows) {
    Membership membership;
    Put(membership, "a", 1);
    membership.Exclude(Put(membership, "b", 2));
    Put(membership, "c").state = v1::NODE_STATE_LOST;
    membership.Remove(membership.At("c"));
    Put(membership, "d").state = v1::NODE_STATE_SUSPECT;
    Put(membership, "e", 3);
    Put(membership, "f").state = v1::NODE_STATE_DRAINING;
    v1::JobSettings settings;
    settings.set_nodes_max(row.nodes_max);
    for (const std::string& name : row.expected) {
      settings.add_expected_nodes(name);
    }
    EXPECT_EQ(membership.Missing(settings), row.missing) << row.name;
  }
}

}  // namespace
}  // namespace rollcall
