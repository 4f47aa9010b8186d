// Nodes that join and are lost again and again do not keep the others from
// forming a world and training.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

const v1::NodeStatus* Find(const v1::JobStatus& status,
                           const std::string& node) {
  for (const v1::NodeStatus& row : status.nodes()) {
    if (row.node() == node) return &row;
  }
  return nullptr;
}

// Gives the event and ignores the job's answer.
Told Quietly(Told told) {
  return [=](JobStory& story) {
    told(story);
    return std::string();
  };
}

// --- Gathering ---------------------------------------------------------------

TEST(LastCallStory, ANodeThatComesAndGoesPutsNothingOff) {
  JobStory story("2:4");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.5, Attends("f", 1), ""},
      {0.8, Breaks("f"), ""},
      {0.9, Attends("f", 2, NextOf(1)), ""},
      {1.2, Breaks("f"), ""},
      {1.4, Attends("f", 3, NextOf(2)), ""},
      {1.5, Ticks(), "form g1 a,b,f"},
  });
}

TEST(LastCallStory, NewNamesPutItOffForAMinute) {
  JobStory story("2:16");
  story.Tell({{0.0, Attends("a"), ""}, {0.0, Attends("b"), ""}});
  double at = 0;
  for (int i = 0; story.job().state() == v1::JOB_STATE_GATHERING; ++i) {
    at += 0.5;
    ASSERT_LT(at, 65);
    const std::string name = absl::StrCat("n", i);
    story.Tell({{at, Quietly(Beats("a")), ""},
                {at, Quietly(Beats("b")), ""},
                {at, Quietly(Attends(name)), ""},
                {at, Quietly(Breaks(name)), ""}});
  }
  EXPECT_GT(at, 60);
  EXPECT_TRUE(absl::StrContains(
      story.job().Status(story.now()).last_reform().reason(), "for 1m"));
}

// --- Running -----------------------------------------------------------------

// a and b are healthy, a third node flaps. Whenever it does not attend, its
// next life does, as `name(life)`. It goes once it is in a world, or is called
// into one, as `goes` says.
enum class Goes { kOnceCommitted, kOnceCalled, kOnceProposed, kRefuses };

struct Played {
  int worlds = 0;
  // The longest time for which a world of only a and b ran.
  double longest_s = 0;
  std::string reason;  // Shown for a node that waits for a seat.
};

Played Play(Goes goes, double seconds,
            const std::function<std::string(uint64_t)>& name) {
  JobStory story("2:4");
  double at = 1.0;
  const auto tell = [&](Told told) {
    story.Tell({{at, Quietly(std::move(told)), ""}});
  };
  story.Tell({{0.0, Attends("a"), ""}, {0.0, Attends("b"), ""}});
  tell(Ticks());
  Played played;
  uint64_t life = 0;
  bool here = false;
  uint64_t generation = 0;
  uint64_t notice = 0;
  double since = 0;
  for (; at < seconds; at += 0.25) {
    tell(Beats("a"));
    tell(Beats("b"));
    if (!here) ++life;
    if (!here) tell(Attends(name(life), life, NextOf(life - 1)));
    here = true;
    const std::string f = name(life);
    tell(Beats(f));
    tell(Ticks());
    const v1::JobStatus status = story.job().Status(story.now());
    EXPECT_NE(status.state(), v1::JOB_STATE_FAILED) << status.end_reason();
    const v1::NodeStatus* row = Find(status, f);
    const bool member = row != nullptr && row->node_rank() >= 0;
    if (row != nullptr && row->state() == v1::NODE_STATE_SPARE &&
        !row->reason().empty()) {
      played.reason = row->reason();
    }
    if (status.state() == v1::JOB_STATE_FORMING) {
      tell(Prepares("a", status.generation()));
      tell(Prepares("b", status.generation()));
      if (member && goes == Goes::kRefuses) {
        tell(Refuses(f, status.generation()));
        tell(Breaks(f));
        here = false;
      } else if (member && goes == Goes::kOnceProposed) {
        tell(Breaks(f));
        here = false;
      } else if (member) {
        tell(Prepares(f, status.generation()));
      }
      continue;
    }
    if (status.state() != v1::JOB_STATE_RUNNING) continue;
    if (generation != status.generation()) {
      generation = status.generation();
      ++played.worlds;
      since = at;
    }
    if (!member) played.longest_s = std::max(played.longest_s, at - since);
    const bool called =
        status.has_notice() && notice != status.notice().notice();
    if (called) {
      notice = status.notice().notice();
      tell(Sees("a", notice, generation));
    }
    if (member || (called && goes == Goes::kOnceCalled)) {
      tell(Breaks(f));
      here = false;
    }
    if (called) tell(Sees("b", notice, generation));
  }
  return played;
}

constexpr double kMinutes = 60;

TEST(FlapStory, OneNameDoesNotKeepTheOthersFromTraining) {
  for (const Goes goes : {Goes::kOnceCommitted, Goes::kOnceCalled,
                          Goes::kOnceProposed, Goes::kRefuses}) {
    const Played played =
        Play(goes, 20 * kMinutes, [](uint64_t) { return std::string("f"); });
    // Each loss causes two worlds. There are ten losses in the first ten
    // minutes, then one in five minutes.
    EXPECT_LE(played.worlds, 30) << static_cast<int>(goes);
    EXPECT_GE(played.worlds, 10) << static_cast<int>(goes);
    EXPECT_GE(played.longest_s, 4 * kMinutes) << static_cast<int>(goes);
    EXPECT_TRUE(absl::StrContains(played.reason, "it was lost"))
        << played.reason;
  }
}

TEST(FlapStory, ManyNamesOfOneTokenDoNotEither) {
  for (const Goes goes : {Goes::kOnceCommitted, Goes::kOnceCalled,
                          Goes::kOnceProposed, Goes::kRefuses}) {
    const Played played = Play(goes, 20 * kMinutes, [](uint64_t life) {
      return absl::StrCat("n", life);
    });
    EXPECT_LE(played.worlds, 40) << static_cast<int>(goes);
    EXPECT_GE(played.longest_s, 4 * kMinutes) << static_cast<int>(goes);
    EXPECT_TRUE(absl::StrContains(played.reason, "several names"))
        << played.reason;
  }
}

TEST(FlapStory, NamesThatTakeTurnsDoNotEither) {
  const Played played =
      Play(Goes::kOnceCommitted, 30 * kMinutes,
           [](uint64_t life) { return absl::StrCat("n", life % 20); });
  EXPECT_LE(played.worlds, 120);
  EXPECT_GE(played.longest_s, 1 * kMinutes);
}

TEST(FlapStory, TheNextLifeOfANodeThatFlapsGetsNoSeatAtOnce) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {0.2, Breaks("c"), ""},
      // The first loss: c takes its seat again.
      {0.3, Attends("c", 2, NextOf(1)), "abort g1 REPLACED; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.5, Breaks("c"), ""},
      {0.6, Attends("c", 3, NextOf(2)), "abort g2 REPLACED; form g3 a,b"},
      {0.7, PreparesAll({"a", "b"}, 3), "run g3"},
      {1.5, Ticks(), ""},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(Find(status, "c")->state(), v1::NODE_STATE_SPARE);
  EXPECT_TRUE(absl::StrContains(Find(status, "c")->reason(), "2 times"));
  EXPECT_EQ(story.job().NextDeadline(),
            absl::UnixEpoch() + absl::Milliseconds(1600));
  story.Tell({{1.6, Ticks(), "notice 1 GROW"},
              {1.7, Sees("a", 1, 3), ""},
              {1.7, Sees("b", 1, 3), "abort g3 GROW; form g4 a,b,c"}});
  EXPECT_EQ(Find(story.job().Status(story.now()), "c")->reason(), "");
}

TEST(FlapStory, AnEvictionIsNoLoss) {
  JobStory story("2:3");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"}});
  // In each life, c is called into the world, and evicted before the boundary.
  for (uint64_t life = 1; life <= 4; ++life) {
    const uint64_t generation = story.generation();
    const double at = 1.0 + static_cast<double>(life);
    story.Tell(
        {{at, Attends("c", life), absl::StrCat("notice ", life, " GROW")},
         {at, Evicts({"c"}), "refuse c EVICTED"},
         {at, Sees("a", life, generation), ""},
         {at, Sees("b", life, generation),
          absl::StrCat("abort g", generation, " GROW; form g", generation + 1,
                       " a,b")},
         {at, PreparesAll({"a", "b"}, generation + 1),
          absl::StrCat("run g", generation + 1)}});
  }
  EXPECT_FALSE(absl::StrContains(story.logs(), "event=held")) << story.logs();
}

// If too few nodes are left without those that flap, the one that has attended
// longest gets a seat.
TEST(FlapStory, NoWorldAtAllIsWorse) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {0.2, Breaks("c"), ""},
      {0.2, Attends("c", 2, NextOf(1)), "abort g1 REPLACED; form g2 a,b,c"},
      {0.3, Attends("d", 1), ""},
      {0.4, Breaks("c"), ""},
      {0.4, Attends("c", 3, NextOf(2)), "abort g2 REPLACED; form g3 a,b,d"},
      {0.5, Breaks("d"), ""},
      {0.5, Attends("d", 2, NextOf(1)), "abort g3 REPLACED; form g4 a,b,d"},
      {0.6, Breaks("d"), ""},
      // c and d have both been lost twice.
      {0.6, Attends("d", 3, NextOf(2)), "abort g4 REPLACED; form g5 a,b,c"},
  });
}

TEST(FlapStory, ADrainByAPersonIsNoLoss) {
  JobStory story = ThreeRunning("2:3");
  double at = 1.0;
  for (uint64_t round = 0; round < 5; ++round) {
    const uint64_t generation = 1 + 2 * round;
    const uint64_t notice = 1 + 2 * round;
    at += 1;
    const auto form = [](uint64_t g, const char* names) {
      return absl::StrCat("form g", g, " ", names);
    };
    story.Tell({
        {at, Quietly(Beats("a")), ""},
        {at, Quietly(Beats("b")), ""},
        {at, Drains("c"), absl::StrCat("notice ", notice, " DRAIN c")},
        {at, Sees("a", notice, generation), ""},
        {at, Sees("b", notice, generation), ""},
        {at, Sees("c", notice, generation),
         absl::StrCat("abort g", generation, " LEAVING; ",
                      form(generation + 1, "a,b"))},
        {at, Quietly(Breaks("c")), ""},
        {at, Quietly(PreparesAll({"a", "b"}, generation + 1)), ""},
        {at, Attends("c", 2 + round),
         absl::StrCat("notice ", notice + 1, " GROW")},
        {at, Sees("a", notice + 1, generation + 1), ""},
        {at, Sees("b", notice + 1, generation + 1),
         absl::StrCat("abort g", generation + 1, " GROW; ",
                      form(generation + 2, "a,b,c"))},
        {at, Quietly(PreparesAll({"a", "b", "c"}, generation + 2)), ""},
    });
  }
}

TEST(FlapStory, AnEvictionByAPersonIsNoLoss) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {0.2, Evicts({"c"}), "refuse c EVICTED; abort g1 EVICTED; form g2 a,b"},
      {0.2, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.3, Attends("c", 2), "notice 1 GROW"},
      {0.3, Sees("a", 1, 2), ""},
      {0.3, Sees("b", 1, 2), "abort g2 GROW; form g3 a,b,c"},
      {0.3, PreparesAll({"a", "b", "c"}, 3), "run g3"},
      {0.4, Evicts({"c"}), "refuse c EVICTED; abort g3 EVICTED; form g4 a,b"},
      {0.4, PreparesAll({"a", "b"}, 4), "run g4"},
      // c gets no delay, though it was in no world for long.
      {0.5, Attends("c", 3), "notice 2 GROW"},
  });
}

// A restarted daemon does not know how long the world had run before.
TEST(FlapStory, ALossAfterARestartOfTheDaemonIsNone) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      {0.2, Breaks("c"), ""},
      {0.3, Attends("c", 2, NextOf(1)), "abort g1 REPLACED; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      // This is the first loss that counts, so c takes its seat again.
      {0.5, Breaks("c"), ""},
      {0.6, Attends("c", 3, NextOf(2)), "abort g2 REPLACED; form g3 a,b,c"},
  });
}

// An earlier daemon's notices may have higher numbers. A member that claims
// ever higher ones makes the daemon tell all members at most ten times a
// second.
TEST(NoticeStory, HigherNumbersAreToldTogether) {
  JobStory story = RestartOf(ThreeRunning("2:3"));
  story.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      {1.5, Drains("c"), "notice 1 DRAIN c"},
      {1.51, Sees("a", 10, 1), ""},
      {1.52, Sees("a", 20, 1), ""},
      {1.53, Sees("a", 30, 1), ""},
      {1.60, Ticks(), "notice 31 DRAIN c"},
  });
}

}  // namespace
}  // namespace rollcall
