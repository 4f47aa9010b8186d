// Which processes may enter a world at an agent that starts no ranks, and when
// such a rank counts as gone.
#include "client/agent/core/attached_places.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

using Places = AttachedPlaces;

std::string Open(Places& places, uint64_t generation) {
  return absl::StrCat("enter ", absl::StrJoin(places.Open(generation), ","));
}

std::string Arrive(Places& places, uint32_t local_rank) {
  return places.Arrive(local_rank) ? "enters" : "waits";
}

std::string Stop(Places& places, uint64_t born, uint32_t local_rank) {
  switch (places.Stop({born, local_rank})) {
    case Places::Stopping::kGone:
      return "gone";
    case Places::Stopping::kEndIt:
      return "end it";
    default:
      return "awaited";
  }
}

std::string Leave(Places& places, uint32_t local_rank) {
  const Places::Departure left = places.Leave(local_rank, 77, absl::OkStatus());
  return absl::StrCat("born ", left.ended.generation, " rank ",
                      left.ended.local_rank, " code ", left.ended.code,
                      left.ended.gone ? " unsaid" : "",
                      left.gone.has_value() ? " gone" : "");
}

struct Row {
  std::function<std::string(Places&)> act;
  std::string expect;
};

// The agent has two places.
void Tell(const std::vector<Row>& rows) {
  Places places(2);
  int number = 0;
  for (const Row& row : rows) {
    ++number;
    EXPECT_EQ(row.act(places), row.expect) << "row " << number;
  }
}

#define DO(expression) [](Places& p) { return std::string(expression); }
#define NOTE(expression)  \
  [](Places& p) {         \
    expression;           \
    return std::string(); \
  }

TEST(AttachedPlaces, AProcessThatIsEarlyEntersTheFirstWorld) {
  Tell({
      {DO(Arrive(p, 1)), "waits"},
      {DO(Open(p, 3)), "enter 1"},
      {DO(Arrive(p, 0)), "enters"},
      {NOTE(p.Close(3)), ""},
      // Both processes keep their places.
      {DO(Open(p, 4)), "enter "},
      {DO(Leave(p, 1)), "born 3 rank 1 code 1 unsaid"},
  });
}

TEST(AttachedPlaces, AWorldHasOneProcessForARank) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
      {DO(Arrive(p, 0)), "waits"},
      {DO(Leave(p, 0)), "born 1 rank 0 code 1 unsaid"},
      // The peers have already connected with the first process.
      {DO(Arrive(p, 0)), "waits"},
      {NOTE(p.Close(1)), ""},
      {DO(Stop(p, 1, 0)), "gone"},
      {DO(Open(p, 2)), "enter 0"},
  });
}

TEST(AttachedPlaces, ANewcomerThatLeftDoesNotEnter) {
  Tell({
      {DO(Arrive(p, 0)), "waits"},
      {NOTE(p.NewcomerLeft(0)), ""},
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
  });
}

TEST(AttachedPlaces, OneThatDoesNotAnswerIsAwaitedUntilItsConnectionEnds) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
      {NOTE(p.Close(1)), ""},
      {DO(Stop(p, 1, 0)), "awaited"},
      {DO(Stop(p, 1, 0)), "awaited"},
      {DO(Leave(p, 0)), "born 1 rank 0 code 1 unsaid gone"},
  });
}

TEST(AttachedPlaces, OneThatAnswersLateIsToldToEnd) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
      // The answer is for a world that still runs, or for another world.
      {DO(absl::StrCat(p.Answered(0, 1))), "0"},
      {NOTE(p.Close(1)), ""},
      {DO(absl::StrCat(p.Answered(0, 0))), "0"},
      {DO(Stop(p, 1, 0)), "awaited"},
      {DO(absl::StrCat(p.Answered(0, 1))), "1"},
      {DO(Leave(p, 0)), "born 1 rank 0 code 1 unsaid gone"},
  });
}

TEST(AttachedPlaces, OneThatWaitsIsToldToEnd) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 1)), "enters"},
      {NOTE(p.Close(1)), ""},
      {DO(absl::StrCat(p.Answered(1, 1))), "0"},
      {DO(Stop(p, 1, 1)), "end it"},
      {DO(Leave(p, 1)), "born 1 rank 1 code 1 unsaid gone"},
  });
}

TEST(AttachedPlaces, TheAnswerCountsForOneWorld) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 1)), "enters"},
      {NOTE(p.Close(1)), ""},
      {DO(absl::StrCat(p.Answered(1, 1))), "0"},
      {DO(Open(p, 2)), "enter "},
      {NOTE(p.Close(2)), ""},
      {DO(Stop(p, 1, 1)), "awaited"},
  });
}

TEST(AttachedPlaces, APlaceThatIsStoppedTakesNobodyInThisWorld) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Stop(p, 1, 0)), "gone"},
      {DO(Arrive(p, 0)), "waits"},
      {DO(Arrive(p, 1)), "enters"},
  });
}

v1::RankFinished Finished(uint32_t code, const std::string& reason,
                          bool permanent) {
  v1::RankFinished finished;
  finished.set_exit_code(code);
  finished.set_reason(reason);
  finished.set_permanent(permanent);
  finished.set_started_again(!permanent);
  return finished;
}

TEST(AttachedPlaces, AProcessSaysHowItEnds) {
  Tell({
      {DO(Open(p, 1)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
      {DO(Arrive(p, 1)), "enters"},
      {NOTE(p.Finished(0, Finished(0, "", false))), ""},
      {NOTE(p.Finished(1, Finished(3, "no data", true))), ""},
      {DO(Leave(p, 0)), "born 1 rank 0 code 0"},
      {DO(p.Leave(1, 77, absl::OkStatus()).ended.stderr_tail), "no data"},
      // The next process has not sent this reason.
      {NOTE(p.Close(1)), ""},
      {DO(Open(p, 2)), "enter "},
      {DO(Arrive(p, 0)), "enters"},
      {DO(Leave(p, 0)), "born 2 rank 0 code 1 unsaid"},
  });
}

TEST(AttachedPlaces, AnOlderEndDoesNotCloseAWorld) {
  Tell({
      {DO(Open(p, 5)), "enter "},
      {NOTE(p.Close(4)), ""},
      {DO(Arrive(p, 0)), "enters"},
      {NOTE(p.Close(6)), ""},
      {DO(Arrive(p, 1)), "waits"},
  });
}

TEST(AttachedPlaces, WhyTheAgentEndedTheConnectionIsTheReason) {
  Places places(2);
  places.Open(1);
  ASSERT_TRUE(places.Arrive(0));
  ASSERT_TRUE(places.Arrive(1));
  const RankEnded ended =
      places.Leave(0, 77, absl::InvalidArgumentError("step: too high\n")).ended;
  EXPECT_TRUE(ended.gone);
  EXPECT_EQ(ended.error_file,
            "the agent ended the connection of process 77: INVALID_ARGUMENT: "
            "step: too high?");
  EXPECT_EQ(ended.stderr_tail, "");
  // The reason that the process itself sent has priority.
  places.Finished(1, Finished(3, "no data", true));
  const RankEnded said =
      places.Leave(1, 78, absl::AbortedError("another")).ended;
  EXPECT_FALSE(said.gone);
  EXPECT_EQ(said.code, 3);
  EXPECT_TRUE(said.permanent);
  EXPECT_FALSE(said.started_again);
  EXPECT_EQ(said.error_file, "");
}

}  // namespace
}  // namespace rollcall
