#include "client/facts/watch/fact_damper.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/facts/watch/fact_states.h"

namespace rollcall {
namespace {

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1000) + absl::Seconds(seconds);
}

v1::FactChange Change(const std::string& subject, const std::string& before,
                      const std::string& after) {
  return MakeFactChange(v1::FACT_KIND_INTERFACE, subject, before, after);
}

std::string Text(const std::vector<v1::FactChange>& changes) {
  return absl::StrJoin(
      changes, " ", [](std::string* out, const v1::FactChange& change) {
        absl::StrAppend(out, change.subject(), ":", change.before(), ">",
                        change.after(), "*", change.count());
      });
}

TEST(FactDamper, AFactThatFlapsIsCountedAndItsLastValueIsKept) {
  FactDamper damper;
  struct Row {
    double at;
    const char* change;  // "before>after"; empty: none.
    const char* due;
    double next;  // -1: none.
  };
  const Row kRows[] = {
      {0, "up>down", "a:up>down*1", -1},
      {1, "down>up", "a:down>up*1", -1},
      {1, "up>down", "a:up>down*1", -1},
      {2, "down>up", "a:down>up*1", -1},
      // Four were reported at once; the next one is due 10 s after the first.
      {3, "up>down", "", 10},
      {4, "down>up", "", 10},
      {5, "up>down", "", 10},
      {9.9, "", "", 10},
      {10, "", "a:up>down*3", -1},
      {11, "down>up", "", 20},
      {20, "", "a:down>up*1", -1},
      // After a quiet time it may report four again.
      {60, "up>down", "a:up>down*1", -1},
      {60, "down>up", "a:down>up*1", -1},
      {60, "up>down", "a:up>down*1", -1},
      {60, "down>up", "a:down>up*1", -1},
      {60, "up>down", "", 70},
  };
  for (const Row& row : kRows) {
    const std::vector<std::string> sides = absl::StrSplit(row.change, '>');
    if (sides.size() == 2) {
      damper.Take(Change("a", sides[0], sides[1]), At(row.at));
    }
    EXPECT_EQ(Text(damper.Due(At(row.at))), row.due) << row.at;
    EXPECT_EQ(damper.NextDue(),
              row.next < 0 ? absl::InfiniteFuture() : At(row.next))
        << row.at;
  }
}

TEST(FactDamper, ANodeThatFloodsIsBounded) {
  FactDamper damper;
  for (int i = 0; i < 1000; ++i) {
    damper.Take(Change(absl::StrCat("n", i), "up", "down"), At(0));
  }
  size_t reported = damper.Due(At(0)).size();
  EXPECT_EQ(reported, FactDamper::kNodeBurst);
  EXPECT_EQ(damper.NextDue(), At(1));
  for (int s = 1; s <= 600; ++s) {
    const size_t now = damper.Due(At(s)).size();
    EXPECT_LE(now, 1u);
    reported += now;
  }
  // Further facts than these were dropped.
  EXPECT_EQ(reported, FactDamper::kFactsMax);
  EXPECT_EQ(damper.NextDue(), absl::InfiniteFuture());
  // They are forgotten, so others have room.
  damper.Take(Change("late", "up", "down"), At(700));
  EXPECT_EQ(Text(damper.Due(At(700))), "late:up>down*1");
}

TEST(FactDamper, KindsAreDampedApart) {
  FactDamper damper;
  for (int i = 0; i < 5; ++i) {
    damper.Take(MakeFactChange(v1::FACT_KIND_XID, "GPU 3", "", "Xid 79"),
                At(0));
    damper.Due(At(0));
  }
  damper.Take(MakeFactChange(v1::FACT_KIND_ECC, "GPU 3", "0", "2"), At(0));
  EXPECT_EQ(Text(damper.Due(At(0))), "GPU 3:0>2*1");
}

TEST(FactDamper, ReportsInTheOrderOfWhatHappened) {
  FactDamper damper;
  damper.Take(Change("b", "1", "2"), At(0));
  damper.Take(Change("c", "1", "2"), At(0));
  damper.Take(Change("a", "1", "2"), At(0));
  damper.Take(Change("b", "2", "3"), At(0));
  EXPECT_EQ(Text(damper.Due(At(0))), "b:1>3*2 c:1>2*1 a:1>2*1");
}

}  // namespace
}  // namespace rollcall
