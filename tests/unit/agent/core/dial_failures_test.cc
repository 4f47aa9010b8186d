// What an agent logs about a daemon that it cannot reach: a table.
#include "client/agent/core/dial_failures.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

struct Row {
  double at;
  // "lost", "in", "silence" (checks silent_until), or the endpoint of an
  // attempt that has failed.
  const char* event;
  const char* reason;
  // 1: the reason is logged. For "silence": silent_until; -1: never.
  double expect;
};

void Play(const std::vector<Row>& rows) {
  DialFailures failures(At(0));
  for (const Row& row : rows) {
    const std::string event = row.event;
    if (event == "lost") {
      failures.Lost(At(row.at));
    } else if (event == "in") {
      failures.LetIn();
    } else if (event == "silence") {
      EXPECT_EQ(failures.silent_until(),
                row.expect < 0 ? absl::InfiniteFuture() : At(row.expect))
          << row.at;
    } else {
      EXPECT_EQ(failures.Failed(event, row.reason, At(row.at)), row.expect == 1)
          << row.at << " " << row.reason;
    }
  }
}

TEST(DialFailures, SaysOnceAndAgainWhenTheReasonChanges) {
  Play({
      {0.0, "silence", "", 5},
      {0.1, "a", "refused", 0},  // A daemon may be about to start.
      {0.5, "a", "refused", 0},
      {1.1, "a", "refused", 1},
      {1.1, "silence", "", -1},
      {2.0, "a", "refused", 0},
      {60.0, "a", "refused", 0},
      {61.0, "a", "no route", 1},
      {62.0, "a", "no route", 0},
      {67.0, "a", "refused", 1},  // The reason changed back.
  });
}

TEST(DialFailures, EachEndpointHasItsReason) {
  Play({
      {1.0, "a", "refused", 1},
      {2.0, "b", "not found", 0},  // Five seconds between two lines.
      {3.0, "a", "refused", 0},
      {6.0, "b", "not found", 1},
      {11.0, "a", "refused", 0},  // Neither reason changed.
      {12.0, "b", "not found", 0},
  });
}

TEST(DialFailures, WhatChangesAllTheTimeIsSaidEveryFiveSeconds) {
  Play({
      {1.0, "a", "x", 1},
      {2.0, "a", "y", 0},
      {3.0, "a", "x", 0},
      {4.0, "a", "y", 0},
      {6.0, "a", "y", 1},
      {7.0, "a", "x", 0},
      {11.0, "a", "x", 1},
  });
}

TEST(DialFailures, AfterALossItBeginsAgain) {
  Play({
      {1.0, "a", "refused", 1},
      {2.0, "in", "", 0},
      {3.0, "silence", "", -1},
      {100.0, "lost", "", 0},
      {100.0, "silence", "", 105},
      {100.2, "a", "refused", 0},  // As when a daemon is restarted.
      {101.5, "a", "refused", 1},
      {102.0, "in", "", 0},
      {103.0, "silence", "", -1},
  });
}

}  // namespace
}  // namespace rollcall
