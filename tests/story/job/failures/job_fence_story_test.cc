// The fence: a world whose members the daemon cannot reach may still train. Who
// must wait for that world, for how long, and what ends the waiting.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

const double kUnheard = absl::ToDoubleSeconds(Limits{}.unheard());

// A job of one or two nodes. a and b run generation 1, c is a spare, and the
// streams of a and b break at 2.0. Their last messages were at 0.2.
std::vector<Row> BothBreak() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Attends("c"), ""},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {2.0, Breaks("a"), ""},
      {2.0, Breaks("b"), ""},
      {2.9, Beats("c"), ""},
      {3.1, Ticks(), ""},  // No node is left to be told of it.
  };
}

// A new agent of a node whose name is free, and the incarnations that it has
// swept.
HelloOptions Swept(std::vector<uint64_t> incarnations) {
  HelloOptions options;
  options.swept = std::move(incarnations);
  return options;
}

std::string FenceOf(JobStory& story) {
  return story.job().Status(story.now()).fence_reason();
}

// What the journal holds once the world has ended.
JournalState Ended(const JobStory& story) {
  JournalState state = StateOf(story, /*committed=*/true);
  state.ran_proposal = std::move(state.proposal);
  state.ran_world_commit = std::move(state.world_commit);
  state.ran_finished = std::move(state.finished);
  state.proposal.reset();
  state.world_commit.reset();
  state.finished.reset();
  return state;
}

TEST(Fence, TheReasonDoesNotGrowBehindIt) {
  JobStory story("1:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.0, Breaks("a"), ""},
              {2.0, Breaks("b"), ""},
              // No member is left.
              {3.1, Ticks(), ""},
              {3.2, Attends("c"), ""}});
  // A node with a new name comes each second, for longer than nodes are waited
  // for.
  for (int second = 4; second < 100; ++second) {
    const double at = second;
    const std::string node = absl::StrCat("d", second);
    story.Tell({{at, Attends(node), ""},
                {at + .1, Beats("c"), ""},
                {at + .2, Breaks(node), ""}});
  }
  EXPECT_LT(story.job().Status(story.now()).last_reform().reason().size(),
            200u);
}

TEST(Fence, NoWorldIsFormedBesideOneThatMayTrainOn) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  TellBeats(story, {"c"}, kUnheard, 4);
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.state(), v1::JOB_STATE_GATHERING);
  EXPECT_TRUE(status.has_fence());
  EXPECT_TRUE(absl::StrContains(status.fence_reason(), "rollcall evict a"))
      << status.fence_reason();
  // --join-timeout has not run meanwhile, because enough nodes attend.
  story.Tell({{kUnheard + 0.1, Ticks(), ""},
              {kUnheard + 0.2, Ticks(), "form g2 c"},
              {kUnheard + 0.3, Prepares("c", 2), "run g2"}});
  EXPECT_EQ(FenceOf(story), "");
}

void TellBeatsAndTicks(JobStory& story, const std::vector<std::string>& nodes,
                       double from, double until) {
  std::vector<Row> rows;
  for (double at = from; at <= until; at += 2) {
    for (const std::string& node : nodes) rows.push_back({at, Beats(node), ""});
    rows.push_back({at, Ticks(), ""});
  }
  story.Tell(rows);
}

// They are told once, whatever time is left; a newcomer is told when it
// attends.
TEST(Fence, ThoseWhoWaitAreToldWhyOnce) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.TakeWaitingTold();
  TellBeatsAndTicks(story, {"c"}, 4, 200);
  std::vector<std::string> told = story.TakeWaitingTold();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(
      absl::StartsWith(told[0], "c: generation 1 may still train on a, b"))
      << told[0];
  EXPECT_TRUE(absl::StrContains(told[0], "at most 11m")) << told[0];
  // d attends later, so it has not been told yet.
  story.Tell({{200.1, Attends("d"), ""}});
  TellBeatsAndTicks(story, {"c", "d"}, 201, 300);
  told = story.TakeWaitingTold();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(
      absl::StartsWith(told[0], "d: generation 1 may still train on a, b"))
      << told[0];
  EXPECT_TRUE(absl::StrContains(told[0], "at most 8m")) << told[0];
  // The node to evict is another one now, so all are told again.
  story.Tell({{300.1, Attends("a", 2), ""}});
  TellBeatsAndTicks(story, {"a", "c", "d"}, 301, 400);
  told = story.TakeWaitingTold();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(absl::StartsWith(told[0], "a: ")) << told[0];
  EXPECT_TRUE(absl::StrContains(told[1], "rollcall evict b")) << told[1];
}

TEST(Fence, TheJoinTimeoutBeginsAgainWhereTheOthersGo) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  TellBeats(story, {"c"}, 500, 4);
  story.Tell({{500.0, Breaks("c"), ""}, {501.1, Ticks(), ""}});
  EXPECT_EQ(FenceOf(story), "");
  story.Tell({{1000.0, Ticks(), ""}, {1102.0, Ticks(), "forget"}});
  EXPECT_EQ(story.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

// The others wait a moment for more nodes. The reason is not the fence then.
TEST(Fence, OnceOpenItIsNoReason) {
  JobStory story("1:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {1.1, Ticks(), "form g1 a"},
      {1.2, Prepares("a", 1), "run g1"},
      {2.0, Breaks("a"), ""},
      {3.1, Ticks(), ""},
      {3.2, Attends("c"), ""},
      {4.3, Ticks(), ""},
  });
  EXPECT_NE(FenceOf(story), "");
  story.Tell({{5.0, Attends("d"), ""}, {5.1, Evicts({"a"}), ""}});
  EXPECT_EQ(FenceOf(story), "");
  story.Tell({{6.1, Ticks(), "form g2 c,d"}});
}

TEST(Fence, AMemberThatIsHereOpensIt) {
  // Any member may open it, because the old world then lacks that member.
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2, NextOf(1)), "form g2 a,c"}});
}

// The member was lost again before it was in a world. It waits for a seat, and
// reports meanwhile that its ranks are gone.
TEST(Fence, AMemberThatSaysThatItsRanksAreGoneOpensIt) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2, NextOf(1)), "form g2 a,c"},
              {5.1, Breaks("a"), ""},
              {6.2, Ticks(), "abort g2 LOST_STREAM"},
              {6.3, Attends("a", 3, NextOf(2)), ""},
              {6.4, Stops("a", 1), "form g3 c"}});
}

TEST(Fence, AnotherAgentOfAMembersNameDoesNotOpenIt) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  // An agent with a token can take a free name. It proves nothing about the
  // ranks of the earlier agent.
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2), ""},
              {5.1, Attends("b", 2, Swept({7})), ""}});
  EXPECT_NE(FenceOf(story), "");
  // This agent was started on the machine of the life that it names.
  story.Tell({{5.2, Breaks("b"), ""},
              {6.3, Ticks(), ""},
              {6.4, Beats("a"), ""},
              {6.5, Beats("c"), ""},
              {7.0, Attends("b", 3, Swept({7, 1})), "form g2 a,b"}});
}

TEST(Fence, AnEvictedMemberOpensIt) {
  for (const char* name : {"a", "b"}) {
    JobStory story("1:2");
    story.Tell(BothBreak());
    story.Tell({{4.0, Beats("c"), ""}, {4.1, Evicts({name}), "form g2 c"}});
  }
  JobStory other("1:2");
  other.Tell(BothBreak());
  other.Tell({{4.0, Beats("c"), ""}, {4.1, Evicts({"d"}), ""}});
}

// The agent that has the name now has nothing to do with the ranks that the
// fence waits for. After the eviction, no credential of the former agent is
// accepted.
TEST(Fence, AFormerAgentIsEvictedAndNotTheOneThatHasItsNameNow) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  const uint64_t epoch = story.job().node_epochs().EpochOf("a");
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2), ""},
              {5.0, Attends("b", 2), ""}});
  EXPECT_TRUE(absl::StrContains(FenceOf(story), "rollcall evict a"))
      << FenceOf(story);
  EXPECT_FALSE(story.job().EvictsFormer("c"));
  story.Tell({{5.1, Evicts({"a"}), "form g2 a,b"}});
  EXPECT_TRUE(story.journal().contains(Journal::Kind::kFenceOpen));
  EXPECT_TRUE(story.job().node_epochs().WasRaisedPast("a", epoch));
  HelloOptions former = Holds(0, 1);
  EXPECT_FALSE(story.job().CredentialStands(HelloOf("a", 1, former)));
  // The fence is open, so now the eviction is for the agent that attends.
  story.Tell({{5.2, PreparesAll({"a", "b"}, 2), "run g2"},
              {5.3, Evicts({"a"}),
               "refuse a EVICTED; abort g2 EVICTED; "
               "form g3 c,b"}});
}

// The former agent may still train.
TEST(Fence, AnotherAgentOfAMembersNameThatIsEvictedDoesNotOpenIt) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {2.0, Breaks("a"), ""},
      {2.0, Breaks("b"), ""},
      {3.1, Ticks(), ""},
      {3.2, Attends("a", 2), ""},
      {3.3, Evicts({"a"}), "refuse a EVICTED"},
      {3.4, Attends("c"), ""},
      {3.5, Attends("d"), ""},
  });
  EXPECT_NE(FenceOf(story), "");
  // The fence reason names a, and no agent has that name.
  story.Tell({{3.6, Evicts({"a"}), "form g2 c,d"}});
}

// A revoked token also evicts the agent that has the name now, if that came by
// the token.
TEST(Fence, ARevokedTokenEvictsTheAgentThatHasTheNameNow) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2), ""},
              {5.0, Attends("d"), ""},
              {5.1, Evicts({"a", "d"}), "refuse a EVICTED; refuse d EVICTED"}});
  EXPECT_NE(FenceOf(story), "");
}

// To name a member without an agent is clearer than one whose name another
// agent has now.
TEST(Fence, WhomToEvictIsOneThatIsNotHere) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.Tell({{4.0, Beats("c"), ""}, {5.0, Attends("a", 2), ""}});
  EXPECT_TRUE(absl::StrContains(FenceOf(story), "rollcall evict b"))
      << FenceOf(story);
  story.Tell({{5.1, Evicts({"b"}), "form g2 a,c"}});
  EXPECT_TRUE(story.journal().contains(Journal::Kind::kFenceOpen));
}

// The agent that the launcher has started since stays, and the job goes on.
TEST(Fence, TheFormerAgentOfTheLaunchersNodeIsEvictedAlone) {
  HelloOptions own;
  own.launcher = true;
  JobStory story("1");
  story.Tell({{0.0, Attends("a", 1, own), "form g1 a"},
              {0.1, Prepares("a", 1), "run g1"},
              {2.0, Breaks("a"), ""},
              {3.1, Ticks(), ""},
              {3.2, Attends("a", 2, own), ""}});
  EXPECT_TRUE(absl::StrContains(FenceOf(story), "rollcall evict a"))
      << FenceOf(story);
  story.Tell({{3.3, Evicts({"a"}), "form g2 a"}});
}

// An incarnation is no secret, because status and the world commit show it.
TEST(Fence, AnIncarnationWithoutItsCredentialDoesNotOpenIt) {
  JobStory before("1:2");
  before.Tell(BothBreak());
  JobStory story(Job::Restore("j", Ended(before), Limits{}, absl::UnixEpoch()),
                 before);
  story.Tell({{0.0, Attends("a", 1), ""},
              {1.1, Ticks(), ""},
              {1.2, Stops("a", 1), ""}});
  EXPECT_NE(FenceOf(story), "");
}

// The same holds for an agent that names, by a token, the life that it follows.
// It would use the member's own incarnation, which a credential has since
// replaced.
TEST(Fence, ATokenThatNamesAnEarlierLifeDoesNotOpenIt) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  HelloOptions forged;
  forged.previous_incarnation = 2;
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2, NextOf(1)), "form g2 a,c"},
              {5.1, Breaks("a"), ""},
              {6.2, Ticks(), "abort g2 LOST_STREAM"},
              {6.3, Attends("a", 1, forged), ""},
              {6.4, Stops("a", 1), ""}});
  EXPECT_NE(FenceOf(story), "");
}

// The member's ranks were gone before it was prepared for the next world.
TEST(Fence, AMemberThatWasPreparedForTheNextWorldOpensIt) {
  JobStory story("1:2");
  story.Tell(BothBreak());
  story.Tell({{4.0, Beats("c"), ""},
              {5.0, Attends("a", 2, NextOf(1)), "form g2 a,c"},
              {5.1, Prepares("a", 2), ""},
              {5.2, Breaks("a"), ""},
              {5.5, Beats("c"), ""},
              {6.3, Ticks(), "abort g2 LOST_STREAM; form g3 c"}});
}

TEST(Fence, AMemberWhoseRanksHaveFinishedDoesNotOpenIt) {
  // b still trains without a.
  JobStory story("1:2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Attends("c"), ""},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {1.0, Exits("a", 1, 0), ""},
      {2.0, Breaks("b"), ""},
      {2.9, Beats("c"), ""},
      {3.0, Beats("a"), ""},
      {3.1, Ticks(), "abort g1 LOST_STREAM"},
  });
  EXPECT_NE(FenceOf(story), "");
}

// With --once the command runs only on a. The world says so, so the daemon
// needs no report of b.
std::vector<Row> OnlyARuns() {
  return {
      {0.0, Attends("a", 1, {.once = true}), ""},
      {0.0, Attends("b", 1, {.once = true}), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
  };
}

HelloOptions IsBack(uint64_t running) {
  HelloOptions options = Holds(0, running);
  options.once = true;
  return options;
}

TEST(Fence, AMemberThatRunsNothingDoesNotOpenIt) {
  JobStory story("1:2");
  story.Tell(OnlyARuns());
  story.Tell({
      {2.0, Breaks("a"), ""},
      {2.9, Beats("b"), ""},
      {3.1, Ticks(), "abort g1 LOST_STREAM"},
      {3.2, Stops("b", 1), ""},
  });
  EXPECT_TRUE(absl::StrContains(FenceOf(story), "may still train on a, "))
      << FenceOf(story);
  // The same holds for the next daemon, and if the member is evicted.
  JobStory next(Job::Restore("j", Ended(story), Limits{}, absl::UnixEpoch()),
                story);
  next.Tell({{0.0, Attends("b", 1, IsBack(0)), ""},
             {1.1, Ticks(), ""},
             {1.2, Stops("b", 1), ""}});
  EXPECT_NE(FenceOf(next), "");
  next.Tell({{1.3, Evicts({"b"}), "refuse b EVICTED"},
             {1.4, Attends("c", 1, {.once = true}), ""},
             {2.6, Ticks(), ""}});
  EXPECT_NE(FenceOf(next), "");
  TellBeats(next, {"c"}, kUnheard, 4);
  next.Tell({{kUnheard + 0.1, Ticks(), "form g2 c"}});
  HelloOptions of_a = NextOf(1);
  of_a.once = true;
  story.Tell({{3.3, Attends("a", 2, of_a), "form g2 a,b"}});
}

// The daemon is restarted while the world runs.
TEST(Fence, AMemberThatRunsNothingAndIsBackAloneDoesNotOpenIt) {
  JobStory before("1:2");
  before.Tell(OnlyARuns());
  JobStory story = RestartOf(before);
  story.Tell({{0.1, Attends("b", 1, IsBack(1)), ""}});
  TellBeats(story, {"b"}, 60, 2);
  story.Tell(
      {{60.1, Ticks(), "abort g1 LOST_STREAM"}, {60.2, Stops("b", 1), ""}});
  EXPECT_NE(FenceOf(story), "");
  // The daemon's restart counts as the last message of a.
  TellBeats(story, {"b"}, kUnheard, 62);
  story.Tell({{kUnheard + 0.1, Ticks(), "form g2 b"}});
}

TEST(Fence, ADaemonThatIsStartedAgainKeepsIt) {
  JobStory before("1:2");
  before.Tell(BothBreak());
  const JournalState state = Ended(before);
  const auto restarted = [&] {
    return JobStory(Job::Restore("j", state, Limits{}, absl::UnixEpoch()),
                    before);
  };
  // The restart counts as the last message.
  JobStory story = restarted();
  story.Tell(
      {{0.0, Attends("c", 1, {.run = "run1", .by_credential = true}), ""}});
  TellBeats(story, {"c"}, kUnheard, 1.5);
  EXPECT_NE(FenceOf(story), "");
  story.Tell({{kUnheard + 0.1, Ticks(), "form g2 c"}});
  // Here a member comes back.
  JobStory back = restarted();
  back.Tell({{0.0, Attends("c", 1, {.run = "run1", .by_credential = true}), ""},
             {0.5, Attends("a", 1, {.run = "run1", .by_credential = true}),
              "form g2 a,c"}});
}

}  // namespace
}  // namespace rollcall
