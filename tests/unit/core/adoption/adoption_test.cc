#include "daemon/core/adoption/adoption.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/small_world.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Answer = Adoption::Answer;

// reattach_grace is 60 s.
const Limits kAdoptionLimits;

v1::JobSettings TwoToFour() {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(4);
  return settings;
}

// A member of the world comes back with a valid proof of the commit.
Attend Comes(SessionId session, const v1::World& world, int row) {
  Attend attend;
  attend.session = session;
  attend.hello = HelloOf(world, row);
  attend.hello.set_node_credential("proof");
  attend.epoch = 1;
  attend.commit_proven = true;
  return attend;
}

Adoption::Taken Take(Adoption& adoption, const Attend& attend, double at = 10) {
  return adoption.Take(attend, TwoToFour(), At(at), kAdoptionLimits);
}

TEST(Adoption, KeepsTheStreamsOfAgentsThatProveAWorld) {
  const v1::World world = WorldOf(7, {"a", "b", "c"});
  struct {
    const char* name;
    std::function<void(Adoption&, Attend&)> before;
    Answer answer;
  } const kRows[] = {
      {"a member", [](Adoption&, Attend&) {}, Answer::kKept},
      {"no run is adopted", [](Adoption& a, Attend&) { a.Forgo(); },
       Answer::kNone},
      {"a token proves no run",
       [](Adoption&, Attend& at) { at.hello.mutable_token()->set_id("t"); },
       Answer::kNone},
      {"the commit is not proven",
       [](Adoption&, Attend& at) { at.commit_proven = false; },
       Answer::kRedial},
      {"a spare", [](Adoption&, Attend& at) { at.hello.clear_resume_state(); },
       Answer::kRedial},
      {"an epoch that is not of its row",
       [](Adoption&, Attend& at) { at.epoch = 2; }, Answer::kRedial},
  };
  for (const auto& row : kRows) {
    Adoption adoption;
    adoption.Allow();
    Attend attend = Comes(1, world, 0);
    row.before(adoption, attend);
    const Adoption::Taken taken = Take(adoption, attend);
    EXPECT_EQ(taken.answer, row.answer) << row.name;
    EXPECT_EQ(taken.older, std::nullopt) << row.name;
    EXPECT_EQ(adoption.waiting(), row.answer == Answer::kKept) << row.name;
    // A spare also gets a time, because it is told to redial until the
    // decision.
    EXPECT_EQ(adoption.until(),
              row.answer == Answer::kNone ? absl::InfiniteFuture() : At(70))
        << row.name;
    adoption.CheckInvariants();
  }
  Adoption not_allowed;
  EXPECT_EQ(Take(not_allowed, Comes(1, world, 0)).answer, Answer::kNone);
}

TEST(Adoption, AWorldOfAnotherNumberOfNodesIsNotTaken) {
  const v1::World world = WorldOf(7, {"a", "b", "c"});
  struct {
    uint32_t nodes_min;
    uint32_t nodes_max;
    Answer answer;
  } const kRows[] = {
      {3, 3, Answer::kKept}, {4, 4, Answer::kRedial}, {1, 2, Answer::kRedial}};
  for (const auto& row : kRows) {
    Adoption adoption;
    adoption.Allow();
    v1::JobSettings settings;
    settings.set_nodes_min(row.nodes_min);
    settings.set_nodes_max(row.nodes_max);
    EXPECT_EQ(
        adoption.Take(Comes(1, world, 0), settings, At(10), kAdoptionLimits)
            .answer,
        row.answer)
        << row.nodes_min;
  }
}

TEST(Adoption, ChoosesAWorldOnceOverHalfOfItsMembersWait) {
  const v1::World world = WorldOf(7, {"a", "b", "c"});
  Adoption adoption;
  adoption.Allow();
  EXPECT_TRUE(adoption.possible());
  Take(adoption, Comes(1, world, 0));
  EXPECT_EQ(adoption.Chosen(/*time_is_over=*/true), nullptr);
  Take(adoption, Comes(2, world, 1));
  ASSERT_NE(adoption.Chosen(/*time_is_over=*/false), nullptr);
  EXPECT_EQ(adoption.Chosen(false)->world.generation(), 7u);
  // When a stream ends, its claim goes too.
  adoption.Drop(2);
  EXPECT_EQ(adoption.Chosen(/*time_is_over=*/true), nullptr);
  EXPECT_TRUE(adoption.waiting());
  adoption.Drop(9);
  adoption.Drop(1);
  EXPECT_FALSE(adoption.waiting());
}

TEST(Adoption, WaitsForAHigherGenerationUntilTheTimeIsOver) {
  const v1::World older = WorldOf(7, {"a", "b"});
  const v1::World newer = WorldOf(9, {"c", "d"});
  Adoption adoption;
  adoption.Allow();
  Take(adoption, Comes(1, older, 0));
  Take(adoption, Comes(2, older, 1));
  Take(adoption, Comes(3, newer, 0));
  EXPECT_EQ(adoption.Chosen(/*time_is_over=*/false), nullptr);
  ASSERT_NE(adoption.Chosen(/*time_is_over=*/true), nullptr);
  EXPECT_EQ(adoption.Chosen(true)->world.generation(), 7u);
}

TEST(Adoption, ANewerStreamOfAnAgentReplacesTheOlderOne) {
  const v1::World world = WorldOf(7, {"a", "b"});
  Adoption adoption;
  adoption.Allow();
  EXPECT_EQ(Take(adoption, Comes(1, world, 0)).older, std::nullopt);
  EXPECT_EQ(Take(adoption, Comes(2, world, 0)).older, 1u);
  // The end of the older stream has no effect now.
  adoption.Drop(1);
  EXPECT_TRUE(adoption.waiting());
  // The agent has entered a later world.
  const v1::World later = WorldOf(8, {"a", "b"});
  EXPECT_EQ(Take(adoption, Comes(3, later, 0)).older, 2u);
  Take(adoption, Comes(4, later, 1));
  ASSERT_NE(adoption.Chosen(/*time_is_over=*/false), nullptr);
  EXPECT_EQ(adoption.Chosen(false)->world.generation(), 8u);
  // A stream without a proof does not replace the older one, which keeps
  // waiting.
  Attend without = Comes(5, later, 1);
  without.commit_proven = false;
  EXPECT_EQ(Take(adoption, without).older, std::nullopt);
  const std::vector<Attend> waited = adoption.TakeAll();
  ASSERT_EQ(waited.size(), 2u);
  EXPECT_EQ(waited[0].session, 3u);
  EXPECT_EQ(waited[1].session, 4u);
}

TEST(Adoption, TheWaitBeginsWithTheFirstAgent) {
  const v1::World world = WorldOf(7, {"a", "b", "c"});
  Adoption adoption;
  adoption.Allow();
  EXPECT_EQ(adoption.until(), absl::InfiniteFuture());
  adoption.PutOff(absl::Seconds(5));
  EXPECT_EQ(adoption.until(), absl::InfiniteFuture());
  Take(adoption, Comes(1, world, 0), 10);
  Take(adoption, Comes(2, world, 1), 40);
  EXPECT_EQ(adoption.until(), At(70));
  adoption.Drop(1);
  adoption.Drop(2);
  Take(adoption, Comes(3, world, 0), 50);
  EXPECT_EQ(adoption.until(), At(70)) << "it is not extended";
  adoption.PutOff(absl::Seconds(5));
  EXPECT_EQ(adoption.until(), At(75));
  adoption.End();
  EXPECT_EQ(adoption.until(), absl::InfiniteFuture());
}

TEST(Adoption, ReturnsTheWaitingAgentsWithoutTheirWorlds) {
  const v1::World world = WorldOf(7, {"a", "b"});
  Adoption adoption;
  adoption.Allow();
  Take(adoption, Comes(4, world, 0));
  Take(adoption, Comes(6, world, 1));
  const std::vector<Attend> waited = adoption.TakeAll();
  ASSERT_EQ(waited.size(), 2u);
  EXPECT_EQ(waited[0].hello.node(), "a");
  EXPECT_EQ(waited[1].hello.node(), "b");
  for (const Attend& attend : waited) {
    EXPECT_EQ(attend.hello.resume_state().running_generation(), 7u);
    EXPECT_EQ(attend.hello.resume_state().world(), "");
    EXPECT_EQ(attend.hello.resume_state().world_commit(), "");
  }
  EXPECT_FALSE(adoption.waiting());
  EXPECT_EQ(adoption.until(), absl::InfiniteFuture());
  EXPECT_EQ(adoption.Chosen(/*time_is_over=*/true), nullptr);
  EXPECT_TRUE(adoption.TakeAll().empty());
}

}  // namespace
}  // namespace rollcall
