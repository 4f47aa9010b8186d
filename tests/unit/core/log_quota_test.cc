// How many log lines one agent may cause: a table in text, and the bound on
// what is remembered.
#include "daemon/core/log_quota.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

LogLimits Small() {
  LogLimits limits;
  limits.per_node = 2;
  limits.node_interval = absl::Seconds(10);
  limits.per_address = 5;
  limits.address_interval = absl::Seconds(2);
  limits.told_interval = absl::Seconds(4);
  limits.peers_max = 10;
  return limits;
}

// Tries to write `lines` lines, and returns how many were written.
int Written(LogQuota& quota, int lines, const std::string& node,
            const std::string& address, double at) {
  int written = 0;
  for (int i = 0; i < lines; ++i) {
    written += quota.Take(node, address, address, At(at));
  }
  return written;
}

std::string Told(LogQuota& quota, double at) {
  std::string text;
  for (const LogQuota::Suppressed& of : quota.Due(At(at))) {
    absl::StrAppend(&text, of.address, " ", of.lines, ";");
  }
  return text;
}

TEST(LogQuota, ANodeAndItsAddressHaveSoManyLines) {
  const struct {
    double at;
    int lines;
    const char* node;
    const char* address;
    int written;
    const char* told;  // Reported at the same time.
  } rows[] = {
      {0, 9, "j/a", "10.0.0.1", 2, ""},
      // Another node at the same address has a quota of its own; the address
      // has five.
      {0, 9, "j/b", "10.0.0.1", 2, ""},
      {0, 9, "j/c", "10.0.0.1", 1, ""},
      {0, 9, "", "10.0.0.1", 0, ""},
      {0, 9, "j/d", "10.0.0.2", 2, ""},
      // The address has one line again, which a node without earlier lines
      // gets.
      {2, 9, "j/e", "10.0.0.1", 1, ""},
      {4, 0, "", "", 0, "10.0.0.1 39;10.0.0.2 7;"},
      {5, 0, "", "", 0, ""},
      // The node has one line again.
      {10, 9, "j/a", "10.0.0.1", 1, ""},
      {13.9, 0, "", "", 0, ""},
      {14, 0, "", "", 0, "10.0.0.1 8;"},
      // All quotas are full again, but not larger.
      {1000, 9, "j/a", "10.0.0.1", 2, ""},
      {1000, 9, "j/b", "10.0.0.1", 2, ""},
      {1000, 9, "", "10.0.0.1", 1, ""},
  };
  LogQuota quota(Small());
  for (const auto& row : rows) {
    EXPECT_EQ(Written(quota, row.lines, row.node, row.address, row.at),
              row.written)
        << row.at << ' ' << row.node;
    EXPECT_EQ(Told(quota, row.at), row.told) << row.at << ' ' << row.node;
  }
}

TEST(LogQuota, MoreNamesMakeNoMoreLines) {
  LogQuota quota(Small());
  int written = 0;
  for (int i = 0; i < 1000; ++i) {
    written += quota.Take(absl::StrCat("j/", i), "net", "10.0.0.1", At(0));
  }
  EXPECT_EQ(written, 5);
  EXPECT_EQ(quota.NextDue(), At(4));
  EXPECT_EQ(Told(quota, 4), "10.0.0.1 995;");
  EXPECT_EQ(quota.NextDue(), absl::InfiniteFuture());
}

TEST(LogQuota, RemembersSoMany) {
  LogQuota quota(Small());
  EXPECT_EQ(Written(quota, 9, "", "first", 0), 5);
  for (int i = 0; i < 100; ++i) {
    Written(quota, 9, absl::StrCat("j/", i), absl::StrCat("address", i),
            1 + i * 0.001);
    EXPECT_LE(quota.peers(), 10u);
  }
  // Lines of forgotten addresses are still counted, in one sum.
  EXPECT_EQ(
      Told(quota, 5.2),
      "address95 7;address96 7;address97 7;address98 7;address99 7; 669;");
  EXPECT_EQ(quota.NextDue(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace rollcall
