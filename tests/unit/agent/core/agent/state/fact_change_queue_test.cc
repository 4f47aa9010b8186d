// Which changed facts a daemon hears: a table.
#include "client/agent/core/agent/state/fact_change_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

enum class Greeting { kNone, kOldDaemon, kNewDaemon };

TEST(FactChangeQueue, Table) {
  constexpr uint32_t kMost = Limits::fact_changes_per_node;
  const struct {
    // Changes numbered from `first`; then a Welcome, if there is one; then all
    // that is to be sent, as "first-last".
    uint32_t first;
    uint32_t changes;
    Greeting greeting;
    std::string expect;
  } kRows[] = {
      {1, 0, Greeting::kNewDaemon, ""},
      {1, 1, Greeting::kNone, "1-1"},
      {2, 0, Greeting::kNone, ""},  // Each is sent once.
      {2, 3, Greeting::kNone, "2-4"},
      {5, kMost, Greeting::kNone, absl::StrCat("5-", kMost + 4)},
      {1, kMost + 2, Greeting::kNone, absl::StrCat("3-", kMost + 2)},
      {1, 2, Greeting::kOldDaemon, ""},
      {3, 1, Greeting::kNewDaemon, "3-3"},
  };
  FactChangeQueue queue;
  for (const auto& row : kRows) {
    for (uint32_t i = 0; i < row.changes; ++i) {
      v1::FactChange change;
      change.set_count(row.first + i);
      queue.Add(change);
    }
    if (row.greeting != Greeting::kNone) {
      queue.Welcomed(row.greeting == Greeting::kNewDaemon);
    }
    std::string sent;
    uint32_t last = 0;
    for (const v1::FactChange& change : queue.Take()) {
      if (sent.empty()) sent = absl::StrCat(change.count(), "-");
      if (last != 0) {
        EXPECT_EQ(change.count(), last + 1);
      }
      last = change.count();
    }
    if (last != 0) absl::StrAppend(&sent, last);
    EXPECT_EQ(sent, row.expect);
  }
}

}  // namespace
}  // namespace rollcall
