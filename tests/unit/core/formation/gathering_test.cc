#include "daemon/core/formation/gathering.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace rollcall {
namespace {

using Verdict = Gathering::Verdict;

constexpr double kNever = 1e9;

absl::Time AtOrNever(double second) {
  return second == kNever ? absl::InfiniteFuture()
                          : absl::UnixEpoch() + absl::Seconds(second);
}

// last_call is 1 s, join_timeout 600 s, arrivals_wait_max 60 s.
const Limits kLimits;

v1::JobSettings TwoToFour() {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(4);
  return settings;
}

Verdict Judge(Gathering& gathering, size_t present, double at,
              uint64_t revision = 1) {
  return gathering.Judge(present, TwoToFour(), revision, AtOrNever(at),
                         kLimits);
}

TEST(Unattended, EndsAJobWithoutNodesIfThatIsAllowed) {
  struct Note {
    double at;
    bool attended;
  };
  struct {
    const char* name;
    bool allowed;
    std::vector<Note> notes;
    double due;  // reattach_grace is 60 s.
  } const kRows[] = {
      {"no node ever attended", true, {}, 70},
      {"still none", true, {{20, false}, {30, false}}, 70},
      {"a node attends", true, {{20, true}}, kNever},
      {"it has left", true, {{20, true}, {30, false}, {40, false}}, 90},
      {"it came back",
       true,
       {{20, true}, {30, false}, {40, true}, {50, false}},
       110},
      {"the job never ends for that", false, {}, kNever},
      {"also not after a node has left",
       false,
       {{20, true}, {30, false}},
       kNever},
  };
  for (const auto& row : kRows) {
    Unattended unattended(AtOrNever(10));
    if (row.allowed) unattended.Allow();
    for (const Note& note : row.notes) {
      unattended.Note(note.attended, AtOrNever(note.at));
    }
    EXPECT_EQ(unattended.Due(kLimits), AtOrNever(row.due)) << row.name;
  }
}

TEST(Gathering, FormsWithEnoughNodesAfterTheLastCall) {
  using G = Gathering;
  const auto arrives = [](double at) {
    return
        [at](G& g) { g.Arrived(absl::InfinitePast(), AtOrNever(at), kLimits); };
  };
  struct {
    const char* name;
    std::function<void(G&)> before;
    size_t present;
    double at;
    Verdict verdict;
    double due;
  } const kRows[] = {
      {"too few", [](G&) {}, 1, 100, Verdict::kWait, 600},
      {"too few in time", [](G&) {}, 1, 600, Verdict::kTimedOut, 600},
      {"enough in the last call", [](G&) {}, 2, 0.9, Verdict::kWait, 1},
      {"enough after the last call", [](G&) {}, 2, 1, Verdict::kForm, 1},
      {"enough after the join timeout", [](G&) {}, 2, 601, Verdict::kForm, 1},
      {"all that may come", [](G&) {}, 4, 0.1, Verdict::kForm, 1},
      {"more than that", [](G&) {}, 5, 0.1, Verdict::kForm, 1},
      {"a node has arrived", arrives(5), 3, 5.9, Verdict::kWait, 6},
      {"a second after it", arrives(5), 3, 6, Verdict::kForm, 6},
      {"a world has just ended",
       [](G& g) { g.Begin(/*at_once=*/true, AtOrNever(50), kLimits); }, 2, 50,
       Verdict::kForm, 51},
      {"an earlier world has ended, and nodes are called again",
       [](G& g) { g.Begin(/*at_once=*/false, AtOrNever(50), kLimits); }, 2,
       50.9, Verdict::kWait, 51},
      {"the join timeout begins with the gathering",
       [](G& g) { g.Begin(/*at_once=*/true, AtOrNever(50), kLimits); }, 1, 600,
       Verdict::kWait, 650},
      {"too few once: the last call counts again",
       [](G& g) {
         g.Begin(/*at_once=*/true, AtOrNever(50), kLimits);
         Judge(g, 1, 50.1);
       },
       2, 50.9, Verdict::kWait, 51},
      {"a world was proposed: the last call counts for the next one",
       [](G& g) {
         g.Begin(/*at_once=*/true, AtOrNever(50), kLimits);
         g.Formed();
       },
       2, 50.9, Verdict::kWait, 51},
      {"the last call begins again", [](G& g) { g.CallAgain(AtOrNever(30)); },
       2, 30.9, Verdict::kWait, 31},
      {"the join timeout does not", [](G& g) { g.CallAgain(AtOrNever(30)); }, 1,
       600, Verdict::kTimedOut, 600},
      {"the daemon was isolated",
       [](G& g) { g.BeginAgain(AtOrNever(200), kLimits); }, 1, 600,
       Verdict::kWait, 800},
      {"too few, and a node is set up",
       [](G& g) {
         g.NoteSetups(true, AtOrNever(500), kLimits);
         g.NoteSetups(true, AtOrNever(700), kLimits);
       },
       1, 700, Verdict::kWait, 1120},
      {"it was set up for 200 s",
       [](G& g) {
         g.NoteSetups(true, AtOrNever(500), kLimits);
         g.NoteSetups(false, AtOrNever(700), kLimits);
       },
       1, 799, Verdict::kWait, 800},
      {"enough, and a node is set up",
       [](G& g) { g.NoteSetups(true, AtOrNever(500), kLimits); }, 2, 600,
       Verdict::kWait, 1120},
      {"all that may come, and a spare is set up",
       [](G& g) { g.NoteSetups(true, AtOrNever(500), kLimits); }, 4, 600,
       Verdict::kForm, 1120},
      {"a world has just ended, and a newcomer is set up",
       [](G& g) {
         g.Begin(/*at_once=*/true, AtOrNever(50), kLimits);
         g.NoteSetups(true, AtOrNever(50), kLimits);
       },
       2, 50, Verdict::kForm, 51},
      {"that is no last call",
       [](G& g) { g.BeginAgain(AtOrNever(200), kLimits); }, 2, 200,
       Verdict::kForm, 1},
  };
  for (const auto& row : kRows) {
    G gathering(AtOrNever(0), kLimits);
    row.before(gathering);
    EXPECT_EQ(Judge(gathering, row.present, row.at), row.verdict) << row.name;
    EXPECT_EQ(gathering.Due(row.present >= 2, AtOrNever(row.at), kLimits),
              AtOrNever(row.due))
        << row.name;
  }
}

TEST(Gathering, CountsFromItsBeginning) {
  Gathering gathering(AtOrNever(0), kLimits);
  EXPECT_EQ(gathering.since(), AtOrNever(0));
  gathering.Begin(/*at_once=*/true, AtOrNever(50), kLimits);
  EXPECT_EQ(gathering.since(), AtOrNever(50));
  gathering.BeginAgain(AtOrNever(70), kLimits);
  EXPECT_EQ(gathering.since(), AtOrNever(70));
  gathering.CallAgain(AtOrNever(80));
  EXPECT_EQ(gathering.since(), AtOrNever(70));
}

// The tests of LastCall cover the rules themselves.
TEST(Gathering, ArrivalsCountForALimitedTimeOnceThereAreEnough) {
  Gathering gathering(AtOrNever(0), kLimits);
  Judge(gathering, 2, 1);
  // This name has already attended during this gathering.
  gathering.Arrived(AtOrNever(0.5), AtOrNever(2), kLimits);
  EXPECT_EQ(Judge(gathering, 2, 2), Verdict::kForm);
  gathering.Arrived(absl::InfinitePast(), AtOrNever(60), kLimits);
  EXPECT_EQ(Judge(gathering, 2, 60), Verdict::kWait);
  EXPECT_FALSE(gathering.overdue());
  gathering.Arrived(absl::InfinitePast(), AtOrNever(61.5), kLimits);
  EXPECT_EQ(Judge(gathering, 2, 61.5), Verdict::kForm);
  EXPECT_TRUE(gathering.overdue());
  gathering.Begin(/*at_once=*/false, AtOrNever(70), kLimits);
  EXPECT_FALSE(gathering.overdue());
}

TEST(Gathering, AnAnswerOfTheFenceIsValidForATimeAndARevision) {
  struct {
    const char* name;
    std::function<void(Gathering&)> after;
    size_t present;
    double at;
    uint64_t revision;
    Verdict verdict;
    double due;
  } const kRows[] = {
      {"valid", [](Gathering&) {}, 2, 20, 7, Verdict::kWait, 100},
      {"also for all nodes that may come", [](Gathering&) {}, 4, 20, 7,
       Verdict::kWait, 100},
      {"its time is over", [](Gathering&) {}, 2, 100, 7, Verdict::kForm, 1},
      {"something has changed", [](Gathering&) {}, 2, 20, 8, Verdict::kForm,
       100},
      {"the fence opened",
       [](Gathering& g) { g.FenceOpened(AtOrNever(20), kLimits); }, 2, 20, 7,
       Verdict::kForm, 1},
      {"another gathering",
       [](Gathering& g) { g.Begin(/*at_once=*/true, AtOrNever(20), kLimits); },
       2, 20, 7, Verdict::kForm, 21},
      {"a last call that ends sooner",
       [](Gathering& g) { g.CallAgain(AtOrNever(20)); }, 2, 20, 7,
       Verdict::kWait, 21},
      {"a last call that ends later",
       [](Gathering& g) { g.CallAgain(AtOrNever(99.5)); }, 2, 99.6, 7,
       Verdict::kWait, 100},
      {"too few nodes", [](Gathering&) {}, 1, 20, 7, Verdict::kWait, 620},
  };
  for (const auto& row : kRows) {
    Gathering gathering(AtOrNever(0), kLimits);
    EXPECT_EQ(Judge(gathering, 2, 10, 7), Verdict::kForm);
    EXPECT_TRUE(gathering.FenceHolds(AtOrNever(300)));
    gathering.FenceAsked(AtOrNever(100), 7);
    row.after(gathering);
    EXPECT_EQ(Judge(gathering, row.present, row.at, row.revision), row.verdict)
        << row.name;
    EXPECT_EQ(gathering.Due(row.present >= 2, AtOrNever(row.at), kLimits),
              AtOrNever(row.due))
        << row.name;
  }
}

TEST(Gathering, AFenceThatHoldsIsNewOnce) {
  Gathering gathering(AtOrNever(0), kLimits);
  EXPECT_TRUE(gathering.FenceHolds(AtOrNever(300)));
  EXPECT_FALSE(gathering.FenceHolds(AtOrNever(300)));
  EXPECT_TRUE(gathering.FenceHolds(AtOrNever(400)));
  gathering.FenceOpened(AtOrNever(10), kLimits);
  EXPECT_TRUE(gathering.FenceHolds(AtOrNever(400)));
  gathering.Begin(/*at_once=*/true, AtOrNever(20), kLimits);
  EXPECT_TRUE(gathering.FenceHolds(AtOrNever(400)));
}

TEST(Gathering, TheJoinTimeoutStandsStillWhileAFenceHolds) {
  struct {
    const char* name;
    bool held;
    double until;
  } const kRows[] = {
      {"a fence held until 500", true, 1100},
      {"none held", false, 600},
  };
  for (const auto& row : kRows) {
    Gathering gathering(AtOrNever(0), kLimits);
    if (row.held) gathering.FenceHolds(AtOrNever(700));
    gathering.FenceOpened(AtOrNever(500), kLimits);
    // A second answer changes nothing.
    gathering.FenceOpened(AtOrNever(550), kLimits);
    EXPECT_EQ(gathering.Due(/*enough=*/false, AtOrNever(550), kLimits),
              AtOrNever(row.until))
        << row.name;
  }
  // Too few nodes are left during the wait: the fence is not asked then.
  Gathering gathering(AtOrNever(0), kLimits);
  gathering.FenceHolds(AtOrNever(700));
  EXPECT_EQ(Judge(gathering, 1, 650), Verdict::kWait);
  EXPECT_EQ(Judge(gathering, 1, 1249), Verdict::kWait);
  EXPECT_EQ(Judge(gathering, 1, 1250), Verdict::kTimedOut);
}

TEST(Gathering, TheJoinTimeoutBeginsWhenNodesAreToldToComeBack) {
  Gathering gathering(AtOrNever(0), kLimits);
  gathering.NodesComeAt(AtOrNever(60), kLimits);
  // Each of the nodes is told, so the time is given more than once.
  gathering.NodesComeAt(AtOrNever(50), kLimits);
  EXPECT_EQ(Judge(gathering, 1, 659), Verdict::kWait);
  EXPECT_EQ(gathering.Due(/*enough=*/false, AtOrNever(1), kLimits),
            AtOrNever(660));
  EXPECT_EQ(Judge(gathering, 1, 660), Verdict::kTimedOut);
}

TEST(Gathering, TheTimeLeftIsZeroOnceTheFenceIsOpen) {
  Gathering gathering(AtOrNever(0), kLimits);
  gathering.FenceHolds(AtOrNever(300));
  EXPECT_EQ(gathering.FenceLeft(AtOrNever(100)), absl::ZeroDuration())
      << "there is no fence";
  gathering.fence() =
      Fence(3, {{"a", 11, AtOrNever(10)}, {"b", 22, AtOrNever(12)}});
  EXPECT_EQ(gathering.FenceLeft(AtOrNever(100)), absl::Seconds(200));
  EXPECT_EQ(gathering.FenceLeft(AtOrNever(301)), absl::ZeroDuration());
  // The fence is already open when it is asked again.
  EXPECT_TRUE(gathering.fence().Gone("b"));
  EXPECT_EQ(gathering.FenceLeft(AtOrNever(100)), absl::ZeroDuration());
}

}  // namespace
}  // namespace rollcall
