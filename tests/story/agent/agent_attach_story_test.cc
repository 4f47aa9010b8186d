// An agent that starts no ranks (join --attach). Worlds are made without its
// ranks; ranks come, go and answer over the socket.
#include <gtest/gtest.h>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

using Row = AgentStory::Row;

AgentStory Attach() { return AgentStory(/*once=*/false, /*attach=*/true); }

FromDaemon NoticeOf(uint64_t number, uint64_t generation) {
  FromDaemon from;
  v1::Notice& notice = *from.message.mutable_notice();
  notice.set_notice(number);
  notice.set_kind(v1::NOTICE_KIND_DRAIN);
  notice.set_generation(generation);
  return from;
}

// Both ranks of generation 1 have attached.
std::vector<Row> Attached() {
  std::vector<Row> rows = Running(1);
  rows.push_back({0.4, RankAttended{1, 0, true}, ""});
  rows.push_back({0.4, RankAttended{1, 1, true}, ""});
  return rows;
}

TEST(AgentAttach, AWorldBeginsAndEndsWithoutItsRanks) {
  AgentStory story = Attach();
  story.Tell(Running(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.0, Gone(1), "stopped 1"},
      {1.1, Proposal(2), "PREPARE 2"},
      {1.2, PreparationDone{2}, "prepared 2"},
      {1.3, CommitOf(2), "START 2 port 23456"},
      // Rank 1 attends late, and in the second world.
      {60.0, RankAttended{2, 1, true}, ""},
      {60.1, AbortOf(2), "ABORT 2; STOP 0 15s"},
      {60.1, Gone(2, {0}), ""},
      {60.2, RankWaits{2, 1, 0, false}, "stopped 2"},
  });
}

TEST(AgentAttach, ARankThatIsGoneIsReplacedInTheNextWorld) {
  AgentStory story = Attach();
  story.Tell(Attached());
  story.Tell({
      {1.0,
       RankEnded{.generation = 1, .local_rank = 1, .code = 1, .gone = true},
       "exited 1=1/0 gone"},
      {1.1, AbortOf(1), "ABORT 1; STOP 1 15s"},
      {1.1, Gone(1, {1}), ""},
      {1.2, RankWaits{1, 0, 7, true}, "stopped 1"},
      {1.3, Proposal(2), "PREPARE 2"},
      {1.4, PreparationDone{2}, "prepared 2 0@7"},
      {1.5, CommitOf(2), "START 2 port 23456 fresh 1 waiting 0"},
      {5.0, RankAttended{2, 1, true}, ""},
      {6.0, RankEnded{1, 0}, "exited 0=0/0"},
      {6.0, RankEnded{2, 1}, "exited 1=0/0"},
      {6.1, EndOf(0), "ABORT 2; STOP 0,1 15s"},
      {6.1, RanksGone{{{1, 0}, {2, 1}}}, "end-seen; EXIT 0"},
  });
}

// The agent cannot kill such a rank, and the rank's world may still run.
TEST(AgentAttach, ARankThatDoesNotAnswerHoldsItsNodeBack) {
  AgentStory story = Attach();
  story.Tell(Attached());
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 7, true}, ""},
      {1.2, Proposal(2), "PREPARE 2"},
      {1.3, PreparationDone{2}, ""},
      {16.0, AgentTick{}, "beat 0; STOP 1 0"},
      {300.0, AgentTick{}, "beat 0"},
      // The rank's connection has ended.
      {300.1, RankEnded{1, 1, 1}, ""},
      {300.1, Gone(1, {1}), "prepared 2 0@7"},
  });
}

TEST(AgentAttach, AnAgentThatEndsWaitsForNoRankLongerThanItsGrace) {
  AgentStory story = Attach();
  story.Tell(Attached());
  story.Tell({
      {1.0, EndOf(3, v1::REASON_CODE_RANK_EXIT), "ABORT 1; STOP 0,1 15s"},
      {1.1, RankEnded{1, 0, 1}, ""},
      {1.1, Gone(1, {0}), ""},
      {15.9, AgentTick{}, "beat 0"},
      {16.0, AgentTick{}, "end-seen; EXIT 3"},
  });
}

TEST(AgentAttach, OneThatWasToldLongAgoDelaysNoEnd) {
  AgentStory story = Attach();
  story.Tell(Attached());
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 7, true}, ""},
      {16.0, AgentTick{}, "beat 0; STOP 1 0"},
      {20.0, EndOf(3, v1::REASON_CODE_RANK_EXIT), "STOP 0 15s"},
      {20.1, RankEnded{1, 0, 1}, ""},
      {20.1, Gone(1, {0}), ""},
      {20.1, AgentTick{}, "beat 0; end-seen; EXIT 3"},
  });
}

TEST(AgentAttach, ANoticeIsNotASignalAndKillsNobody) {
  AgentStory story = Attach();
  story.Tell(Running(1));
  story.Tell({
      {0.4, RankAttended{1, 0, false}, ""},
      {1.0, NoticeOf(1, 1), "NOTICE 1 15s"},
      {20.0, AgentTick{}, "beat 0"},
      // The notice does not wait for a rank that has not attended.
      {20.1, RankAtBoundary{1, 0}, "notice-seen 1 of 1"},
  });
}

TEST(AgentAttach, ARankThatComesAfterTheNoticeReachesTheBoundaryToo) {
  AgentStory story = Attach();
  story.Tell(Running(1));
  story.Tell({
      {0.4, RankAttended{1, 0, true}, ""},
      {1.0, NoticeOf(1, 1), "NOTICE 1 15s"},
      {1.1, RankAttended{1, 1, true}, ""},
      {1.2, RankAtBoundary{1, 0}, ""},
      {1.3, RankAtBoundary{1, 1}, "notice-seen 1 of 1"},
  });
}

}  // namespace
}  // namespace rollcall
