// Notices: one test for each sentence of the protocol.
#include <gtest/gtest.h>

#include <csignal>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

FromDaemon NoticeOf(uint64_t number, uint64_t generation,
                    absl::Duration deadline = absl::ZeroDuration()) {
  FromDaemon from;
  v1::Notice& notice = *from.message.mutable_notice();
  notice.set_notice(number);
  notice.set_kind(v1::NOTICE_KIND_DRAIN);
  notice.set_generation(generation);
  if (deadline > absl::ZeroDuration()) {
    ToProto(deadline, notice.mutable_deadline());
  }
  return from;
}

TEST(AgentNotice, LinkedRanksComeToTheirBoundary) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, NoticeOf(3, 9), ""},  // For another generation.
      {1.0, NoticeOf(4, 1), "NOTICE 4 15s"},
      {1.1, RankAtBoundary{1, 1}, ""},
      {1.2, RankAtBoundary{1, 0}, "notice-seen 4 of 1"},
      {1.3, NoticeOf(3, 1), ""},  // Older.
      {1.4, NoticeOf(6, 1), "NOTICE 6 15s; notice-seen 6 of 1"},
      {1.5, Down(), ""},
      {1.6, AgentTick{}, "dial"},
      {1.7, StreamUp{}, "hello i11"},
      {1.8, Welcome(), "notice-seen 6 of 1"},
      {60.0, AgentTick{}, "beat 0"},  // No rank is killed for it.
      {60.1, AbortOf(1), "ABORT 1"},
      {60.2, RankWaits{1, 0, 9, true}, ""},
      {60.2, RankWaits{1, 1, 9, true}, "stopped 1"},
  });
}

TEST(AgentNotice, OneThatComesBeforeTheRanksAreStartedIsKept) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, Proposal(2), "ABORT 1; PREPARE 2"},
      {1.1, PreparationDone{2}, ""},
      {1.2, RankWaits{1, 0, 4, true}, ""},
      {1.2, RankWaits{1, 1, 4, true}, "prepared 2 0@4 1@4"},
      {1.3, RankEnded{1, 1, 1}, "STOP 1 15s"},
      {1.4, CommitOf(2), ""},
      {1.5, NoticeOf(3, 1), ""},
      {1.5, NoticeOf(4, 2), ""},
      {1.6, Gone(1, {1}),
       "START 2 port 23456 fresh 1 waiting 0; NOTICE 4 15s; PASS 1 15"},
  });
}

TEST(AgentNotice, PlainRanksGetTheSignalAndTheirTime) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, NoticeOf(1, 1), "NOTICE 1 15s; PASS 0,1 15"},
      {1.1, NoticeOf(2, 1), "NOTICE 2 15s"},  // The ranks get the signal once.
      {2.0, RankEnded{1, 0, 75}, "exited 0=75/0 by us"},
      {16.0, AgentTick{}, "beat 0"},
      {16.1, AgentTick{}, "STOP 1 0"},
      {16.2, RankEnded{1, 1, 0, SIGKILL},
       "exited 1=0/9 by us, killed; notice-seen 2 of 1"},
      {16.3, AbortOf(1), "ABORT 1; STOP 0 0"},
      {16.4, Gone(1), "stopped 1"},
  });
}

// A linked rank that is not elastic gets no signal with a notice. At the
// deadline it gets SIGTERM, which ends it if SIGTERM has the default action.
TEST(AgentNotice, ALinkedRankThatIsKilledAtTheDeadlineHasNotFailed) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.5, RankAttended{1, 0, false}, ""},
      {0.5, RankAttended{1, 1, false}, ""},
      {1.0, NoticeOf(1, 1, absl::Seconds(2)), "NOTICE 1 2s"},
      {3.0, AgentTick{}, "beat 0; STOP 0,1 0"},
      {3.1, RankEnded{1, 0, 0, SIGTERM}, "exited 0=0/15 by us, killed"},
      {3.1, RankEnded{1, 1, 0, SIGKILL},
       "exited 1=0/9 by us, killed; notice-seen 1 of 1"},
  });
}

TEST(AgentNotice, HoweverOneEndsThatWasSignalledItIsOurDoing) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, NoticeOf(1, 1, absl::Seconds(4)), "NOTICE 1 4s; PASS 0,1 15"},
      {1.1, RankEnded{1, 0, 0, SIGTERM}, "exited 0=0/15 by us"},
      {1.2, RankEnded{1, 1, 0, SIGSEGV},
       "exited 1=0/11 by us; notice-seen 1 of 1"},
      {1.3, Gone(1), ""},
      {1.4, AbortOf(1), "ABORT 1; stopped 1"},
  });
}

TEST(AgentNotice, WhoHadItsTimeGetsNoSecondGrace) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, NoticeOf(1, 1, absl::Seconds(10)), "NOTICE 1 10s; PASS 0,1 15"},
      {7.0, AbortOf(1), "ABORT 1; STOP 0,1 4s"},
  });
}

// Its exit 0 is its own, so the daemon does not begin the job again.
TEST(AgentNotice, ARankThatHasFinishedIsNotSignalled) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, RankUnlinked{0}, ""},
      {1.1, NoticeOf(1, 1), "NOTICE 1 15s"},
      {1.2, RankEnded{1, 0, 0}, "exited 0=0/0"},
      // One that does not end is killed at the deadline like any other.
      {1.3, RankUnlinked{1}, ""},
      {16.1, AgentTick{}, "beat 0; STOP 1 0"},
  });
}

TEST(AgentNotice, WithPlainAndLinkedRanksEachIsToldItsWay) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.4, RankAttended{1, 0, true}, ""},
      {1.0, NoticeOf(1, 1), "NOTICE 1 15s; PASS 1 15"},
      // Rank 1 was about to attend when it got the signal, and reports it.
      {1.1, RankAttended{1, 1, true}, ""},
      {1.1, RankAskedToLeave{1}, ""},
      {1.2, RankAtBoundary{1, 0}, ""},
      {1.3, RankAtBoundary{1, 1}, "notice-seen 1 of 1"},
      {16.5, AgentTick{}, "beat 0"},
      {17.0, AbortOf(1), "ABORT 1"},
  });
}

TEST(AgentNotice, ARankThatIsAskedToGoTakesItsNodeAlong) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, RankAskedToLeave{1}, "leaving"},
      {1.0, RankAskedToLeave{0}, ""},  // The other rank, by the same signal.
      {1.1, NoticeOf(1, 1, absl::Seconds(15)), "NOTICE 1 15s"},
      {1.2, RankAtBoundary{1, 0}, ""},
      {1.3, RankAtBoundary{1, 1}, "notice-seen 1 of 1"},
      {1.4, AbortOf(1), "ABORT 1"},
      {1.5, RankWaits{1, 0, 4, true}, ""},
      {1.5, RankWaits{1, 1, 4, true}, "stopped 1"},
      {1.6, EndOf(0, v1::REASON_CODE_LEAVING), "STOP 0,1 15s"},
      {1.7, Gone(1), "end-seen; EXIT 0"},
  });
}

TEST(AgentNotice, ASignalToTheWholeNodeIsOneWish) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      // A service manager signals the ranks and the agent alike.
      {1.0, RankAskedToLeave{0}, "leaving"},
      {1.0, LeaveAsked{SIGTERM}, ""},
      {1.1, RankAskedToLeave{1}, ""},
      {1.2, NoticeOf(1, 1), "NOTICE 1 15s"},
      {2.0, LeaveAsked{SIGTERM}, "STOP 0,1 0; ABORT 1"},
  });
}

}  // namespace
}  // namespace rollcall
