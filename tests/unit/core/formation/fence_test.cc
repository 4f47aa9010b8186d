#include "daemon/core/formation/fence.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/core/nodes.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// The daemon last heard from a at 10 and from b at 12. The fence opens 100 s
// after it last heard from one of them.
Fence OfTwo() { return Fence(3, {{"a", 11, At(10)}, {"b", 22, At(12)}}); }

TEST(Fence, OpensWithAMemberThatIsGoneOrWithTime) {
  struct {
    const char* name;
    std::function<void(Fence&)> event;
    absl::Time opens;
  } const kRows[] = {
      {"nothing is known", [](Fence&) {}, At(110)},
      {"a member is gone",
       [](Fence& f) {
         f.Gone(NodeIncarnation{"a", 11});
       },
       absl::InfinitePast()},
      {"another life of its node",
       [](Fence& f) {
         f.Gone(NodeIncarnation{"a", 12});
       },
       At(110)},
      {"another node",
       [](Fence& f) {
         f.Gone(NodeIncarnation{"c", 11});
       },
       At(110)},
      {"whatever life of the node", [](Fence& f) { f.Gone("b"); },
       absl::InfinitePast()},
      {"a node that was no member", [](Fence& f) { f.Gone("c"); }, At(110)},
      {"the agent goes on by a new number",
       [](Fence& f) {
         f.GoesOn({"a", 11}, 12);
         f.Gone(NodeIncarnation{"a", 12});
       },
       absl::InfinitePast()},
      {"another agent with a new number",
       [](Fence& f) {
         f.GoesOn({"a", 99}, 12);
         f.Gone(NodeIncarnation{"a", 12});
       },
       At(110)},
  };
  for (const auto& row : kRows) {
    Fence fence = OfTwo();
    row.event(fence);
    EXPECT_EQ(fence.Opens(absl::Seconds(100)), row.opens) << row.name;
  }
}

TEST(Fence, HasTheLivesOfItsMembers) {
  Fence fence = OfTwo();
  EXPECT_TRUE(fence.Has({"a", 11}));
  EXPECT_FALSE(fence.Has({"a", 12}));
  EXPECT_FALSE(fence.Has({"b", 11}));
  fence.GoesOn({"a", 11}, 12);
  fence.GoesOn({"a", 12}, 13);
  EXPECT_TRUE(fence.Has({"a", 13}));
  // The agent did not receive the answer that let it in as 13, so it still
  // claims 11.
  fence.GoesOn({"a", 11}, 14);
  EXPECT_TRUE(fence.Has({"a", 14}));
  // The journal of an older daemon has names only, no incarnations.
  Fence old(1, {{"a", 0, At(0)}});
  EXPECT_TRUE(old.Has({"a", 12}));
  // Without incarnations, a report that some incarnation is gone proves
  // nothing.
  EXPECT_FALSE(old.Gone(NodeIncarnation{"a", 12}));
  EXPECT_FALSE(old.open());
}

TEST(Fence, WithoutAWorldNothingWaits) {
  EXPECT_EQ(Fence().Opens(absl::Seconds(100)), absl::InfinitePast());
  EXPECT_FALSE(Fence().Has({"a", 11}));
}

TEST(Fence, OfAWorldHasTheMembersWhoseRanksMayStillRun) {
  v1::World world;
  world.set_generation(3);
  // The names are in the order of their node ranks.
  for (const char* name : {"first", "other", "unknown", "finished", "once"}) {
    v1::Member& member = *world.add_members();
    member.set_node(name);
    member.set_node_rank(static_cast<uint32_t>(world.members_size() - 1));
    member.set_ranks(2);
  }
  world.mutable_members(4)->set_once(true);  // Only rank 0 is started.
  Membership membership;
  for (const char* name : {"first", "other", "finished", "once"}) {
    Node& node = AddNode(membership, name);
    node.served_in = 3;
    node.lease.heard_at = At(10);
  }
  membership.At("other").served_in = 2;
  v1::WorldCommit world_commit;
  for (const uint64_t incarnation : {11, 12, 13}) {
    world_commit.add_incarnations(incarnation);
  }
  const Fence fence(world, world_commit, {3}, membership, At(20));
  EXPECT_EQ(fence.generation(), 3u);
  struct {
    const char* node;
    uint64_t incarnation;
    absl::Time heard_at;
  } const kExpected[] = {
      {"first", 11, At(10)},
      // The node's entry belongs to another world.
      {"other", 12, At(20)},
      {"unknown", 13, At(20)},
  };
  ASSERT_EQ(fence.members().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(fence.members()[i].node, kExpected[i].node);
    EXPECT_EQ(fence.members()[i].incarnation, kExpected[i].incarnation);
    EXPECT_EQ(fence.members()[i].heard_at, kExpected[i].heard_at)
        << kExpected[i].node;
    EXPECT_EQ(fence.members()[i].latest, 0u);
  }
  EXPECT_EQ(fence.Opens(absl::Seconds(100)), At(110));

  // The world commit is from an older daemon.
  const Fence old(world, v1::WorldCommit(), {}, membership, At(20));
  ASSERT_EQ(old.members().size(), 4u);
  EXPECT_EQ(old.members()[0].incarnation, 0u);
  EXPECT_EQ(old.members()[3].node, "finished");
  // All members have finished.
  EXPECT_TRUE(
      Fence(world, world_commit, {0, 1, 2, 3}, membership, At(20)).open());
}

TEST(Fence, AnAgentIsAMembersByACredentialOrByWhatThisDaemonHasSeen) {
  struct {
    const char* what;
    const char* node;
    uint64_t incarnation;
    bool by_credential;
    uint64_t served_in;
    bool is_of;
  } const kRows[] = {
      {"by its credential", "a", 11, true, 0, true},
      {"seen in the world", "a", 11, false, 3, true},
      {"by a token", "a", 11, false, 0, false},
      {"seen in another world", "a", 11, false, 2, false},
      {"another incarnation", "a", 12, true, 3, false},
      {"another node", "c", 11, true, 3, false},
      {"another member's incarnation", "b", 11, true, 3, false},
  };
  const Fence fence = OfTwo();
  for (const auto& row : kRows) {
    Node node;
    node.hello.set_node(row.node);
    node.hello.set_incarnation(row.incarnation);
    node.credential.shown = row.by_credential;
    node.served_in = row.served_in;
    EXPECT_EQ(fence.IsOf(node), row.is_of) << row.what;
  }
}

TEST(Fence, ANameIsTakenOverByAnAgentThatWasNoMember) {
  struct {
    const char* what;
    const char* node;
    std::function<void(Node&)> change;
    bool taken_over;
  } const kRows[] = {
      {"the member's own agent", "a", [](Node&) {}, false},
      {"another agent", "a", [](Node& node) { node.hello.set_incarnation(12); },
       true},
      {"another agent that is suspect", "a",
       [](Node& node) {
         node.hello.set_incarnation(12);
         node.session = 0;
       },
       true},
      {"one that only says that it is the member's agent", "a",
       [](Node& node) { node.credential.shown = false; }, true},
      {"another agent that has gone", "a",
       [](Node& node) {
         node.hello.set_incarnation(12);
         node.gone = true;
       },
       false},
      {"a member that has not come back", "a",
       [](Node& node) { node.hello.set_incarnation(0); }, false},
      {"no member", "c", [](Node& node) { node.hello.set_incarnation(12); },
       false},
  };
  const Fence fence = OfTwo();
  for (const auto& row : kRows) {
    Membership membership;
    Node& node = AddNode(membership, row.node);
    node.hello.set_incarnation(11);
    node.credential.shown = true;
    row.change(node);
    EXPECT_EQ(fence.IsTakenOver(row.node, membership), row.taken_over)
        << row.what;
  }
  EXPECT_FALSE(fence.IsTakenOver("a", Membership()));
}

TEST(Fence, TheTextAdvisesToEvictAMemberWithoutAStream) {
  struct {
    const char* what;
    std::vector<std::string> members;
    std::vector<std::string> attend;
    const char* named;
    const char* advised;
  } const kRows[] = {
      {"none attends", {"a", "b"}, {}, "on a, b,", "evict a`"},
      {"one attends", {"a", "b"}, {"a"}, "on a, b,", "evict b`"},
      {"all attend", {"a", "b"}, {"a", "b"}, "on a, b,", "evict a`"},
      {"many",
       {"a", "b", "c", "d", "e", "f"},
       {},
       "on a, b, c, d and 2 more,",
       "evict a`"},
  };
  for (const auto& row : kRows) {
    std::vector<Fence::Member> members;
    for (const std::string& name : row.members) {
      members.push_back({name, 1, At(0)});
    }
    Membership membership;
    for (const std::string& name : row.attend) AddNode(membership, name);
    // The node is known but has no stream.
    if (row.attend.empty()) {
      Node& node = AddNode(membership, "a");
      membership.Disconnect(node);
    }
    const std::string text =
        Fence(3, members).Text(absl::Seconds(1), membership);
    EXPECT_NE(text.find("generation 3 "), std::string::npos) << text;
    EXPECT_NE(text.find(row.named), std::string::npos) << row.what << text;
    EXPECT_NE(text.find(row.advised), std::string::npos) << row.what << text;
  }
}

TEST(Fence, TheTextRoundsTheTimeLeftUp) {
  struct {
    absl::Duration left;
    const char* said;
  } const kRows[] = {
      {absl::Seconds(1), "at most 10s;"},  {absl::Seconds(41), "at most 50s;"},
      {absl::Seconds(60), "at most 1m;"},  {absl::Seconds(61), "at most 2m;"},
      {absl::Minutes(10), "at most 10m;"},
  };
  for (const auto& row : kRows) {
    const std::string text = OfTwo().Text(row.left, Membership());
    EXPECT_NE(text.find(row.said), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace rollcall
