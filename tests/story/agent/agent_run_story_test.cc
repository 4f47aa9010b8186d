// An agent from its Hello to the end of the job.
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "daemon/core/formation/world.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

// --- A world -----------------------------------------------------------------

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

// Only the node of rank 0 reports its pace; this one has rank 1.
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
      {1.1, RankEnded{1, 0, 0, SIGTERM},
       ""},  // Stopped by the agent: no cause.
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
       "exited 0=0/9"},  // This is not the agent's SIGKILL.
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

TEST(AgentRun, PassesOnWhatIsForTheRanks) {
  AgentStory story;
  story.Tell({{0.0, SignalCame{SIGUSR2}, ""}});
  story.Tell(Running(1));
  story.Tell({{1.0, SignalCame{SIGUSR2}, "PASS 0,1 12"}});
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

// --- Leaving -----------------------------------------------------------------

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

// --- Exchange ----------------------------------------------------------------

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
      // A second value for a key that is complete is refused.
      {1.8, RankExchanged{1, 0, "k", "z"}, "ANSWER k refused"},
      // A restarted daemon does not know the key, and others may need it.
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
      {2.2, Welcome(), "exchange k=x,y"},
  });
}

// --- The store ---------------------------------------------------------------

RankAsksStore Adds(uint64_t generation, uint64_t ticket) {
  RankAsksStore asks{generation, ticket, {}};
  asks.operation.set_kind(v1::STORE_KIND_ADD);
  asks.operation.set_key("n");
  asks.operation.set_delta(1);
  return asks;
}

FromDaemon StoreSays(uint64_t open, bool tell, uint64_t answers = 0) {
  FromDaemon from;
  v1::StoreOut& out = *from.message.mutable_store();
  out.set_generation(1);
  out.set_link(open);
  out.set_report(tell);
  if (answers > 0) {
    out.add_answered()->set_operation(answers);
    out.mutable_answered(0)->mutable_result()->set_number(5);
  }
  return from;
}

TEST(AgentStore, AsksAgainOnANewStreamOnceTheStoreOpens) {
  AgentStory story;
  story.Tell(Running(1));
  story.Tell({
      {1.0, Adds(1, 7), "store 1"},
      {1.1, Adds(9, 8), "FAIL 9"},
      {1.2, Down(), ""},
      {1.3, AgentTick{}, "dial"},
      {1.4, StreamUp{}, "hello i11"},
      {1.4, Welcome(), ""},
      // The daemon was restarted.
      {1.5, StoreSays(0, true), "store all kept"},
      {1.6, StoreSays(1, false), "store 1"},
      {1.7, StoreSays(0, false, 1), "STORED 7=5"},
      {1.8, Adds(1, 9), "store 2"},
      {1.9, StoreCancelled{{9}}, ""},
  });
}

}  // namespace
}  // namespace rollcall
