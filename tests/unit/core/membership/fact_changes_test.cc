#include "daemon/core/membership/fact_changes.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

v1::FactChange Change(const std::string& subject, uint32_t count = 1) {
  v1::FactChange change;
  change.set_kind(v1::FACT_KIND_INTERFACE);
  change.set_subject(subject);
  change.set_before("up");
  change.set_after("down");
  change.set_count(count);
  return change;
}

TEST(FactChanges, KeepsTheLatest) {
  FactChanges changes;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(changes.Take(Change(absl::StrCat("eth", i)), At(i)));
  }
  ASSERT_EQ(changes.latest().size(), Limits::fact_changes_per_node);
  EXPECT_EQ(changes.latest().back().change.subject(), "eth19");
  EXPECT_EQ(changes.latest().back().at, At(19));
  EXPECT_EQ(changes.dropped(), 0u);
}

TEST(FactChanges, AFloodIsCountedAndNotKept) {
  FactChanges changes;
  uint64_t kept = 0;
  for (int i = 0; i < 10'000; ++i) {
    kept += changes.Take(Change("eth0"), At(0));
  }
  EXPECT_EQ(kept, Limits::fact_changes_burst);
  EXPECT_EQ(changes.dropped(), 10'000 - kept);
  EXPECT_FALSE(changes.Take(Change("eth0"), At(0.9)));
  EXPECT_TRUE(changes.Take(Change("eth0"), At(1)));
  EXPECT_FALSE(changes.Take(Change("eth0"), At(1)));
  // After a quiet time the burst is there again, and no more.
  kept = 0;
  for (int i = 0; i < 100; ++i) {
    kept += changes.Take(Change("eth0"), At(1000));
  }
  EXPECT_EQ(kept, Limits::fact_changes_burst);
}

TEST(FactChanges, TextHasTheLatestThreeBeforeAFailure) {
  FactChanges changes;
  EXPECT_EQ(changes.TextAround(At(0)), "");
  changes.Take(Change("eth0"), At(0));
  changes.Take(Change("eth1", 7), At(10));
  EXPECT_EQ(changes.TextAround(At(12.7)),
            "eth1: up -> down (7 changes) 2 s before, "
            "eth0: up -> down 12 s before");
  // Older than the window.
  EXPECT_EQ(changes.TextAround(At(305)),
            "eth1: up -> down (7 changes) 295 s before");
  changes.Take(Change("eth2"), At(20));
  changes.Take(Change("eth3"), At(30));
  EXPECT_EQ(changes.TextAround(At(30)),
            "eth3: up -> down 0 s before, eth2: up -> down 10 s before, "
            "eth1: up -> down (7 changes) 20 s before");
}

TEST(FactChanges, TextHasTheFirstXid) {
  FactChanges changes;
  const auto xid = [](const std::string& subject) {
    v1::FactChange change;
    change.set_kind(v1::FACT_KIND_XID);
    change.set_subject(subject);
    change.set_after("occurred");
    change.set_count(1);
    return change;
  };
  changes.Take(Change("eth0"), At(0));
  changes.Take(xid("Xid 79"), At(0));
  changes.Take(xid("Xid 45"), At(1));
  EXPECT_EQ(changes.TextAround(At(1)),
            "Xid 45: occurred 0 s before, Xid 79: occurred 1 s before, "
            "eth0: up -> down 1 s before");
  changes.Take(xid("Xid 13"), At(1));
  changes.Take(Change("eth1"), At(1));
  EXPECT_EQ(changes.TextAround(At(1)),
            "eth1: up -> down 0 s before, Xid 13: occurred 0 s before, "
            "Xid 79: occurred 1 s before");
}

}  // namespace
}  // namespace rollcall
