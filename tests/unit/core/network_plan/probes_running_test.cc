// Probes while a world runs: newcomers are probed before the world is ended for
// them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "daemon/core/network_plan/probes.h"
#include "tests/unit/core/network_plan/probes_fixture.h"

namespace rollcall {
namespace {

// Nodes a and b are members of the running world.
class ProbesRunningTest : public ProbesTest {
 protected:
  ProbesRunningTest() { Begin(2); }

  // Returns the nodes of the next round as "abc". Node "l" has been asked to
  // leave.
  std::string TakeNext(size_t places, double at) {
    const Probes::Next next = probes_.TakeNext(
        places, membership_,
        [](const std::string& name) { return name == "l"; }, At(at), limits_);
    all_pairs_ = next.which == Probing::Pairs::kAll;
    return Names(next.nodes);
  }
  std::string TakeRound(double at) {
    std::vector<std::string> silent;
    const std::string judged =
        Names(probes_.TakeRound(membership_, At(at), silent));
    silent_ = absl::StrJoin(silent, "");
    return judged;
  }
  static std::string Names(const std::vector<Seated>& nodes) {
    return absl::StrJoin(
        nodes, "",
        [](std::string* text, const Seated& seated) { *text += seated.node; });
  }

  bool all_pairs_ = false;  // The result of the latest TakeNext.
  std::string silent_;      // The result of the latest TakeRound.
};

TEST_F(ProbesRunningTest, ARoundIsForTheMembersAndTheNodesThatMayHaveASeat) {
  struct {
    const char* what;
    // c is a newcomer to be probed; d has no entry, so it was reached before.
    std::function<void(Membership&, Probes&)> change;
    size_t places;
    const char* expect;
  } const kRows[] = {
      {"both", [](Membership&, Probes&) {}, 2, "abdc"},
      {"more places", [](Membership&, Probes&) {}, 9, "abdc"},
      // Node d was reached, so it comes first and leaves no place for the
      // newcomer.
      {"one place", [](Membership&, Probes&) {}, 1, ""},
      {"no place", [](Membership&, Probes&) {}, 0, ""},
      {"the newcomer is excluded",
       [](Membership& m, Probes&) { m.Exclude(m.At("c")); }, 2, ""},
      {"the newcomer has become a member",
       [](Membership& m, Probes&) { m.At("c").node_rank = 2; }, 2, ""},
      {"the other one is excluded",
       [](Membership& m, Probes&) { m.Exclude(m.At("d")); }, 1, "abc"},
      {"the other one is held",
       [](Membership&, Probes& p) {
         p.Unreached("d", absl::UnixEpoch() + absl::Seconds(30));
       },
       2, "abc"},
      {"two newcomers: the one that has waited longer",
       [](Membership&, Probes& p) {
         p.Newcomer("d", true, absl::UnixEpoch(), Limits());
       },
       1, "abd"},
      {"a member is away",
       [](Membership& m, Probes&) { m.Disconnect(m.At("a")); }, 2, "bdc"},
      {"a node that leaves",
       [](Membership& m, Probes&) {
         m.Exclude(m.At("d"));
         AddMember(m, "l", -1);
       },
       2, "abc"},
  };
  for (const auto& row : kRows) {
    Begin(2);
    probes_.Newcomer("c", true, At(1), limits_);
    row.change(membership_, probes_);
    EXPECT_EQ(TakeNext(row.places, 1), row.expect) << row.what;
    EXPECT_FALSE(all_pairs_) << row.what;
    EXPECT_EQ(probes_.due(), absl::InfiniteFuture()) << row.what;
  }
}

TEST_F(ProbesRunningTest, ANodeThatIsSilentIsNotAskedWithANewcomer) {
  Open("abd", 0, Probing::Pairs::kUnknown, false);
  Answer("a", 1);
  Answer("b", 1);
  probes_.Newcomer("c", true, At(3), limits_);
  EXPECT_EQ(TakeNext(9, 3), "abc");
}

TEST_F(ProbesRunningTest, BetweenTwoRoundsThereIsAPause) {
  probes_.Newcomer("c", true, At(1), limits_);
  EXPECT_EQ(TakeNext(9, 1), "abdc");
  EXPECT_EQ(probes_.due(), absl::InfiniteFuture());
  EXPECT_EQ(TakeNext(9, 1), "");
  const absl::Time pause_ends = probes_.due();
  EXPECT_GT(pause_ends, At(1));
  EXPECT_LT(pause_ends, At(2));
  probes_.Newcomer("d", true, At(1), limits_);
  EXPECT_EQ(probes_.due(), pause_ends);
  // c has been asked and has not answered yet.
  EXPECT_EQ(TakeNext(9, 2), "abcd");
  probes_.Opened(false);
  EXPECT_EQ(probes_.due(), absl::InfiniteFuture());
}

TEST_F(ProbesRunningTest, AllPairsAreProbedEveryPingInterval) {
  limits_.ping_interval = absl::Seconds(60);
  probes_.PingLater(At(0), limits_);
  EXPECT_EQ(probes_.due(), At(60));
  // If there is no newcomer, no round is due earlier.
  EXPECT_EQ(TakeNext(9, 59), "");
  EXPECT_EQ(TakeNext(9, 61), "abcd");
  EXPECT_TRUE(all_pairs_);
  EXPECT_EQ(probes_.due(), At(121));
}

TEST_F(ProbesRunningTest, ARoundIsJudgedWhenItHasEnded) {
  probes_.Newcomer("c", true, At(0), limits_);
  EXPECT_EQ(TakeNext(9, 0), "abdc");
  EXPECT_TRUE(Open("abcd", 0, Probing::Pairs::kUnknown, false).open);
  probes_.Opened(true);
  EXPECT_EQ(probes_.due(), At(2));
  for (const char* name : {"a", "b", "d"}) Answer(name, 1, true);
  EXPECT_EQ(probes_.due(), At(2));
  Answer("c", 1.5, true);
  EXPECT_EQ(probes_.due(), At(1.5));
}

TEST_F(ProbesRunningTest, NewcomersOfTheRoundAreJudgedOnceWithTheMembers) {
  struct {
    const char* what;
    bool answers;
    std::function<void(Membership&, Probes&)> change;
    const char* judged;
    const char* silent;
  } const kRows[] = {
      {"it has answered", true, [](Membership&, Probes&) {}, "abc", ""},
      {"it is silent", false, [](Membership&, Probes&) {}, "ab", "c"},
      {"it has left", true, [](Membership&, Probes& p) { p.Forget("c"); }, "ab",
       ""},
      {"it has attended again", true,
       [](Membership&, Probes& p) {
         p.Forget("c");
         p.Newcomer("c", true, absl::UnixEpoch() + absl::Seconds(1), Limits());
       },
       "ab", ""},
      {"it is excluded", true,
       [](Membership& m, Probes&) { m.Exclude(m.At("c")); }, "ab", ""},
      {"it is a member by now", true,
       [](Membership& m, Probes&) { m.At("c").node_rank = 2; }, "abc", ""},
      {"a member is away", true,
       [](Membership& m, Probes&) { m.Disconnect(m.At("b")); }, "ac", ""},
  };
  for (const auto& row : kRows) {
    Begin(2);
    EXPECT_EQ(TakeRound(0), "");
    probes_.Newcomer("c", true, At(0), limits_);
    EXPECT_EQ(TakeNext(9, 0), "abdc");
    Open("abc", 0, Probing::Pairs::kUnknown, false);
    Answer("a", 1, true);
    Answer("b", 1, true);
    if (row.answers) Answer("c", 1, true);
    row.change(membership_, probes_);
    EXPECT_EQ(TakeRound(2), row.judged) << row.what;
    EXPECT_EQ(silent_, row.silent) << row.what;
    EXPECT_EQ(TakeRound(2), "") << row.what;
  }
}

TEST_F(ProbesRunningTest, MembersThatDoNotReachEachOtherAreProbedAgain) {
  ProbeAll("abc", 0);
  probes_.Apart({"b"});
  EXPECT_FALSE(Knows("a", "b"));
  EXPECT_FALSE(Knows("b", "a"));
  EXPECT_TRUE(Knows("a", "c"));
}

TEST_F(ProbesRunningTest, TheNextWorldWaitsForNoRoundOfTheOneThatEnded) {
  struct {
    const char* what;
    double at;    // The round ends at 2.
    bool known;   // The results about newcomer c, which has answered.
    bool silent;  // Newcomer d has not answered.
  } const kRows[] = {
      {"the round is open", 1.5, false, false},
      {"the round has ended", 3, true, true},
  };
  for (const auto& row : kRows) {
    Begin(2);
    limits_.ping_interval = absl::Seconds(60);
    probes_.PingLater(At(0), limits_);
    // d was not reached before, and waits until it is probed again.
    probes_.Unreached("d", At(0));
    probes_.Expire(absl::ZeroDuration(), true, At(0));
    probes_.Newcomer("c", true, At(0), limits_);
    EXPECT_EQ(TakeNext(9, 0), "abcd");
    Open("abcd", 0, Probing::Pairs::kUnknown, false);
    probes_.Opened(true);
    Answer("a", 1, true);
    Answer("c", 1, true);
    probes_.WorldEnded(membership_, At(row.at), limits_);
    EXPECT_FALSE(probes_.UnderWay(At(row.at))) << row.what;
    EXPECT_EQ(probes_.due(), absl::InfiniteFuture()) << row.what;
    EXPECT_FALSE(probes_.IsSilent("b", At(9))) << row.what;
    EXPECT_EQ(probes_.IsSilent("d", At(9)), row.silent) << row.what;
    EXPECT_EQ(Knows("a", "c"), row.known) << row.what;
    EXPECT_EQ(probes_.HeldUntil("c"), absl::InfinitePast()) << row.what;
    EXPECT_EQ(probes_.HeldUntil("d"), At(row.at) + limits_.unreached_delay)
        << row.what;
    EXPECT_EQ(TakeRound(9), "") << row.what;
  }
}

TEST_F(ProbesRunningTest, TheNextWorldDoesNotWaitForASpareThatWasAsked) {
  probes_.Newcomer("c", true, At(0), limits_);
  EXPECT_EQ(TakeNext(9, 0), "abdc");
  Open("abdc", 0, Probing::Pairs::kUnknown, false);
  for (const char* name : {"a", "b", "c"}) Answer(name, 1, true);
  EXPECT_TRUE(probes_.UnderWay(At(1)));
  probes_.WorldEnded(membership_, At(1), limits_);
  EXPECT_FALSE(probes_.UnderWay(At(1)));
  EXPECT_FALSE(probes_.IsSilent("d", At(9)));
}

}  // namespace
}  // namespace rollcall
