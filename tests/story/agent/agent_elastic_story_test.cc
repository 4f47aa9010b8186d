// Linked ranks that run on from world to world, --once, a failure that lingers,
// and checks: one test for each sentence of the protocol.
#include <gtest/gtest.h>

#include <csignal>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

using Row = AgentStory::Row;

FromDaemon Spare() {
  FromDaemon from;
  from.message.mutable_waiting()->set_spare(true);
  return from;
}

TEST(AgentElastic, ItsRanksLiveOnFromWorldToWorld) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 7, true}, ""},
      {1.2, RankWaits{1, 1, 8, true}, "stopped 1"},
      {1.3, Proposal(2), "PREPARE 2"},
      {1.4, PreparationDone{2}, "prepared 2 0@7 1@8"},
      {1.5, CommitOf(2), "START 2 port 23456 fresh  waiting 0,1"},
      // An exit counts for the world in which the rank is now.
      {1.6, RankEnded{1, 0, 3}, "exited 0=3/0"},
      {2.0, AbortOf(2), "ABORT 2; STOP 0 15s"},
      {2.0, Gone(1, {0}), ""},
      {2.1, RankWaits{1, 1, 8, true}, ""},  // Its world has ended.
      {2.2, RankWaits{2, 1, 9, false}, "stopped 2"},
      {2.3, Proposal(3), "PREPARE 3"},
      {2.4, PreparationDone{3}, "prepared 3 1@9?"},
      {2.5, CommitOf(3), "START 3 port 23456 fresh 0 waiting 1"},
      {2.6, RankEnded{3, 0}, "exited 0=0/0"},
      {2.6, RankEnded{1, 1}, "exited 1=0/0"},
      {2.7, RanksGone{{{3, 0}, {1, 1}}}, ""},
      {2.8, EndOf(0), "ABORT 3; end-seen; EXIT 0"},
  });
}

TEST(AgentElastic, AProposalAloneEndsAGenerationToo) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, Proposal(2), "ABORT 1; PREPARE 2"},
      {1.1, PreparationDone{2}, ""},
      {1.2, RankWaits{1, 1, 4, true}, ""},
      {1.3, RankWaits{1, 0, 4, true}, "prepared 2 0@4 1@4"},
  });
}

TEST(AgentElastic, WhoHasNotAnsweredInTimeIsKilledAlone) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 7, true}, ""},
      {15.9, AgentTick{}, "beat 0"},
      {16.0, AgentTick{}, "STOP 1 0"},
      {16.1, RankEnded{1, 1, 0, SIGKILL}, ""},
      {16.2, Gone(1, {1}), "stopped 1"},
      {16.3, Proposal(2), "PREPARE 2"},
      {16.4, PreparationDone{2}, "prepared 2 0@7"},
      {16.5, CommitOf(2), "START 2 port 23456 fresh 1 waiting 0"},
  });
}

TEST(AgentElastic, AFailedRankAloneIsStartedAnew) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, RankEnded{1, 1, 0, SIGKILL}, "exited 1=0/9"},
      {1.1, RankUnlinked{1}, ""},
      {1.1, AbortOf(1), "ABORT 1; STOP 1 15s"},
      {1.2, RankWaits{1, 0, 5, true}, ""},
      {1.3, Gone(1, {1}), "stopped 1"},
  });
}

TEST(AgentElastic, PlainRanksBesideThemAreStopped) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {0.4, RankAttended{1, 1, true}, ""},
      {0.5, RankAttended{1, 0, false}, ""},  // Linked, and not elastic.
      {1.0, AbortOf(1), "ABORT 1; STOP 0 15s"},
      {1.1, RankWaits{1, 0, 5, true}, ""},  // Too late: it is being stopped.
      {1.1, RankWaits{1, 1, 5, true}, ""},
      {1.3, Gone(1, {0}), "stopped 1"},
  });
}

TEST(AgentElastic, OneThatAttendsTooLateIsStopped) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.0, RankAttended{1, 0, true}, ""},
      {1.1, RankWaits{1, 0, 5, true}, ""},
      {1.3, Gone(1), "stopped 1"},
  });
}

TEST(AgentElastic, OneThatWaitsAndDiesIsPreparedForAnew) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, Proposal(2), "ABORT 1; PREPARE 2"},
      {1.1, PreparationDone{2}, ""},
      {1.2, RankWaits{1, 0, 4, true}, ""},
      {1.2, RankWaits{1, 1, 4, true}, "prepared 2 0@4 1@4"},
      {1.3, RankEnded{1, 0, 1}, "STOP 0 15s"},
      {1.4, Gone(1, {0}), "prepared 2 1@4"},
      // The same again, when the commit is already on its way.
      {1.5, RankEnded{1, 1, 0, SIGSEGV}, "exited 1=0/11; STOP 1 15s"},
      {1.6, CommitOf(2), ""},
      {1.7, Gone(1, {1}), "START 2 port 23456"},
  });
}

// No rank may begin with the state of the process that replaces the dead one.
TEST(AgentElastic, ASourceOfStateThatDiesFailsItsWorld) {
  for (const uint32_t source : {0u, 1u}) {
    AgentStory story;
    story.Tell(RunningLinked(1));
    story.Tell({
        {1.0, Proposal(2), "ABORT 1; PREPARE 2"},
        {1.1, PreparationDone{2}, ""},
        {1.2, RankWaits{1, 0, 4, true}, ""},
        {1.2, RankWaits{1, 1, 4, true}, "prepared 2 0@4 1@4"},
        {1.5, RankEnded{1, 1, 0, SIGSEGV}, "exited 1=0/11; STOP 1 15s"},
        {1.6, CommitOf(2, 1 + source), ""},
        {1.7, Gone(1, {1}),
         source == 1 ? "exited 1=1/0" : "START 2 port 23456 fresh 1 waiting 0"},
    });
    if (source == 1) story.Tell({{1.8, AbortOf(2), "UNDO 2; stopped 2"}});
  }
}

// The report of the death may be lost with the stream.
TEST(AgentElastic, TheDeathOfASourceIsSaidAgainAfterARedial) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, Proposal(2), "ABORT 1; PREPARE 2"},
      {1.1, PreparationDone{2}, ""},
      {1.2, RankWaits{1, 0, 4, true}, ""},
      {1.2, RankWaits{1, 1, 4, true}, "prepared 2 0@4 1@4"},
      {1.5, RankEnded{1, 1, 0, SIGSEGV}, "exited 1=0/11; STOP 1 15s"},
      {1.6, CommitOf(2, 2), ""},
      {1.7, Gone(1, {1}), "exited 1=1/0"},
      {1.8, Down(), ""},
      {1.9, AgentTick{}, "dial"},
      {2.0, StreamUp{}, "hello i11"},
      {2.1, Welcome(), "prepared 2 0@4"},
      {2.2, CommitOf(2, 2), "exited 1=1/0"},
      {2.3, AbortOf(2), "UNDO 2; stopped 2"},
  });
  // This makes the daemon send the commit again, so it does not give the node
  // up.
  EXPECT_EQ(story.hello().resume_state().prepared_generation(), 2);
}

TEST(AgentElastic, OneThatWaitsUnlinkedIsStopped) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 4, true}, ""},
      {1.2, RankWaits{1, 1, 4, true}, "stopped 1"},
      {1.3, RankUnlinked{0}, "STOP 0 15s"},
      {1.4, RankUnlinked{0}, ""},
  });
}

TEST(AgentElastic, ARedialInTheMiddleChangesNothing) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 4, true}, ""},
      {1.2, Down(), ""},
      {1.3, AgentTick{}, "dial"},
      {1.4, RankWaits{1, 1, 4, true}, ""},  // There is no stream for it.
      {1.5, StreamUp{}, "hello i11"},
      {1.6, Welcome(), "stopped 1"},
      {1.7, Proposal(2), "PREPARE 2"},
      {1.8, PreparationDone{2}, "prepared 2 0@4 1@4"},
      {1.9, Down(), ""},
      {2.0, AgentTick{}, "dial"},
      {2.1, StreamUp{}, "hello i11"},
      {2.2, Welcome(), "prepared 2 0@4 1@4"},
      {2.3, CommitOf(2), "START 2 port 23456 fresh  waiting 0,1"},
  });
}

TEST(AgentElastic, WithNoPlaceInTheNextWorldTheyAreStopped) {
  const std::vector<Row> kWaiting = {
      {1.0, AbortOf(1), "ABORT 1"},
      {1.1, RankWaits{1, 0, 4, true}, ""},
      {1.1, RankWaits{1, 1, 4, true}, "stopped 1"},
  };
  const std::vector<Row> kEnds[] = {
      {{1.2, Spare(), "STOP 0,1 15s"}},
      {{1.2, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST),
        "STOP 0,1 15s"}},
      {{1.2, EndOf(3), "STOP 0,1 15s"}, {1.3, Gone(1), "end-seen; EXIT 3"}},
      {{1.2, LeaveAsked{SIGTERM}, "leaving"},
       {1.3, EndOf(0), "STOP 0,1 15s"},
       {1.4, Gone(1), "end-seen; EXIT 0"}},
  };
  for (const std::vector<Row>& end : kEnds) {
    AgentStory story;
    story.Tell(RunningLinked(1));
    story.Tell(kWaiting);
    story.Tell(end);
  }
}

TEST(AgentElastic, LostWhileTheyRunTheyAreStopped) {
  AgentStory story;
  story.Tell(RunningLinked(1));
  story.Tell({
      {1.0, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST),
       "ABORT 1; STOP 0,1 15s"},
      {1.1, RankWaits{1, 0, 4, true}, ""},
  });
}

// With --once, only rank 0 of the world is started.
TEST(AgentOnce, ANodeStartsItsRankWhereItIsNodeRank0) {
  AgentStory story(/*once=*/true);
  std::vector<Row> rows = Running(1);
  rows[2].event = ProposalOnce(1);
  rows[4].expect = "START 1 port 23456 fresh  waiting ";
  story.Tell(rows);
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.1, AbortOf(1), "ABORT 1; stopped 1"},
      {1.2, ProposalOnce(2, /*first=*/true), "PREPARE 2"},
      {1.3, PreparationDone{2}, "prepared 2"},
      {1.4, CommitOf(2), "START 2 port 23456 fresh 0 waiting "},
      {1.5, RankAttended{2, 0, true}, ""},
      {1.6, AbortOf(2), "ABORT 2"},
      {1.7, RankWaits{2, 0, 5, true}, "stopped 2"},
      // Another node has rank 0 now, so this node's rank is stopped.
      {1.8, ProposalOnce(3), "STOP 0 15s; PREPARE 3"},
      {1.9, PreparationDone{3}, ""},
      {1.9, Gone(2, {0}), "prepared 3"},
      {1.95, CommitOf(3), "START 3 port 23456 fresh  waiting "},
  });
}

// An older daemon does not send `once` in its proposals. Every node would run
// the command.
TEST(AgentOnce, AWorldThatDoesNotSayItIsRefused) {
  AgentStory story(/*once=*/true);
  story.Tell({{0.0, StreamUp{}, "hello i11"},
              {0.0, Welcome(), ""},
              {0.1, Proposal(1), "refused 1"}});
  AgentStory other;
  other.Tell({{0.0, StreamUp{}, "hello i11"},
              {0.0, Welcome(), ""},
              {0.1, ProposalOnce(1), "refused 1"}});
}

// --- A failure that lingers, and checks --------------------------------------

FromDaemon LingeringEnd() {
  FromDaemon end = EndOf(3, v1::REASON_CODE_RANK_EXIT);
  ToProto(absl::Seconds(60), end.message.mutable_end()->mutable_linger());
  return end;
}

TEST(AgentLinger, WhatStillLivesIsLeftAsItIs) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, RankEnded{1, 0, 3}, "exited 0=3/0"},
      {1.1, LingeringEnd(), ""},
      {61.0, AgentTick{}, "beat 0"},
      {61.1, AgentTick{}, "ABORT 1; STOP 0,1 15s"},
      {61.2, Gone(1), "end-seen; EXIT 3"},
  });
}

TEST(AgentLinger, ASignalOrAnEndWithoutPatienceEndsIt) {
  FromDaemon now = LingeringEnd();
  now.message.mutable_end()->set_now(true);
  const AgentEvent kEnds[] = {LeaveAsked{SIGINT}, now};
  for (const AgentEvent& end : kEnds) {
    AgentStory story;
    story.Tell(Running(1));
    story.Tell({
        {1.1, LingeringEnd(), ""},
        {2.0, end, "STOP 0,1 0"},
        {2.1, Gone(1), "end-seen; EXIT 3"},
    });
  }
}

// A stop that is not urgent gives the ranks their grace.
TEST(AgentLinger, AnEndThatLingersNoLongerGivesTheGrace) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.1, LingeringEnd(), ""},
      {2.0, EndOf(3, v1::REASON_CODE_RANK_EXIT), "ABORT 1; STOP 0,1 15s"},
      {2.1, Gone(1), "end-seen; EXIT 3"},
  });
}

TEST(AgentLinger, WithNobodyLeftThereIsNoScene) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, RankEnded{1, 0, 3}, "exited 0=3/0"},
      {1.0, RankEnded{1, 1, 3}, "exited 1=3/0"},
      {1.1, LingeringEnd(), ""},
      {1.2, Gone(1), "end-seen; EXIT 3"},
  });
}

TEST(AgentCheck, ItsFindingsAreReported) {
  AgentStory story;
  story.Tell(Running(1));
  FromDaemon request;
  request.message.mutable_check_request()->set_request(5);
  ChecksDone done;
  done.report.set_request(5);
  done.report.add_findings();
  story.Tell({
      {1.0, request, "CHECK 5"},
      {1.1, done, "report 5 1"},
  });
}

FromDaemon GroupRound(uint64_t round) {
  FromDaemon request;
  request.message.mutable_group_check()->set_round(round);
  return request;
}

GroupCheckSaid Listens(uint64_t round) {
  GroupCheckSaid said;
  said.message.mutable_group_listening()->set_round(round);
  return said;
}

GroupCheckSaid Checked(uint64_t round) {
  GroupCheckSaid said;
  said.message.mutable_group_checked()->set_round(round);
  return said;
}

TEST(AgentGroupCheck, AnswersOfTheLatestRoundArePassedOn) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, GroupRound(3), "GROUP 3"},
      {1.1, Listens(3), "listens 3"},
      {1.2, GroupRound(4), "GROUP 4"},
      {1.3, Checked(3), ""},
      {1.4, Checked(4), "checked 4"},
      {1.5, Checked(4), ""},
  });
}

TEST(AgentGroupCheck, EndsWithTheStreamAndTheRun) {
  AgentStory story;
  story.Tell(Running(1));
  StreamDown down;
  down.status = absl::UnavailableError("gone");
  v1::End end;
  FromDaemon over;
  over.message.mutable_end()->set_exit_code(3);
  story.Tell({
      {1.0, GroupRound(3), "GROUP 3"},
      {1.1, down, "END GROUP"},
      {1.2, Checked(3), ""},
  });
  AgentStory ended;
  ended.Tell(Running(1));
  ended.Tell({
      {1.0, GroupRound(3), "GROUP 3"},
      {1.1, over, "END GROUP; ABORT 1; STOP 0,1 15s"},
  });
  AgentStory proposed;
  proposed.Tell(Running(1));
  proposed.Tell({
      {1.0, GroupRound(3), "GROUP 3"},
      {1.1, Proposal(2), "END GROUP; ABORT 1; STOP 0,1 15s; PREPARE 2"},
      {1.2, Checked(3), ""},
  });
}

}  // namespace
}  // namespace rollcall
