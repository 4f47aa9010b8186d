// The agent's side of the protocol, sentence by sentence.
#include "tests/story/agent_story.h"

#include <gtest/gtest.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

using Row = AgentStory::Row;

TEST(AgentRun, FromRollCallToTheEnd) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.4, RankEnded{1, 0}, "exited 0=0/0"},
      {0.5, RankEnded{1, 1}, "exited 1=0/0"},
      {0.5, Gone(1), ""},
      {0.6, EndOf(0), "ABORT 1; end-seen; EXIT 0"},
      {0.7, AgentTick{}, ""},
  });
}

TEST(AgentRun, BeatsAtTheIntervalItIsGiven) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.9, AgentTick{}, ""},
      {1.0, AgentTick{}, "beat 0"},
      {1.1, RankProgressed{1, 7}, ""},
      {1.5, AgentTick{}, ""},
      {2.0, AgentTick{}, "beat 7"},
  });
}

// That of rank 0 does, and this one has rank 1.
TEST(AgentRun, HowItGoesIsNotForEveryNodeToSay) {
  v1::Pace pace;
  pace.set_loss(2.5);
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.9, AgentTick{}, ""},
      {1.0, AgentTick{}, "beat 0"},
      {1.1, RankProgressed{1, 7, 0, pace}, ""},
      {2.0, AgentTick{}, "beat 7"},
  });
}

TEST(AgentRun, AnAbortStopsTheRanksBeforeStoppedIsSaid) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.1, RankEnded{1, 0, 0, SIGTERM}, ""},  // On our order: no cause.
      {1.2, RankEnded{1, 1, 0, SIGTERM}, ""},
      {1.2, Gone(1), "stopped 1"},
      {1.3, Proposal(2), "PREPARE 2"},
  });
}

TEST(AgentRun, PreparedWaitsForTheRanksOfTheOldGeneration) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.0, Proposal(2), "PREPARE 2"},
      {1.1, PreparationDone{2}, ""},
      {1.2, Gone(1), "prepared 2"},
      {1.3, CommitOf(2), "START 2 port 23456"},
  });
}

TEST(AgentRun, WhatASignalOfOthersDidIsStillTold) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.1, RankEnded{1, 0, 0, SIGKILL},
       "exited 0=0/9"},  // Before our SIGKILL.
      {1.1, RankEnded{1, 1, 1, 0}, ""},
      {16.1, Gone(1), "stopped 1"},
  });
}

TEST(AgentRun, OldGenerationsAreFenced) {
  AgentStory story;
  story.Tell(Running(5));
  story.Tell({
      {1.0, Proposal(5), ""},
      {1.0, Proposal(4), ""},
      {1.0, AbortOf(4), ""},
      {1.0, CommitOf(5), ""},
      {1.0, RankEnded{4, 0, 1}, ""},
      {1.0, Gone(4), ""},
  });
}

TEST(AgentRun, ASupersededProposalIsUndone) {
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome(), ""},
      {0.1, Proposal(1), "PREPARE 1"},
      {0.2, Proposal(2), "UNDO 1; PREPARE 2"},
      {0.3, PreparationDone{1}, ""},
      {0.3, CommitOf(1), ""},
      {0.4, PreparationDone{2}, "prepared 2"},
      {0.5, AbortOf(2), "UNDO 2; stopped 2"},
  });
}

TEST(AgentRun, APreparationThatFailsIsRefused) {
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome(), ""},
      {0.1, Proposal(1), "PREPARE 1"},
      {0.2, PreparationFailed{1, "no port"}, "UNDO 1; refused 1"},
      {0.3, CommitOf(1), ""},
  });
}

TEST(AgentRun, ARefusalThatNobodyHeardIsSaidAgain) {
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome(), ""},
      {0.1, Proposal(1), "PREPARE 1"},
      {0.2, Down(), ""},
      {0.2, PreparationFailed{1, "no port"}, "UNDO 1"},
      {0.3, AgentTick{}, "dial"},
      {0.3, StreamUp{}, "hello i11"},
      {0.4, Welcome(), "refused 1"},
      {0.4, Proposal(1), ""},
      {0.5, AbortOf(1), "stopped 1"},
      {0.6, Down(), ""},
      {0.7, AgentTick{}, "dial"},
      {0.8, StreamUp{}, "hello i11"},
      {0.8, Welcome(), "stopped 1"},
  });
}

TEST(AgentLink, RedialsWithBackoffUntilTheJoinTimeout) {
  AgentStory story;
  story.Tell({
      {0.0, Down(), ""},
      {0.024, AgentTick{}, ""},
      {0.025, AgentTick{}, "dial"},  // Half of 50 ms, with no chance added.
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
      {1.1, RankEnded{1, 0}, ""},  // Nobody hears it now,
      {1.2, AgentTick{}, "dial"},
      {1.3, StreamUp{}, "hello i11"},
      // so it is said again.
      {1.3, Welcome(), "exited 0=0/0"},
  });
  EXPECT_EQ(story.hello().run(), "run1");
  EXPECT_EQ(story.hello().generation_seen(), 1u);
  EXPECT_EQ(story.hello().held().running_generation(), 1u);
  EXPECT_FALSE(story.hello().held().seal().empty());
  EXPECT_EQ(story.hello().held().proof(), "proof of 1");
}

TEST(AgentLink, AnExitBetweenHelloAndWelcomeIsNotLost) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(), ""},
      {1.1, RankEnded{1, 0}, ""},
      {1.2, AgentTick{}, "dial"},
      {1.3, StreamUp{}, "hello i11"},
      {1.4, RankEnded{1, 1, 3}, ""},  // Hello is said, and nobody listens yet.
      {1.5, Welcome(), "exited 0=0/0; exited 1=3/0"},
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

// Its stream broke before it heard the End, and the daemon may have been
// started again since: it does not come back by its token.
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
  EXPECT_EQ(story.hello().held().prepared_generation(), 1u);
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
  EXPECT_EQ(story.hello().held().running_generation(), 0u);
  // A world without it may wait for its ranks.
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
  // Of one that ran it keeps out of another's way.
  AgentStory ran;
  ran.Tell(Running(1));
  ran.Tell(
      {{10.0, other, "ABORT 1; STOP 0,1 15s"}, {10.1, Gone(1), "EXIT 69"}});
}

TEST(AgentLink, ShowsItsCredentialInsteadOfItsToken) {
  AgentStory story;
  story.Tell({{0.0, StreamUp{}, "hello i11"}});
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().run(), "");
  story.Tell({
      {0.0, Welcome("credential 1"), ""},
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
  EXPECT_EQ(story.hello().run(), "run1");
  // The latest counts.
  story.Tell({
      {1.3, Welcome("credential 2"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
}

TEST(AgentLink, TheNextCredentialTakesTheFirstOnesPlace) {
  AgentStory story;
  FromDaemon renewed;
  renewed.message.mutable_new_credential()->set_node_credential("credential 2");
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome("credential 1"), ""},
      {0.5, renewed, ""},
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
}

TEST(AgentLink, DeclaredLostItNamesTheLifeItsCredentialWasGivenTo) {
  AgentStory story;
  StreamDown lost = Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST);
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome("credential 1"), ""},
      {1.0, lost, ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i12"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 11u);
  // Lost once more before it was welcomed: it has no other credential.
  lost.fresh_incarnation = 13;
  story.Tell({
      {1.3, lost, ""},
      {1.5, AgentTick{}, "dial"},
      {1.6, StreamUp{}, "hello i13"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 11u);
  story.Tell({
      {1.6, Welcome("credential 2"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i13"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
}

TEST(AgentLink, ACredentialThatCountsNoMoreGivesWayToTheTokenOnce) {
  AgentStory story;
  const StreamDown refused =
      Down(absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL);
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
      {1.3, Welcome("credential 1"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  // The ranks run on.
  story.Tell({
      {2.3, refused, ""},
      {2.5, AgentTick{}, "dial"},
      {2.6, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().held().running_generation(), 1u);
  story.Tell({
      {2.7, refused, "ABORT 1; STOP 0,1 15s"},
      {2.8, Gone(1), "EXIT 77"},
  });
}

TEST(AgentLink, AWelcomeInBetweenBeginsAnew) {
  AgentStory story;
  const StreamDown refused =
      Down(absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL);
  story.Tell({{0.0, StreamUp{}, "hello i11"}});
  for (double at = 1; at < 4; ++at) {
    story.Tell({
        {at, Welcome("credential"), ""},
        {at + 0.1, Down(), ""},
        {at + 0.2, AgentTick{}, "dial"},
        {at + 0.3, StreamUp{}, "hello i11"},
        {at + 0.4, refused, ""},
        {at + 0.5, AgentTick{}, "dial"},
        {at + 0.6, StreamUp{}, "hello i11"},
    });
    EXPECT_TRUE(story.hello().has_token());
  }
  story.Tell({{5.0,
               Down(absl::StatusCode::kUnauthenticated,
                    v1::REFUSAL_CODE_TOKEN_EXPIRED),
               "EXIT 77"}});
}

TEST(AgentLink, ACredentialThatIsTooLongIsNone) {
  for (const size_t bytes : {64, 65}) {
    AgentStory story;
    story.Tell({
        {0.0, StreamUp{}, "hello i11"},
        {0.0, Welcome(std::string(bytes, 'c')), ""},
        {1.0, Down(), ""},
        {1.1, AgentTick{}, "dial"},
        {1.2, StreamUp{}, "hello i11"},
    });
    EXPECT_EQ(story.hello().has_node_credential(), bytes == 64);
    EXPECT_EQ(story.hello().has_token(), bytes == 65);
  }
}

TEST(AgentLink, AStrangerEndsItWhenThereIsNoHope) {
  AgentStory story;
  StreamDown stranger = Down(absl::StatusCode::kUnauthenticated);
  stranger.stranger = true;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.1, stranger, "EXIT 77"},
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
      // It came with its token.
      {absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL,
       "EXIT 77"},
      {absl::StatusCode::kResourceExhausted, v1::REFUSAL_CODE_LIMIT, "EXIT 69"},
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_SLOW, ""},
      {absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_NOT_LEADER, ""},
      // What counts is the code, whatever the status says.
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
    // The leader that it names is gone, and then another one stands by.
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
  // Long past the join timeout: the loop must sleep until the ranks are gone.
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

TEST(AgentLeave, IsAgreedWithTheDaemon) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, LeaveAsked{SIGTERM}, "leaving"},
      {1.1, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.2, Gone(1), "stopped 1"},
      {1.3, EndOf(0, v1::REASON_CODE_LEAVING), "end-seen; EXIT 0"},
  });
}

TEST(AgentLeave, AskedTwiceItGoesAtOnce) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, LeaveAsked{SIGINT}, "leaving"},
      {1.1, LeaveAsked{SIGINT}, "STOP 0,1 0; ABORT 1"},
      {1.2, Gone(1), "EXIT 130"},
  });
}

TEST(AgentRun, PassesOnWhatIsForTheRanks) {
  AgentStory story;
  story.Tell({{0.0, SignalCame{SIGUSR2}, ""}});
  story.Tell(Running(1));
  story.Tell({{1.0, SignalCame{SIGUSR2}, "PASS 0,1 12"}});
}

TEST(AgentLeave, AnEndWithoutPatienceKills) {
  AgentStory story;
  story.Tell(Running(1));
  FromDaemon now = EndOf(130, v1::REASON_CODE_STOPPED);
  now.message.mutable_end()->set_now(true);
  story.Tell({
      {1.0, EndOf(130, v1::REASON_CODE_STOPPED), "ABORT 1; STOP 0,1 15s"},
      {1.1, now, "STOP 0,1 0"},
      {1.2, Gone(1), "end-seen; EXIT 130"},
  });
}

TEST(AgentLeave, ADeafDaemonDoesNotHoldIt) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, LeaveAsked{SIGTERM}, "leaving"},
      {37.9, AgentTick{}, "beat 0"},
      {38.0, AgentTick{}, "ABORT 1; STOP 0,1 15s"},
      {39.0, Gone(1), "EXIT 143"},
  });
}

TEST(AgentWorld, OneOfAnotherRunIsRefused) {
  AgentStory story;
  FromDaemon other = Proposal(1);
  v1::World world;
  ASSERT_TRUE(world.ParseFromString(other.message.proposal().world()));
  world.set_run("run2");
  other.message.mutable_proposal()->set_world(EncodeWorld(world));
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.1, Welcome(), ""},
      {0.2, other, "refused 1"},
  });
}

TEST(AgentWorld, WhatADaemonSaysCannotSteerATerminal) {
  AgentStory story;
  story.Tell(Running(1));
  FromDaemon end;
  end.message.mutable_end()->set_reason("\x1B[2Jgone");
  end.message.mutable_end()->mutable_root_cause()->set_node("b\n");
  const std::vector<AgentAction> stopping =
      story.agent().Step(end, absl::UnixEpoch() + absl::Seconds(2));
  const std::vector<AgentAction> told =
      story.agent().Step(Gone(1), absl::UnixEpoch() + absl::Seconds(3));
  const auto* exit = std::get_if<Exit>(&told.back());
  ASSERT_NE(exit, nullptr);
  EXPECT_EQ(exit->reason, "?[2Jgone");
  EXPECT_EQ(exit->end->root_cause().node(), "b?");
}

TEST(AgentExchange, WhatTheDaemonRefusesFailsTheCallAlone) {
  AgentStory story;
  story.Tell(Running(1));
  FromDaemon refused;
  refused.message.mutable_exchange()->set_generation(1);
  refused.message.mutable_exchange()->set_key("k");
  refused.message.mutable_exchange()->set_code(3);
  story.Tell({
      {1.0, RankExchanged{1, 0, "k", "x"}, ""},
      {1.1, RankExchanged{1, 1, "k", "y"}, "exchange k=x,y"},
      {1.2, refused, "ANSWER k refused"},
  });
}

TEST(AgentExchange, GathersItsRanksThenAsks) {
  AgentStory story;
  story.Tell(Running(1));
  FromDaemon out;
  out.message.mutable_exchange()->set_generation(1);
  out.message.mutable_exchange()->set_key("k");
  for (const char* value : {"w", "x", "y"}) {
    out.message.mutable_exchange()->add_values(value);
  }
  story.Tell({
      {1.0, RankExchanged{1, 1, "k", "y"}, ""},
      {1.0, RankExchanged{1, 1, "k", "y"}, ""},
      {1.1, RankExchanged{1, 0, "k", "x"}, "exchange k=x,y"},
      {1.2, Down(), ""},
      {1.3, AgentTick{}, "dial"},
      {1.4, StreamUp{}, "hello i11"},
      {1.4, Welcome(), "exchange k=x,y"},
      {1.5, out, "ANSWER k"},
      {1.6, RankExchanged{1, 0, "k", "x"}, "ANSWER k"},
      {1.7, RankExchanged{9, 0, "k", "x"}, "FAIL 9"},
      // Another value for a key that is complete must not pass for the first.
      {1.8, RankExchanged{1, 0, "k", "z"}, "ANSWER k refused"},
      // A daemon that was restarted has forgotten the key; others may need it.
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
      {2.2, Welcome(), "exchange k=x,y"},
  });
}

}  // namespace
}  // namespace rollcall
