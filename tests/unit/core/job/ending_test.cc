#include "daemon/core/job/state/ending.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "daemon/base/durations.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

// lease is 5 s, stop_grace 15 s.
const Limits kLimits;
constexpr double kNever = 1e9;

absl::Time AtOrNever(double second) {
  return second == kNever ? absl::InfiniteFuture()
                          : absl::UnixEpoch() + absl::Seconds(second);
}

v1::End EndWith(int exit_code, double linger = 0) {
  v1::End end;
  end.set_exit_code(exit_code);
  end.set_finished(exit_code == 0);
  end.set_reason("why");
  if (linger > 0) ToProto(absl::Seconds(linger), end.mutable_linger());
  return end;
}

TEST(Ending, NothingIsDueBeforeTheEnd) {
  Ending ending;
  EXPECT_FALSE(ending.end().has_value());
  EXPECT_FALSE(ending.Lingers(true));
  EXPECT_EQ(ending.LingerLeft(AtOrNever(0)), absl::ZeroDuration());
  EXPECT_EQ(ending.Due(true), absl::InfiniteFuture());
  EXPECT_EQ(ending.Due(false), absl::InfiniteFuture());
  EXPECT_FALSE(
      ending.Forget(/*attached=*/false, /*streams=*/false, AtOrNever(9)));
}

TEST(Ending, WaitsForAgentsThatHaveNotHeardOfIt) {
  struct {
    const char* name;
    double linger;
    bool ranks_live;
    // Until when a job that ends at 10 waits: if agents attend, and if none
    // does.
    double attended_until;
    double redial_until;
  } const kRows[] = {
      {"no rank runs: one lease", 0, false, 15, 15},
      {"ranks get stop_grace", 0, true, 30, 15},
      {"it lingers, and then ranks get stop_grace", 60, false, 90, 15},
      {"both", 60, true, 105, 15},
  };
  for (const auto& row : kRows) {
    Ending ending;
    ending.Begin(EndWith(1, row.linger), row.ranks_live, AtOrNever(10),
                 kLimits);
    ASSERT_TRUE(ending.end().has_value()) << row.name;
    EXPECT_EQ(ending.end()->reason(), "why") << row.name;
    EXPECT_EQ(ending.Due(true), AtOrNever(row.attended_until)) << row.name;
    EXPECT_EQ(ending.Due(false), AtOrNever(row.redial_until)) << row.name;
    EXPECT_EQ(ending.WaitsUntil(true), AtOrNever(row.attended_until))
        << row.name;
  }
}

TEST(Ending, IsForgottenOnceNoAgentIsWaitedFor) {
  struct {
    const char* name;
    bool attached;
    bool streams;
    double now;
    bool forgotten;
  } const kRows[] = {
      {"no agent is left", false, false, 10, true},
      {"agents attend", true, true, 29.9, false},
      {"agents attended for too long", true, true, 30, true},
      {"a stream has broken", true, false, 14.9, false},
      {"it did not come back", true, false, 15, true},
  };
  for (const auto& row : kRows) {
    Ending ending;
    ending.Begin(EndWith(1), /*ranks_live=*/true, AtOrNever(10), kLimits);
    EXPECT_EQ(ending.Forget(row.attached, row.streams, AtOrNever(row.now)),
              row.forgotten)
        << row.name;
    EXPECT_EQ(ending.Due(row.streams) == absl::InfiniteFuture(), row.forgotten)
        << row.name;
    // Forget returns true only once.
    EXPECT_EQ(
        ending.Forget(/*attached=*/false, /*streams=*/false, AtOrNever(99)),
        !row.forgotten)
        << row.name;
  }
}

TEST(Ending, StopAgainEndsTheLingerAndOnlyNowTakesTheGrace) {
  struct {
    const char* name;
    double linger;
    bool now;
    bool changes;
  } const kRows[] = {
      {"ranks have stop_grace already", 0, false, false},
      {"ranks are killed", 0, true, true},
      {"a job that lingers ends", 60, false, true},
      {"a job that lingers ends at once", 60, true, true},
  };
  for (const auto& row : kRows) {
    Ending ending;
    ending.Begin(EndWith(1, row.linger), /*ranks_live=*/false, AtOrNever(10),
                 kLimits);
    EXPECT_EQ(ending.Lingers(true), row.linger > 0) << row.name;
    EXPECT_EQ(ending.StopAgain(row.now), row.changes) << row.name;
    EXPECT_EQ(ending.end()->now(), row.now) << row.name;
    EXPECT_EQ(ending.Lingers(true), row.linger > 0 && !row.changes) << row.name;
    // There is no second stop, but ranks that still have their grace may be
    // killed.
    EXPECT_FALSE(ending.StopAgain(row.now)) << row.name;
    EXPECT_EQ(ending.StopAgain(true), !row.now) << row.name;
  }
}

TEST(Ending, LingersWhileAgentsAttend) {
  Ending ending;
  ending.Begin(EndWith(1, 60), /*ranks_live=*/false, AtOrNever(10), kLimits);
  EXPECT_TRUE(ending.Lingers(/*streams=*/true));
  EXPECT_FALSE(ending.Lingers(/*streams=*/false));
  EXPECT_EQ(ending.LingerLeft(AtOrNever(10)), absl::Seconds(60));
  EXPECT_EQ(ending.LingerLeft(AtOrNever(30)), absl::Seconds(40));
  EXPECT_EQ(ending.LingerLeft(AtOrNever(71)), absl::ZeroDuration());
  // An agent that comes back is told the time that is left.
  const Node node;
  EXPECT_EQ(
      FromProto(
          ending.For(node, false, std::nullopt, true, AtOrNever(30)).linger()),
      absl::Seconds(40));
  EXPECT_EQ(FromProto(ending.end()->linger()), absl::Seconds(60));
  Ending without;
  without.Begin(EndWith(1), /*ranks_live=*/false, AtOrNever(10), kLimits);
  EXPECT_FALSE(
      without.For(node, false, std::nullopt, true, AtOrNever(30)).has_linger());
}

struct Told {
  const char* name;
  int exit_code;  // The job's exit code; 0: finished.
  const char* command;
  const char* common = "make";  // nullptr: no world was committed.
  bool spare = false;
  uint64_t served_in = 0;
  bool excluded = false;
  bool knows_all_worlds = true;
  uint64_t seen = 0;
  int told;
};

TEST(Ending, TellsEachNodeItsExitCode) {
  const int kOther = kExitRendezvous;
  const Told kRows[] = {
      {.name = "a member",
       .exit_code = 0,
       .command = "make",
       .served_in = 3,
       .told = 0},
      {.name = "a member of a job that failed",
       .exit_code = 9,
       .command = "make",
       .served_in = 3,
       .told = 9},
      {.name = "a former member with another command",
       .exit_code = 0,
       .command = "test",
       .spare = true,
       .served_in = 3,
       .told = 0},
      {.name = "a former member that is a spare now",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .served_in = 3,
       .told = 9},
      {.name = "a spare",
       .exit_code = 0,
       .command = "make",
       .spare = true,
       .told = 0},
      {.name = "a spare of a job that failed",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .told = 0},
      {.name = "a spare of a job that failed, with another command",
       .exit_code = 9,
       .command = "test",
       .spare = true,
       .told = 0},
      {.name = "a spare whose command never ran",
       .exit_code = 0,
       .command = "test",
       .spare = true,
       .told = kOther},
      {.name = "a node without a seat whose command never ran",
       .exit_code = 0,
       .command = "test",
       .told = kOther},
      {.name = "a node that says no command",
       .exit_code = 0,
       .command = "",
       .spare = true,
       .told = 0},
      {.name = "members with several commands",
       .exit_code = 0,
       .command = "test",
       .common = "",
       .spare = true,
       .told = 0},
      {.name = "no world",
       .exit_code = 0,
       .command = "test",
       .common = nullptr,
       .spare = true,
       .told = 0},
      {.name = "a node that never had a seat, of a job that failed",
       .exit_code = 9,
       .command = "make",
       .told = 9},
      {.name = "an excluded node",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .excluded = true,
       .told = 9},
      {.name = "an excluded node with another command",
       .exit_code = 0,
       .command = "test",
       .spare = true,
       .excluded = true,
       .told = 0},
      {.name = "it may have been in a world before a restart",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .knows_all_worlds = false,
       .seen = 3,
       .told = 9},
      {.name = "it has seen no world before a restart",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .knows_all_worlds = false,
       .told = 0},
      {.name = "it was in no world that this daemon has seen",
       .exit_code = 9,
       .command = "make",
       .spare = true,
       .seen = 3,
       .told = 0},
  };
  for (const Told& row : kRows) {
    Ending ending;
    ending.Begin(EndWith(row.exit_code), /*ranks_live=*/false, AtOrNever(10),
                 kLimits);
    std::optional<v1::WorldCommit> world_commit;
    if (row.common != nullptr)
      world_commit.emplace().set_common_digest(row.common);
    Node node;
    node.hello.set_command_digest(row.command);
    node.hello.set_generation_seen(row.seen);
    node.served_in = row.served_in;
    node.state = row.spare ? v1::NODE_STATE_SPARE : v1::NODE_STATE_FINISHED;
    const v1::End told = ending.For(node, row.excluded, world_commit,
                                    row.knows_all_worlds, AtOrNever(11));
    const bool other = row.told == kOther;
    EXPECT_EQ(told.exit_code(), row.told) << row.name;
    EXPECT_EQ(told.finished(), row.exit_code == 0 && !other) << row.name;
    EXPECT_EQ(told.code() == v1::REASON_CODE_OTHER_COMMAND, other) << row.name;
    EXPECT_EQ(told.reason() == "why", !other) << row.name;
    // What one node is told does not change the end for the others.
    EXPECT_EQ(ending.end()->exit_code(), row.exit_code) << row.name;
  }
}

}  // namespace
}  // namespace rollcall
