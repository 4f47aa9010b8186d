#include "daemon/core/ranking.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

TEST(NaturalLess, ComparesNumbersAsNumbers) {
  struct Row {
    const char* a;
    const char* b;
    bool less;
  };
  const Row kRows[] = {
      {"node2", "node10", true},
      {"node10", "node2", false},
      {"a", "b", true},
      {"a", "a", false},
      {"", "a", true},
      {"n1", "n01", false},
      {"n01", "n1", true},
      {"n1a", "n1b", true},
      {"rack2-n1", "rack10-n0", true},
      {"n9", "n10.cluster", true},
      {"n", "n0", true},
      {"7", "a", true},
      {"n18446744073709551616", "n18446744073709551617", true},
      {"n-1", "n-2", true},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(NaturalLess(row.a, row.b), row.less) << row.a << " < " << row.b;
    if (row.less) {
      EXPECT_FALSE(NaturalLess(row.b, row.a)) << row.b << " < " << row.a;
    }
  }
}

TEST(AssignSeats, IsStickyAndFillsFromBelow) {
  struct Row {
    std::vector<Candidate> candidates;
    uint32_t seats;
    const char* expect;
  };
  const Row kRows[] = {
      {{{"b"}, {"a"}}, 2, "0:a 1:b"},
      {{{"b"}, {"a", -1, true}, {"c"}}, 3, "0:a 1:b 2:c"},
      {{{"b"}, {"a"}, {"z", -1, true}}, 3, "0:z 1:a 2:b"},
      {{{"b", 0}, {"a"}}, 2, "0:b 1:a"},                // A survivor stays.
      {{{"b", 2}, {"a", 0}}, 3, "0:a 2:b"},             // A gap may remain,
      {{{"b", 2}, {"a", 0}, {"c"}}, 3, "0:a 1:c 2:b"},  // or is filled.
      {{{"n10"}, {"n9"}, {"n1"}}, 2, "0:n1 1:n9"},      // The rest are spares.
      {{{"b", 0}, {"l", -1, true}}, 2, "0:b 1:l"},      // No claim to seat 0.
      // NVLink domains stay together. A domain's place is that of its first
      // node, and the launcher's domain comes first.
      {{{"n1", -1, false, "y"},
        {"n2", -1, false, "x"},
        {"n3", -1, false, "y"},
        {"n10", -1, false, "x"},
        {"n4"}},
       5,
       "0:n1 1:n3 2:n2 3:n10 4:n4"},
      {{{"n1", -1, false, "y"}, {"n2"}, {"z", -1, true, "y"}},
       3,
       "0:z 1:n1 2:n2"},
      {{{"n1", 1, false, "y"}, {"n2"}, {"n3", -1, false, "y"}},
       3,
       "0:n2 1:n1 2:n3"},
      {{}, 2, ""},
  };
  for (const Row& row : kRows) {
    std::vector<std::string> seats;
    for (const Seated& s : AssignSeats(row.candidates, row.seats)) {
      seats.push_back(absl::StrCat(s.seat, ":", s.node));
    }
    EXPECT_EQ(absl::StrJoin(seats, " "), row.expect);
  }
}

}  // namespace
}  // namespace rollcall
