// What a signal to the agent means, and how long it waits for the daemon:
// tables.
#include "client/agent/core/agent/state/leave_request.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Meaning = LeaveRequest::Meaning;

TEST(LeaveRequest, Table) {
  struct Asked {
    int signal;
    bool of_rank;  // A linked rank asks, by way of this signal.
    bool leaves;
    bool lingers;
    Meaning meaning;
    int expect;  // The request's signal.
  };
  const struct {
    std::string name;
    std::vector<Asked> asked;
  } kRows[] = {
      {"two signals",
       {{SIGINT, false, false, false, Meaning::kFirst, SIGINT},
        {SIGTERM, false, false, false, Meaning::kAtOnce, SIGINT}}},
      {"the agent leaves already",
       {{SIGTERM, false, true, false, Meaning::kAtOnce, 0}}},
      {"a rank, then the agent, then a second request",
       {{SIGTERM, true, false, false, Meaning::kFirst, SIGTERM},
        {SIGINT, false, false, false, Meaning::kSame, SIGINT},
        {SIGINT, false, false, false, Meaning::kAtOnce, SIGINT}}},
      {"a rank, then the agent, which leaves",
       {{SIGTERM, true, false, false, Meaning::kFirst, SIGTERM},
        {SIGUSR1, false, true, false, Meaning::kSame, SIGUSR1}}},
      {"a rank, then the agent, which lingers: the job has ended since",
       {{SIGTERM, true, false, false, Meaning::kFirst, SIGTERM},
        {SIGINT, false, true, true, Meaning::kAtOnce, SIGTERM},
        {SIGINT, false, true, false, Meaning::kAtOnce, SIGTERM}}},
  };
  for (const auto& row : kRows) {
    LeaveRequest request;
    EXPECT_FALSE(request.made());
    for (const Asked& asked : row.asked) {
      EXPECT_EQ(request.Take(asked.signal, asked.leaves, asked.lingers),
                asked.meaning)
          << row.name;
      if (asked.of_rank) request.IsOfRank();
      EXPECT_EQ(request.signal(), asked.expect) << row.name;
      EXPECT_EQ(request.made(), asked.expect != 0) << row.name;
    }
  }
}

TEST(LeaveRequest, WaitsOnceForTheDaemon) {
  LeaveRequest request;
  EXPECT_FALSE(request.TakeDue(At(1)));
  request.WaitUntil(At(5));
  EXPECT_EQ(request.due(), At(5));
  EXPECT_FALSE(request.TakeDue(At(4)));
  EXPECT_TRUE(request.TakeDue(At(5)));
  EXPECT_FALSE(request.TakeDue(At(6)));
  EXPECT_EQ(request.due(), absl::InfiniteFuture());
  request.WaitUntil(At(9));
  request.WaitNoLonger();
  EXPECT_FALSE(request.TakeDue(At(10)));
}

}  // namespace
}  // namespace rollcall
