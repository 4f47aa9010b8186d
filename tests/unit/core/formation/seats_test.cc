#include "daemon/core/formation/seats.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/unit/core/nodes.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// Nodes a, b and c, at time 10 s.
class SeatsTest : public testing::Test {
 public:  // The rows of tables call it.
  SeatsTest() {
    for (const char* name : {"a", "b", "c"}) AddNode(membership_, name);
    probes_.UseKey([](uint64_t, const std::string&) {
      return std::string(Limits::probe_bytes, 'x');
    });
  }
  Seats At10() const {
    return {membership_, newcomers_, probes_, At(10), limits_};
  }
  // Holds back a node that was lost as a newcomer: it gets no seat until
  // `until`.
  void HoldAsNewcomer(const std::string& name, double until) {
    const absl::Time lost = At(until) - limits_.newcomer_delay_first;
    newcomers_.Lost(name, 1, {}, lost, limits_);
    newcomers_.Lost(name, 2, {}, lost, limits_);
  }
  // Makes a node silent: it was probed together with a, and has not answered.
  void Silence(const std::string& name) {
    std::vector<PlanNode> nodes;
    for (const std::string& each : {std::string("a"), name}) {
      v1::Hello& hello = membership_.At(each).hello;
      v1::Facts& facts = *hello.mutable_facts();
      facts.set_boot_id(each);
      facts.set_probe_port(40000);
      v1::Interface& interface = *facts.add_interfaces();
      interface.set_up(true);
      interface.add_addresses()->set_address("10.0.0.1");
      nodes.push_back({each, &facts, ""});
    }
    const Probes::Round round = probes_.Open(
        nodes, Probing::Pairs::kUnknown, false, membership_, At(0), limits_);
    ASSERT_EQ(round.asked.size(), 2u);
    v1::Probed probed;
    probed.set_probe(round.asked[0].second.probe());
    probes_.Take(membership_.At("a"), probed, false, membership_, At(0),
                 limits_);
    ASSERT_TRUE(probes_.IsSilent(name, At(10)));
    ASSERT_FALSE(probes_.IsSilent("a", At(10)));
  }
  std::string Candidates(size_t nodes_min) const {
    return absl::StrJoin(At10().Candidates(nodes_min), "",
                         [](std::string* text, const Candidate& candidate) {
                           *text += candidate.node;
                         });
  }

  const Limits limits_;
  Membership membership_;
  Newcomers newcomers_;
  Probes probes_;
};

TEST_F(SeatsTest, ANodeIsHeldUntilBothAllowASeat) {
  const absl::Time past = absl::InfinitePast();
  struct {
    const char* what;
    int seat;
    double newcomer;  // Held back as a newcomer until then; 0: not held.
    double unreached;
    absl::Time until;
    bool held;
  } const kRows[] = {
      {"not held", -1, 0, 0, past, false},
      {"as a newcomer", -1, 12, 0, At(12), true},
      {"until it is reached", -1, 0, 13, At(13), true},
      {"both", -1, 12, 13, At(13), true},
      {"both, the other way round", -1, 14, 13, At(14), true},
      {"until now", -1, 10, 0, At(10), false},
      {"it has a seat", 0, 12, 13, past, false},
  };
  for (const auto& row : kRows) {
    newcomers_ = Newcomers();
    probes_.Forget("b");
    Node& node = membership_.At("b");
    node.seat = row.seat;
    if (row.newcomer > 0) HoldAsNewcomer("b", row.newcomer);
    if (row.unreached > 0) probes_.Unreached("b", At(row.unreached));
    EXPECT_EQ(At10().HeldUntil(node), row.until) << row.what;
    EXPECT_EQ(At10().IsHeld(node), row.held) << row.what;
  }
}

TEST_F(SeatsTest, HeldNodesAreCandidatesOnlyIfTooFewOthersAreThere) {
  AddNode(membership_, "d");
  HoldAsNewcomer("b", 12);
  probes_.Unreached("c", At(13));
  membership_.At("b").attended_at = At(6);
  membership_.At("c").attended_at = At(5);
  const char* const kByMin[] = {"ad", "ad", "ad", "adc", "adcb", "adcb"};
  for (size_t nodes_min = 0; nodes_min < 6; ++nodes_min) {
    EXPECT_EQ(Candidates(nodes_min), kByMin[nodes_min]) << nodes_min;
  }
}

TEST_F(SeatsTest, ExcludedAbsentAndSilentNodesAreNoCandidates) {
  AddNode(membership_, "d");
  membership_.Exclude(membership_.At("b"));
  membership_.Disconnect(membership_.At("c"));
  EXPECT_EQ(Candidates(9), "ad");
  Silence("d");
  EXPECT_EQ(Candidates(9), "a");
  EXPECT_EQ(At10().NewcomersNow(), std::vector<std::string>{"a"});
}

TEST_F(SeatsTest, ACandidateHasWhatSeatsAreAssignedBy) {
  Node& node = membership_.At("b");
  node.seat = 3;
  node.hello.set_launcher(true);
  node.hello.mutable_facts()->add_gpus()->set_nvlink_domain("f1.2");
  const std::vector<Candidate> candidates = At10().Candidates(1);
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(candidates[0].seat, -1);
  EXPECT_FALSE(candidates[0].launcher);
  EXPECT_EQ(candidates[1].node, "b");
  EXPECT_EQ(candidates[1].seat, 3);
  EXPECT_TRUE(candidates[1].launcher);
  EXPECT_EQ(candidates[1].domain, "f1.2");
  EXPECT_EQ(candidates[0].domain, "");
}

// a is a member; b and c are newcomers.
TEST_F(SeatsTest, ARunningWorldGrowsWhenItsFirstNewcomerMayHaveASeat) {
  const absl::Time past = absl::InfinitePast();
  const absl::Time never = absl::InfiniteFuture();
  struct {
    const char* what;
    std::function<void(SeatsTest&)> change;
    int members;  // The number of members; max is 2.
    absl::Time due;
    std::string now;
  } const kRows[] = {
      {"two newcomers", [](SeatsTest&) {}, 1, past, "bc"},
      {"no free seat", [](SeatsTest&) {}, 2, never, "bc"},
      {"one is held", [](SeatsTest& t) { t.HoldAsNewcomer("b", 12); }, 1, past,
       "c"},
      {"both are held",
       [](SeatsTest& t) {
         t.HoldAsNewcomer("b", 14);
         t.probes_.Unreached("c", At(12));
       },
       1, At(12), ""},
      {"both are held, the other way round",
       [](SeatsTest& t) {
         t.HoldAsNewcomer("b", 12);
         t.probes_.Unreached("c", At(14));
       },
       1, At(12), ""},
      {"until a round of probes",
       [](SeatsTest& t) {
         t.probes_.Newcomer("b", true, At(9), t.limits_);
         t.probes_.Newcomer("c", true, At(9), t.limits_);
       },
       1, never, ""},
      {"all are members",
       [](SeatsTest& t) {
         t.membership_.At("b").node_rank = 1;
         t.membership_.At("c").node_rank = 2;
       },
       1, never, ""},
      {"one is excluded, one has no stream",
       [](SeatsTest& t) {
         t.membership_.Exclude(t.membership_.At("b"));
         t.membership_.Disconnect(t.membership_.At("c"));
       },
       1, never, ""},
      {"one is silent, one is excluded",
       [](SeatsTest& t) {
         t.membership_.Exclude(t.membership_.At("b"));
         t.Silence("c");
       },
       1, never, ""},
  };
  for (const auto& row : kRows) {
    membership_ = Membership();
    for (const char* name : {"a", "b", "c"}) AddNode(membership_, name);
    membership_.At("a").node_rank = 0;
    newcomers_ = Newcomers();
    probes_.Clear();
    row.change(*this);
    v1::World world;
    for (int i = 0; i < row.members; ++i) world.add_members();
    EXPECT_EQ(
        At10().NewcomerDue(world, 2, [](const std::string&) { return false; }),
        row.due)
        << row.what;
    EXPECT_EQ(absl::StrJoin(At10().NewcomersNow(), ""), row.now) << row.what;
  }
}

TEST_F(SeatsTest, NoWorldIsEndedForANewcomerThatLeaves) {
  membership_.At("a").node_rank = 0;
  HoldAsNewcomer("c", 12);
  v1::World world;
  world.add_members();
  const auto due = [&](const std::string& leaving) {
    return At10().NewcomerDue(
        world, 9, [&](const std::string& name) { return name == leaving; });
  };
  EXPECT_EQ(due(""), absl::InfinitePast());
  EXPECT_EQ(due("b"), At(12));
}

}  // namespace
}  // namespace rollcall
