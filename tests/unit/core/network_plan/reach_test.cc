#include "daemon/core/network_plan/probing/reach.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Names = std::vector<std::string>;

bool All(const std::string&) { return true; }

TEST(Reach, ThoseThatWaitLongestAreProbedFirst) {
  Reach reach;
  reach.Came("z", At(1));
  reach.Came("a", At(2));
  reach.Came("b", At(2));
  // A second call changes nothing.
  reach.Came("z", At(3));
  EXPECT_EQ(reach.ToProbe(9, All), (Names{"z", "a", "b"}));
  EXPECT_EQ(reach.ToProbe(1, All), Names{"z"});
  EXPECT_EQ(reach.ToProbe(1, [](const auto& name) { return name != "z"; }),
            Names{"a"});
  EXPECT_EQ(reach.HeldUntil("z"), absl::InfiniteFuture());
  EXPECT_EQ(reach.HeldUntil("other"), absl::InfinitePast());
  EXPECT_EQ(reach.NextDue(), absl::InfiniteFuture());
  EXPECT_TRUE(reach.WasToProbe("a", At(2)));
  EXPECT_FALSE(reach.WasToProbe("a", At(1)));
  reach.Forget("z");
  EXPECT_EQ(reach.HeldUntil("z"), absl::InfinitePast());
}

TEST(Reach, OneThatWasNotReachedWaits) {
  Reach reach;
  reach.Came("a", At(1));
  reach.Unreached("a", At(31));
  // The node is also held if it arrives again meanwhile.
  reach.Came("a", At(2));
  EXPECT_TRUE(reach.ToProbe(9, All).empty());
  EXPECT_EQ(reach.HeldUntil("a"), At(31));
  EXPECT_EQ(reach.NextDue(), At(31));
  EXPECT_TRUE(reach.Expire(At(30)).empty());
  EXPECT_EQ(reach.Expire(At(31)), Names{"a"});
  EXPECT_TRUE(reach.Expire(At(31)).empty());
  EXPECT_EQ(reach.HeldUntil("a"), absl::InfiniteFuture());
  EXPECT_EQ(reach.NextDue(), absl::InfiniteFuture());
  EXPECT_EQ(reach.ToProbe(9, All), Names{"a"});
}

TEST(Reach, TheEndOfAWorldFreesThoseThatWereNeverProbed) {
  Reach reach;
  reach.Came("new", At(1));
  reach.Unreached("waits", At(40));
  reach.Unreached("again", At(5));
  reach.Expire(At(5));
  reach.WorldEnded(At(36));
  EXPECT_EQ(reach.HeldUntil("new"), absl::InfinitePast());
  EXPECT_EQ(reach.HeldUntil("waits"), At(40));
  EXPECT_EQ(reach.HeldUntil("again"), At(36));
  EXPECT_TRUE(reach.ToProbe(9, All).empty());
}

TEST(Reach, OneWhosePartnersHaveGoneWaitsNoLonger) {
  Reach reach;
  reach.Unreached("a", At(31), {"b", "c"});
  reach.Unreached("d", At(31), {"b"});
  reach.Unreached("e", At(31));
  reach.Gone("b", At(2));
  EXPECT_EQ(reach.Expire(At(2)), Names{"d"});
  // The previous reason no longer counts.
  reach.Unreached("a", At(32), {"f"});
  reach.Gone("c", At(3));
  EXPECT_TRUE(reach.Expire(At(3)).empty());
  reach.Gone("f", At(4));
  // The end of a world does not move the time of a.
  reach.WorldEnded(At(34));
  EXPECT_EQ(reach.Expire(At(4)), Names{"a"});
  EXPECT_EQ(reach.HeldUntil("e"), At(31));
}

TEST(Reach, OneWhosePartnerGoesBeforeItIsProbedAgainMayJoinTheNextWorld) {
  Reach reach;
  reach.Unreached("a", At(5), {"b"});
  EXPECT_EQ(reach.Expire(At(5)), Names{"a"});
  reach.Gone("b", At(6));
  EXPECT_EQ(reach.HeldUntil("a"), absl::InfiniteFuture());
  reach.WorldEnded(At(36));
  EXPECT_EQ(reach.HeldUntil("a"), absl::InfinitePast());
}

}  // namespace
}  // namespace rollcall
