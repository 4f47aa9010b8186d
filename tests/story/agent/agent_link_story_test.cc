// The stream to the daemon: how an agent dials, what it repeats, and which
// refusals end it.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

TEST(AgentLink, RedialsWithBackoffUntilTheJoinTimeout) {
  AgentStory story;
  story.Tell({
      {0.0, Down(), ""},
      {0.024, AgentTick{}, ""},
      {0.025, AgentTick{}, "dial"},  // Half of 50 ms, without jitter.
      {0.1, Down(), ""},
      {0.15, AgentTick{}, "dial"},
      {599.9, Down(), ""},
      {600.0, AgentTick{}, "EXIT 69"},
  });
}

TEST(AgentLink, RanksRunOnWhileTheDaemonIsAway) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(), ""},
      {1.1, RankEnded{1, 0}, ""},  // The report is lost.
      {1.2, AgentTick{}, "dial"},
      {1.3, StreamUp{}, "hello i11"},
      // The report is sent again.
      {1.3, Welcome(), "exited 0=0/0"},
  });
  EXPECT_EQ(story.hello().run(), "run1");
  EXPECT_EQ(story.hello().generation_seen(), 1u);
  EXPECT_EQ(story.hello().resume_state().running_generation(), 1u);
  EXPECT_FALSE(story.hello().resume_state().world_commit().empty());
  EXPECT_EQ(story.hello().resume_state().proof(), "proof of 1");
}

TEST(AgentLink, AnExitBetweenHelloAndWelcomeIsNotLost) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(), ""},
      {1.1, RankEnded{1, 0}, ""},
      {1.2, AgentTick{}, "dial"},
      {1.3, StreamUp{}, "hello i11"},
      {1.4, RankEnded{1, 1, 3}, ""},  // After Hello, before Welcome.
      {1.5, Welcome(), "exited 0=0/0; exited 1=3/0"},
  });
}

FactChanged Changed(const std::string& subject) {
  FactChanged changed;
  changed.change.set_subject(subject);
  return changed;
}

TEST(AgentLink, AChangedFactIsSentWhenTheDaemonIsThere) {
  FromDaemon welcome = Welcome();
  welcome.message.mutable_welcome()->set_takes_fact_changes(true);
  AgentStory story;
  story.Tell({
      {0.0, Changed("early"), ""},
      {0.1, StreamUp{}, "hello i11"},
      {0.2, Changed("eth0"), ""},
      {0.3, welcome, "changed early; changed eth0"},
      {0.4, Changed("eth1"), "changed eth1"},
      {0.5, Down(), ""},
  });
  // The latest eight are kept.
  for (int i = 0; i < 9; ++i) {
    story.Tell({{0.6, Changed(absl::StrCat("n", i)), ""}});
  }
  story.Tell({
      {0.7, AgentTick{}, "dial"},
      {0.8, StreamUp{}, "hello i11"},
      {0.8, welcome,
       "changed n1; changed n2; changed n3; changed n4; changed n5; "
       "changed n6; changed n7; changed n8"},
      {0.9, Down(), ""},
      {1.0, AgentTick{}, "dial"},
      {1.1, StreamUp{}, "hello i11"},
      // Nothing is sent twice.
      {1.1, welcome, ""},
  });
}

// An older daemon would end the stream of an agent that sends this message.
TEST(AgentLink, AnOlderDaemonIsToldOfNoChange) {
  AgentStory story;
  story.Tell({
      {0.0, Changed("early"), ""},
      {0.1, StreamUp{}, "hello i11"},
      {0.2, Welcome(), ""},
      {0.3, Changed("eth0"), ""},
  });
}

TEST(AgentLink, AnEvictedNodeStopsItsRanksAndExits) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_EVICTED),
       "ABORT 1; STOP 0,1 15s"},
      {1.1, Gone(1), "EXIT 77"},
  });
}

// The stream broke before the agent got the End, and the daemon may have been
// restarted since. The agent does not attend again by its token.
TEST(AgentLink, ADrainedNodeThatWasAwayExitsWithSuccess) {
  v1::Notice notice;
  notice.set_notice(1);
  notice.set_generation(1);
  notice.set_kind(v1::NOTICE_KIND_DRAIN);
  for (const bool own : {true, false}) {
    SCOPED_TRACE(own);
    AgentStory story;
    notice.clear_nodes();
    notice.add_nodes(own ? "b" : "a");
    v1::DaemonMessage message;
    *message.mutable_notice() = notice;
    story.Tell(Running(1));
    story.Tell({
        {1.0, FromDaemon{message}, "NOTICE 1 15s; PASS 0,1 15"},
        {1.1, Down(), ""},
        {1.2, AgentTick{}, "dial"},
        {1.3, StreamUp{}, "hello i11"},
        {1.4,
         Down(absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_EVICTED),
         "ABORT 1; STOP 0,1 14.6s"},
        {1.5, Gone(1), own ? "EXIT 0" : "EXIT 77"},
    });
  }
}

TEST(AgentLink, WhatWasPreparedIsSaidAgain) {
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome(), ""},
      {0.1, Proposal(1), "PREPARE 1"},
      {0.2, Down(), ""},
      {0.3, PreparationDone{1}, ""},
      {0.3, AgentTick{}, "dial"},
      {0.4, StreamUp{}, "hello i11"},
      {0.5, Welcome(), "prepared 1"},
      {0.6, CommitOf(1), "START 1 port 23456"},
  });
  EXPECT_EQ(story.hello().resume_state().prepared_generation(), 1u);
}

TEST(AgentLink, TheDaemonsGraceIsNotForEver) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {10.0, Down(), ""},
      {609.9, AgentTick{}, "dial"},
      {609.95, Down(), ""},
      {610.0, AgentTick{}, "ABORT 1; STOP 0,1 15s"},
      {611.0, Gone(1), "EXIT 69"},
  });
}

TEST(AgentLink, DeclaredLostItStopsAndAttendsAnew) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {10.0, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST),
       "ABORT 1; STOP 0,1 15s"},
      {10.1, AgentTick{}, "dial"},
      {10.2, StreamUp{}, "hello i12"},
      {10.2, Welcome(), ""},
      {10.3, Proposal(2), "PREPARE 2"},
      {10.4, PreparationDone{2}, ""},
      {10.5, Gone(1), "prepared 2"},
  });
  EXPECT_EQ(story.hello().resume_state().running_generation(), 0u);
  // A world that this node is not in may wait for its ranks to stop.
  AgentStory seatless;
  seatless.Tell(Running(1));
  seatless.Tell({
      {10.0, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST),
       "ABORT 1; STOP 0,1 15s"},
      {10.1, AgentTick{}, "dial"},
      {10.2, StreamUp{}, "hello i12"},
      {10.2, Welcome(), ""},
      {10.5, Gone(1), "stopped 1"},
      {11.0, Down(), ""},
      {11.1, AgentTick{}, "dial"},
      {11.2, StreamUp{}, "hello i12"},
      {11.2, Welcome(), "stopped 1"},
  });
}

TEST(AgentLink, OfARunThatNeverRanItComesToTheNext) {
  const StreamDown other =
      Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN);
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome("credential 1"), ""},
      {0.1, Proposal(7), "PREPARE 7"},
      {0.2, PreparationDone{7}, "prepared 7"},
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
      {1.2, other, "UNDO 7"},
      {2.0, AgentTick{}, "dial"},
      {2.1, StreamUp{}, "hello i12"},
  });
  EXPECT_EQ(story.hello().run(), "");
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
  EXPECT_EQ(story.hello().generation_seen(), 0u);
  story.Tell({{2.2, Welcome(), ""}, {2.3, Proposal(1), "PREPARE 1"}});
  // An agent whose ranks have run does not attend another run.
  AgentStory ran;
  ran.Tell(Running(1));
  ran.Tell(
      {{10.0, other, "ABORT 1; STOP 0,1 15s"}, {10.1, Gone(1), "EXIT 69"}});
}

TEST(AgentLink, AStrangerEndsItWhenThereIsNoHope) {
  AgentStory story;
  StreamDown other_daemon = Down(absl::StatusCode::kUnauthenticated);
  other_daemon.other_daemon = true;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.1, other_daemon, "EXIT 77"},
  });
}

TEST(AgentLink, RefusalsEndItWithTheRightCode) {
  struct Refusal {
    absl::StatusCode code;
    v1::RefusalCode refusal;
    const char* expect;
  };
  const Refusal kRows[] = {
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_UNAUTHENTICATED,
       "EXIT 77"},
      {absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_UNSPECIFIED,
       "EXIT 77"},
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_TOKEN_EXPIRED,
       "EXIT 77"},
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_TOKEN_REVOKED,
       "EXIT 77"},
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_TOKEN_USED_UP,
       "EXIT 77"},
      {absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_ROLE, "EXIT 77"},
      {absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_OTHER_JOB,
       "EXIT 77"},
      // This agent attended by its token.
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL,
       "EXIT 77"},
      {absl::StatusCode::kResourceExhausted, v1::REFUSAL_CODE_LIMIT, "EXIT 69"},
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_SLOW, ""},
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_NOT_LEADER, ""},
      // The refusal code decides, and not the status code.
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_TOKEN_EXPIRED,
       "EXIT 77"},
      {absl::StatusCode::kAborted, v1::REFUSAL_CODE_REPLACED, "EXIT 69"},
      {absl::StatusCode::kInvalidArgument, v1::REFUSAL_CODE_INVALID, "EXIT 69"},
      {absl::StatusCode::kFailedPrecondition, v1::REFUSAL_CODE_SETTINGS,
       "EXIT 2"},
      {absl::StatusCode::kNotFound, v1::REFUSAL_CODE_NO_JOB, ""},
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_UNSPECIFIED, ""},
  };
  for (const Refusal& row : kRows) {
    AgentStory story;
    story.Tell({
        {0.0, StreamUp{}, "hello i11"},
        {0.1, Down(row.code, row.refusal), row.expect},
    });
  }
}

TEST(AgentLink, ALeaderIsLookedForWithoutLongPauses) {
  AgentStory story;
  const StreamDown stands_by =
      Down(absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_NOT_LEADER);
  story.Tell(Running(1));
  story.Tell({{1.0, stands_by, ""}, {2.0, AgentTick{}, "dial"}});
  for (int i = 2; i < 30; i += 2) {
    const double at = i;
    // The daemon that was named as leader is gone, and the next one is not the
    // leader either.
    story.Tell({{at, Down(), ""}});
    EXPECT_LE(story.agent().NextDeadline(),
              absl::UnixEpoch() + absl::Seconds(at + 0.5));
    story.Tell({{at + 1.0, AgentTick{}, "dial"}, {at + 1.0, stands_by, ""}});
    EXPECT_LE(story.agent().NextDeadline(),
              absl::UnixEpoch() + absl::Seconds(at + 1.25));
    story.Tell({{at + 2.0, AgentTick{}, "dial"}});
  }
}

TEST(AgentLink, AnOlderStreamsEndIsNotItsOwn) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_REDIALED), ""},
      {1.1, AgentTick{}, "dial"},
  });
}

TEST(AgentLink, NothingIsDueThatIsOver) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {700.0, EndOf(3, v1::REASON_CODE_RANK_EXIT), "ABORT 1; STOP 0,1 15s"},
      {700.1, Down(), ""},
  });
  // This is long after the join timeout, so the loop must sleep until the ranks
  // are gone.
  EXPECT_EQ(story.agent().NextDeadline(), absl::InfiniteFuture());
}

TEST(AgentLink, ATakenNameIsTriedForALease) {
  AgentStory story;
  const StreamDown taken =
      Down(absl::StatusCode::kAlreadyExists, v1::REFUSAL_CODE_NAME_TAKEN);
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, taken, ""},
      {1.0, AgentTick{}, "dial"},
      {5.9, taken, ""},
      {6.5, AgentTick{}, "dial"},
      {6.6, taken, "EXIT 77"},
  });
}

}  // namespace
}  // namespace rollcall
