// Which credentials a job still accepts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

JournalState CommittedState(const JobStory& story) {
  JournalState state;
  state.run = "run1";
  EXPECT_TRUE(state.settings.ParseFromString(
      story.journal().at(Journal::Kind::kRunStarted).body));
  const Journal& proposed = story.journal().at(Journal::Kind::kProposed);
  state.generation = proposed.generation;
  state.proposal.emplace();
  EXPECT_TRUE(state.proposal->ParseFromString(proposed.body));
  state.world_commit.emplace();
  EXPECT_TRUE(state.world_commit->ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  return state;
}

// Whether the job accepts a genuine credential of node a in this life.
bool CredentialStands(JobStory& story, uint64_t incarnation,
                      uint64_t previous = 0) {
  v1::Hello hello = HelloOf("a", incarnation);
  hello.set_previous_incarnation(previous);
  return story.job().CredentialStands(hello);
}

TEST(Credential, StandsForTheLifeThatHoldsThePlace) {
  JobStory story("2:3");
  EXPECT_TRUE(CredentialStands(story, 1)) << "nobody holds it";
  story.Tell({{0.0, Attends("a", 1), ""}});
  EXPECT_TRUE(CredentialStands(story, 1));
  EXPECT_FALSE(CredentialStands(story, 2));
  // The next life of the same agent names the life before it.
  EXPECT_TRUE(CredentialStands(story, 2, 1));
  EXPECT_FALSE(CredentialStands(story, 1, 2));
  // A broken stream does not change whose name it is.
  story.Tell({{0.1, Breaks("a"), ""}});
  EXPECT_TRUE(CredentialStands(story, 1));
}

TEST(Credential, IsRenewedOnceADay) {
  JobStory story = OneRunning("1");
  double at = 0.1;
  const auto beats_until = [&](absl::Duration until, const char* answer) {
    const double end = absl::ToDoubleSeconds(until);
    while ((at += 2) < end) story.Tell({{at, Beats("a"), ""}});
    story.Tell({{at = end, Beats("a"), answer}});
  };
  const absl::Duration renewal = Limits().credential_renewal;
  beats_until(renewal - absl::Seconds(1), "");
  beats_until(renewal, "credential");
  beats_until(2 * renewal - absl::Seconds(1), "");
  beats_until(2 * renewal, "credential");
}

TEST(Credential, OfAReplacedLifeIsNoMore) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {0.2, Attends("a", 2, NextOf(1)), ""},
  });
  EXPECT_FALSE(CredentialStands(story, 1));
  EXPECT_FALSE(CredentialStands(story, 3, 1));
  EXPECT_TRUE(CredentialStands(story, 2));
  EXPECT_TRUE(CredentialStands(story, 3, 2));
}

TEST(Credential, OfALostLifeLetsItsAgentAttendAnew) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {1.2, Ticks(), ""},
  });
  EXPECT_TRUE(CredentialStands(story, 1))
      << "it is told LOST, and not that it is false";
  EXPECT_TRUE(CredentialStands(story, 2, 1));
  story.Tell({
      {1.3, Attends("a", 1), "refuse a LOST"},
      {1.4, Attends("a", 2), ""},
  });
  EXPECT_FALSE(CredentialStands(story, 1));
  EXPECT_TRUE(CredentialStands(story, 2));
}

TEST(Credential, OfAMemberFromTheJournalStands) {
  JobStory first("2");
  first.Tell({
      {0.0, Attends("a", 7), ""},
      {0.0, Attends("b", 8), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
  });
  JobStory story(Job::Restore("demo", CommittedState(first), Limits(),
                              absl::UnixEpoch() + absl::Seconds(0.1)),
                 first);
  // The shell asks this first; the job decides later which agent has the name.
  EXPECT_TRUE(CredentialStands(story, 7));
  EXPECT_TRUE(CredentialStands(story, 9, 7));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 7)));
  HelloOptions holds;
  holds.run = "run1";
  holds.resume_state.set_running_generation(1);
  holds.by_credential = true;
  story.Tell({{0.2, Attends("a", 7, holds), ""}});
  // a has shown its credential, so its token is not accepted from now on.
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 7)));
  EXPECT_TRUE(story.job().HasCredential(HelloOf("a", 7)));
  EXPECT_TRUE(CredentialStands(story, 7));
  EXPECT_FALSE(CredentialStands(story, 6));
}

TEST(Credential, TheJobKnowsWhoIsInAndWhoAttends) {
  JobStory story("2:3");
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 1)));
  story.Tell({{0.0, Attends("a", 1), ""}});
  EXPECT_TRUE(story.job().AwaitsWord(HelloOf("a", 1)));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 2)));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("b", 1)));
  const SessionId older = story.SessionOf("a");
  EXPECT_TRUE(story.job().Attends(older));
  EXPECT_FALSE(story.job().Attends(older + 1));
  // A newer stream takes the place of the older one.
  story.Tell({{0.1, Attends("a", 1), "refuse a REDIALED"}});
  EXPECT_FALSE(story.job().Attends(older));
  EXPECT_TRUE(story.job().Attends(story.SessionOf("a")));
  // An agent that is refused never attended.
  HelloOptions other;
  other.run = "another";
  story.Tell({{0.2, Attends("b", 1, other), "refuse b OTHER_RUN"}});
  EXPECT_FALSE(story.job().Attends(story.SessionOf("b")));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("b", 1)));
  story.Tell({{0.3, Breaks("a"), ""}});
  EXPECT_FALSE(story.job().Attends(story.SessionOf("a")));
  EXPECT_TRUE(story.job().AwaitsWord(HelloOf("a", 1)));
}

TEST(Credential, EachWelcomeBringsThatOfItsOwnLife) {
  JobStory story("2:3");
  const auto welcomed = [&](uint64_t incarnation) {
    Attend attend;
    attend.hello = HelloOf("a", incarnation);
    attend.session = story.NewSession("a");
    for (const Action& action : story.job().Step(attend, story.now())) {
      const auto* send = std::get_if<Send>(&action);
      if (send != nullptr && send->message.has_welcome()) {
        return send->message.welcome().node_credential();
      }
    }
    return std::string("no welcome");
  };
  EXPECT_EQ(welcomed(1), "credential of a1 in run1, epoch 0");
  EXPECT_EQ(welcomed(1), "credential of a1 in run1, epoch 0");
  story.Tell({{0.1, Breaks("a"), ""}, {1.1, Ticks(), ""}});
  EXPECT_EQ(welcomed(2), "credential of a2 in run1, epoch 1");
}

TEST(Credential, ALifeIsShownOnceItsTokenBringsNothingBack) {
  JobStory story("2:3");
  const auto shown = [&] {
    return story.job().Status(story.now()).nodes(0).incarnation();
  };
  story.Tell({{0.0, Attends("a", 7), ""}});
  EXPECT_EQ(shown(), 0u);
  story.Tell({{0.1, Beats("a"), ""}});
  EXPECT_EQ(shown(), 7u);
}

// --- Epochs ------------------------------------------------------------------

TEST(Epoch, AnEvictedNodeIsOutAtOnceAndTheRestGoesOn) {
  JobStory story = ThreeRunning("2:3");
  EXPECT_EQ(story.job().node_epochs().EpochOf("b"), 0u);
  story.Tell({
      {1.0, Evicts({"b"}), "refuse b EVICTED; abort g1 EVICTED; form g2 a,c"},
      // The evicted life is still given up, also with a token. The next life is
      // let in.
      {1.1, Attends("b", 1), "refuse b LOST"},
      {1.2, Attends("b", 2), ""},
  });
  // Raised once for the eviction, and once for the agent that came by a token
  // since.
  EXPECT_EQ(story.job().node_epochs().EpochOf("b"), 2u);
  EXPECT_EQ(story.credential(), "credential of b2 in run1, epoch 2");
  EXPECT_EQ(story.epochs_journaled().EpochOf("b"), 2u);
  EXPECT_EQ(story.epochs_journaled().EpochOf("a"), 0u);
  // An eviction is not charged as a restart.
  EXPECT_EQ(story.job().Status(story.now()).restarts_charged(), 0u);
}

TEST(Epoch, EvictedTogetherTheyAreFormedWithoutOnce) {
  JobStory story("1:4");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), ""},
      {0.0, Attends("d"), "form g1 a,b,c,d"},
      {0.1, PreparesAll({"a", "b", "c", "d"}, 1), "run g1"},
      {1.0, Evicts({"b", "d"}),
       "refuse b EVICTED; abort g1 EVICTED; refuse d EVICTED; form g2 a,c"},
  });
}

TEST(Epoch, ANodeThatIsAwayIsEvictedToo) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, Evicts({"b"}), ""},
  });
  EXPECT_EQ(story.job().node_epochs().EpochOf("b"), 1u);
  EXPECT_EQ(story.epochs_journaled().EpochOf("b"), 1u);
  EXPECT_TRUE(story.job().node_epochs().WasRaisedPast("b", 0));
  EXPECT_FALSE(story.job().node_epochs().WasRaisedPast("b", 1));
}

TEST(Epoch, OneThatLeftForGoodNeedsAToken) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("c", 1), ""},
      {1.1, Sees("b", 1), "abort g1 LEAVING; form g2 a,c"},
      {1.2, Stops("b", 1), "end 0 LEAVING"},
  });
  // The epoch is raised only once b has gone, because its stream may break
  // before b learns that it may go.
  EXPECT_EQ(story.job().node_epochs().EpochOf("b"), 0u);
  story.Tell({{1.3, Breaks("b"), ""}});
  EXPECT_EQ(story.job().node_epochs().EpochOf("b"), 1u);
  EXPECT_EQ(story.epochs_journaled().EpochOf("b"), 1u);
}

TEST(Epoch, ItSurvivesTheDaemon) {
  JobStory before = ThreeRunning("2:3");
  before.Tell({
      {1.0, Evicts({"b"}), "refuse b EVICTED; abort g1 EVICTED; form g2 a,c"},
  });
  JobStory after = RestartOf(before, /*committed=*/false);
  EXPECT_EQ(after.job().node_epochs().EpochOf("b"), 1u);
  EXPECT_EQ(after.job().node_epochs().EpochOf("a"), 0u);
  EXPECT_TRUE(after.job().HasAdmitted("b"));
  EXPECT_FALSE(after.job().HasAdmitted("z"));
}

TEST(Epoch, TheJobKnowsByWhichTokenEachCame) {
  JobStory story("2:3");
  HelloOptions other;
  other.token_id = "t2";
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b", 1, other), ""},
      {0.0, Attends("c", 1, other), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      // b comes back by its credential, and is still counted for the token by
      // which it first came.
      {0.2, Attends("b", 1, Holds(0, 1)), "refuse b REDIALED"},
  });
  using Names = std::vector<std::string>;
  EXPECT_EQ(story.job().AdmittedBy("t1"), Names{"a"});
  EXPECT_EQ(story.job().AdmittedBy("t2"), (Names{"b", "c"}));
  EXPECT_EQ(story.job().AdmittedBy("t3"), Names{});
  EXPECT_EQ(story.job().AdmittedBy(""), Names{});
  const Job after =
      Job::Restore("demo", StateOf(story, true), Limits(), absl::UnixEpoch());
  EXPECT_EQ(after.AdmittedBy("t2"), (Names{"b", "c"}));
}

// --- Ghosts ------------------------------------------------------------------
//
// A ghost is an agent that was replaced and does not know it, for example a
// process that was stopped for long. After a restart of the daemon it may
// attend first.

// What a restarted daemon knows of a run that has proposed no world.
JournalState GatheringState(const JobStory& story) {
  JournalState state;
  state.run = "run1";
  EXPECT_TRUE(state.settings.ParseFromString(
      story.journal().at(Journal::Kind::kRunStarted).body));
  state.node_epochs = story.epochs_journaled();
  return state;
}

// Whether this daemon refuses a credential of this node and epoch because the
// node's epoch was raised since. The shell asks this before it asks the job.
bool IsDead(const Job& job, const std::string& node, uint64_t epoch) {
  return job.node_epochs().WasRaisedPast(node, epoch);
}

TEST(Ghost, OfANodeThatHasAnotherAgentIsOutAlsoAfterARestart) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {1.2, Ticks(), ""},
      {1.3, Attends("a", 2), ""},
  });
  EXPECT_EQ(story.credential(), "credential of a2 in run1, epoch 1");
  const Job after =
      Job::Restore("demo", GatheringState(story), Limits(), absl::UnixEpoch());
  EXPECT_TRUE(IsDead(after, "a", 0));
  EXPECT_FALSE(IsDead(after, "a", 1));
  EXPECT_EQ(after.node_epochs().EpochOf("a"), 1u);
}

TEST(Ghost, OfANameThatTheJobNoLongerHasIsOutToo) {
  JobStory story("1");
  story.Tell({{0.0, Attends("a", 1), "form g1 a"}});
  const Job known =
      Job::Restore("demo", GatheringState(story), Limits(), absl::UnixEpoch());
  // The daemon restarts, and a new agent of a comes by a token. Then the daemon
  // restarts again.
  JobStory after(known, story);
  after.Tell({{0.0, Attends("a", 2), "form g1 a"}});
  EXPECT_EQ(after.credential(), "credential of a2 in run1, epoch 1");
  EXPECT_TRUE(IsDead(
      Job::Restore("demo", GatheringState(after), Limits(), absl::UnixEpoch()),
      "a", 0));
}

// The agent was declared lost, and shows the credential that it has.
TEST(Ghost, TheNextLifeOfTheSameAgentIsNone) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {1.2, Ticks(), ""},
      {1.3, Attends("a", 2, NextOf(1)), ""},
      // The first Welcome was lost on the way.
      {1.4, Attends("a", 2, NextOf(1)), "refuse a REDIALED"},
  });
  EXPECT_EQ(story.credential(), "credential of a2 in run1, epoch 0");
  const Job after =
      Job::Restore("demo", GatheringState(story), Limits(), absl::UnixEpoch());
  EXPECT_FALSE(IsDead(after, "a", 0));
}

// An agent that comes by its token again, because its Welcome was lost, is no
// ghost either.
TEST(Ghost, WhoNeverGotACredentialIsNone) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Attends("a", 1), "refuse a REDIALED"},
  });
  EXPECT_EQ(story.credential(), "credential of a1 in run1, epoch 0");
}

TEST(Ghost, TakesNoMembersPlace) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  after.Tell({
      // Agents with this name are refused until the member is back, or lost.
      {0.1, Attends("a", 7, Holds(0, 1)), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 7, Holds(0, 0)), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 8, NextOf(7)), "refuse a UNSPECIFIED"},
      {0.2, Attends("a", 1, Holds(0, 1)), ""},
      {0.2, Attends("a", 7, Holds(0, 1)), "refuse a REPLACED"},
      {0.2, Attends("b", 1, Holds(0, 1)), ""},
      // The next life of the member c proves it with the member's credential.
      {0.3, Attends("c", 2, NextOf(1)), "abort g1 REPLACED; form g2 a,b,c"},
  });
}

TEST(Ghost, IsNotWhoCameForAMemberThatHadFinished) {
  struct Row {
    const char* what;
    HelloOptions comes;
    HelloOptions returns;
    double dies_at;
    std::string answer;
  };
  HelloOptions by_token;
  HelloOptions next = NextOf(1);
  HelloOptions raised = NextOf(0);
  raised.epoch = 1;
  const Row kRows[] = {
      {"another agent", by_token, raised, 2.0, ""},
      {"the same agent", next, NextOf(0), 2.0, ""},
      // The journal does not yet have that the member had finished.
      {"another agent, at once", by_token, raised, 0.4, "refuse c UNSPECIFIED"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    JobStory before = ThreeRunning("2:3");
    before.Tell({
        {0.35, Exits("c", 1, 0), ""},
        {0.36, Breaks("c"), ""},
    });
    // In these rows, the member is declared lost, and its world runs on.
    if (row.dies_at > 1) {
      before.Tell({{0.5, Ticks(), ""}, {1.4, Ticks(), ""}});
    }
    // In the other row, the next life comes before that.
    HelloOptions comes = row.comes;
    if (row.dies_at < 1) comes.launcher = true;
    before.Tell({{row.dies_at, Attends("c", 2, comes), ""}});
    JobStory after(Job::Restore("demo", StateOf(before, true), Limits(),
                                absl::UnixEpoch() + absl::Seconds(row.dies_at)),
                   before);
    after.Tell({
        {3.0, Attends("a", 1, Holds(0, 1)), ""},
        {3.0, Attends("b", 1, Holds(0, 1)), ""},
        {3.1, Attends("c", 2, row.returns), row.answer},
    });
    // If another agent came, the member's own credential is that of a ghost.
    EXPECT_EQ(IsDead(after.job(), "c", 0), row.returns.epoch == 1);
  }
}

// Checks the bound, and that pruning makes no earlier credential valid again.
TEST(Epoch, NamesWithoutEndTakeABoundedPlaceAndReviveNobody) {
  NodeEpochs epochs;
  epochs.Admit("evicted", "t1");
  epochs.Raise("evicted");
  epochs.Raise("evicted");
  epochs.Admit("member", "t1");
  NodeEpochs journaled;
  const auto journal = [&] {
    if (const auto changes = epochs.TakeChanges()) journaled.Apply(*changes);
  };
  size_t most = 0;
  for (int i = 0; i < 100'000; ++i) {
    epochs.Admit("churn-" + std::to_string(i), "t1");
    epochs.MaybePrune([](const std::string& name) { return name == "member"; });
    most = std::max(most, epochs.bytes());
    journal();
  }
  EXPECT_LE(most, Limits::node_epochs_bytes + 64);
  EXPECT_FALSE(epochs.Has("evicted"));
  for (const NodeEpochs* each : {&epochs, &journaled}) {
    EXPECT_EQ(each->EpochOf("member"), 0u);
    EXPECT_GE(each->EpochOf("evicted"), 3u);
    // A node that was forgotten may come again by its token.
    EXPECT_FALSE(each->WasRaisedPast("evicted", 0));
    EXPECT_FALSE(each->WasRaisedPast("member", 0));
    EXPECT_GE(each->EpochOf("churn-7"), 1u);
    EXPECT_EQ(each->bytes(), epochs.bytes());
  }
}

}  // namespace
}  // namespace rollcall
