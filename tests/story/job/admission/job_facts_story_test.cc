// The facts of a node change while its agent runs.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

std::vector<JobStory::Row> TwoRunProbed() {
  return {
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
  };
}

// The Hello of an agent whose stream broke.
HelloOptions ComesBack() {
  HelloOptions again = Probable();
  again.run = "run1";
  again.by_credential = true;
  return again;
}

Told Changes(std::string node, const std::string& subject) {
  v1::AgentMessage message;
  v1::FactChange& change = *message.mutable_fact_change();
  change.set_kind(v1::FACT_KIND_INTERFACE);
  change.set_subject(subject);
  change.set_before("up");
  change.set_after("down");
  change.set_count(1);
  return Says(std::move(node), message);
}

v1::Facts FactsAt(const std::string& address_of) {
  v1::Facts facts = HelloOf("b", 1, Probable()).facts();
  facts.mutable_interfaces(0)->mutable_addresses(0)->set_address(
      AddressOf(address_of));
  return facts;
}

// `request`: the check request to b that this report answers; 0: none.
Told ReportsFacts(const v1::Facts& facts, uint64_t request = 1) {
  v1::AgentMessage message;
  message.mutable_check_report()->set_request(request);
  *message.mutable_check_report()->mutable_facts() = facts;
  return Says("b", message);
}

v1::Member RowOfB(const JobStory& story) {
  const v1::World world = story.ProposedWorld();
  return world.members_size() == 2 ? world.members(1) : v1::Member();
}

TEST(FactsStory, TheChecksOfAFailedNodeBringWhatItIsNow) {
  JobStory story("2");
  story.AnswersChecksItself();
  story.Tell(TwoRunProbed());
  EXPECT_EQ(RowOfB(story).address(), AddressOf("b"));
  story.Tell({
      {0.3, Exits("b", 1, 1), "abort g1 RANK_EXIT; check; form g2 a,b"},
      // The world was planned with the earlier address of b.
      {0.4, ReportsFacts(FactsAt("elsewhere")),
       "abort g2 FACTS_CHANGED; a probes b; b probes a"},
      {0.5, Reaches("a"), ""},
      {0.5, Reaches("b"), "form g3 a,b"},
      {0.6, PreparesAll({"a", "b"}, 3), "run g3"},
  });
  EXPECT_EQ(RowOfB(story).address(), AddressOf("elsewhere"));
}

TEST(FactsStory, ARailThatDiedIsNotPlannedWith) {
  v1::Facts facts = FactsAt("b");
  v1::InfinibandPort& port = *facts.add_infiniband();
  port.set_device("mlx5_0");
  port.set_port(1);
  port.set_state("DOWN");
  JobStory story("2");
  story.AnswersChecksItself();
  story.Tell(TwoRunProbed());
  story.Tell({
      {0.3, Exits("b", 1, 1), "abort g1 RANK_EXIT; check; form g2 a,b"},
      // These addresses were probed before.
      {0.4, ReportsFacts(facts), "abort g2 FACTS_CHANGED; form g3 a,b"},
  });
  EXPECT_EQ(RowOfB(story).ports_size(), 1);
}

TEST(FactsStory, NoWorldEndsForFactsThatAreTheSame) {
  JobStory story("2");
  story.AnswersChecksItself();
  story.Tell(TwoRunProbed());
  v1::Facts facts = FactsAt("b");
  facts.mutable_limits()->set_nofile(64);
  story.Tell({
      {0.3, Exits("b", 1, 1), "abort g1 RANK_EXIT; check; form g2 a,b"},
      {0.4, ReportsFacts(facts), ""},
      {0.5, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.6, ReportsFacts(facts, 0), ""},
      {0.7, Exits("a", 2, 1), "abort g2 RANK_EXIT; check; form g3 a,b"},
  });
}

TEST(FactsStory, AnAddressThatChangesWhileTheWorldRunsIsProbedAfterIt) {
  JobStory story("2");
  story.AnswersChecksItself();
  story.Tell(TwoRunProbed());
  story.Tell({
      {0.2, ReportsFacts(FactsAt("elsewhere"), 0), ""},
      {0.3, ReportsFacts(FactsAt("elsewhere"), 0), ""},
      {0.4, Exits("a", 1, 1),
       "abort g1 RANK_EXIT; check; a probes b; b probes a"},
      {0.5, Reaches("a"), ""},
      {0.5, Reaches("b"), "form g2 a,b"},
  });
  EXPECT_EQ(RowOfB(story).addresses(0), AddressOf("elsewhere"));
  const std::vector<std::string> moves =
      absl::StrSplit(story.logs(), "event=moved");
  EXPECT_EQ(moves.size(), 2u) << story.logs();
}

TEST(FactsStory, AnAddressThatChangesWhileProbedIsProbedAnew) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
      {0.1, ReportsFacts(FactsAt("elsewhere"), 0), ""},
      {0.1, Reaches("a"), "a probes b; b probes a"},
      {0.2, Reaches("a"), ""},
      {0.2, Reaches("b"), "form g1 a,b"},
  });
  EXPECT_EQ(RowOfB(story).addresses(0), AddressOf("elsewhere"));
}

TEST(FactsStory, AProposedWorldIsFormedAnewForAnAddressThatChanges) {
  JobStory story("2");
  std::vector<JobStory::Row> rows = TwoRunProbed();
  rows.pop_back();
  story.Tell(rows);
  story.Tell({
      {0.2, Prepares("a", 1), ""},
      {0.3, ReportsFacts(FactsAt("elsewhere"), 0),
       "abort g1 FACTS_CHANGED; a probes b; b probes a"},
      {0.4, Prepares("b", 1), ""},
      {0.6, Reaches("a"), ""},
      {0.6, Reaches("b"), "form g2 a,b"},
  });
  EXPECT_EQ(RowOfB(story).addresses(0), AddressOf("elsewhere"));
}

TEST(FactsStory, AnAgentThatComesBackFromAnotherAddressIsProbedThere) {
  HelloOptions again = ComesBack();
  again.resume_state.set_running_generation(1);
  again.claims_address_of = "elsewhere";
  JobStory story("2");
  story.Tell(TwoRunProbed());
  story.Tell({
      {0.3, Breaks("b"), ""},
      {0.4, Attends("b", 1, again), ""},
      {0.5, Exits("a", 1, 1), "abort g1 RANK_EXIT; a probes b; b probes a"},
      {0.6, Reaches("a"), ""},
      {0.6, Reaches("b"), "form g2 a,b"},
  });
  EXPECT_EQ(RowOfB(story).addresses_size(), 2);
}

TEST(FactsStory, AProposedWorldIsFormedAnewForAnotherAddress) {
  HelloOptions again = ComesBack();
  again.claims_address_of = "elsewhere";
  JobStory story("2");
  std::vector<JobStory::Row> rows = TwoRunProbed();
  rows.pop_back();
  story.Tell(rows);
  story.Tell({
      {0.2, Prepares("a", 1), ""},
      {0.3, Breaks("b"), ""},
      {0.4, Attends("b", 1, again),
       "form g1 a,b; abort g1 FACTS_CHANGED; a probes b; b probes a"},
      {0.5, Prepares("b", 1), ""},
      {0.6, Reaches("a"), ""},
      {0.6, Reaches("b"), "form g2 a,b"},
  });
  EXPECT_EQ(RowOfB(story).addresses_size(), 2);
}

// No world can be formed without b, but b is still not probed for a while.
TEST(FactsStory, ANodeThatMovesAgainAndAgainIsProbedNoMoreForAWhile) {
  HelloOptions again = ComesBack();
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
  });
  for (int i = 1; i <= 4; ++i) {
    again.claims_address_of = absl::StrCat("elsewhere", i);
    story.Tell({
        {0.1 * i, Attends("b", 1, again), "refuse b REDIALED"},
        {0.1 * i, Reaches("a"), i < 4 ? "a probes b; b probes a" : ""},
    });
  }
  TellBeats(story, {"a", "b"}, 5, 3);
  story.Tell({{5.4, Ticks(), "a probes b; b probes a"}});
}

TEST(FactsStory, AQuarantinedNodeStaysOutWhateverItSays) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("c", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()),
       "a probes b,c; b probes a,c; c probes a,b"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), ""},
      {0.1, Reaches("c"), "form g1 a,b,c"},
      {0.2, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.5, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
      {0.6, PreparesAll({"a", "c"}, 3), "run g3"},
      {0.7, ReportsFacts(FactsAt("elsewhere"), 0), ""},
  });
  TellBeats(story, {"a", "b", "c"}, 34, 2);
}

TEST(FactsStory, AMemberIsReachedWhereItWasUntilItsWorldEnds) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {1.0, Ticks(), "a probes b; b probes a"},
      {1.1, Reaches("a"), ""},
      {1.1, Reaches("b"), "form g1 a,b"},
      {1.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {1.3, ReportsFacts(FactsAt("elsewhere"), 0), ""},
      {1.4, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {1.5, Reaches("a"), ""},
      {1.5, Reaches("b"), ""},
      {1.5, Reaches("c"), "notice 1 GROW"},
  });
}

// A node cannot keep others out by claiming another address when it redials.
TEST(FactsStory, ANodeThatRedialsWithOtherAddressesKeepsNobodyOut) {
  HelloOptions again = ComesBack();
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("h", 1, Probable()),
       "a probes b,h; b probes a,h; h probes a,b"},
      {0.1, Reaches("h"), ""},
      {0.1, Reaches("a"), ""},
  });
  again.claims_address_of = "elsewhere";
  story.Tell({
      {0.2, Breaks("h"), ""},
      {0.3, Attends("h", 1, again), ""},
      {0.4, Reaches("b"), "form g1 a,b"},
  });
}

// --- What changes while the agent attends -----------------------------------

TEST(FactsStory, ARootCauseNamesWhatChangedAtItsNodeBefore) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Changes("c", "interface eth9"), ""},
      {10.0, BeatsAll({"a", "b", "c"}), ""},
      {11.0, Changes("b", "interface eth1"), ""},
      {12.0, BeatsAll({"a", "b", "c"}), ""},
      {13.0, Exits("b", 1, 7), "abort g1 RANK_EXIT; form g2 a,b,c"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.root_cause().node_changes(),
            "interface eth1: up -> down 2 s before");
  EXPECT_EQ(status.last_reform().reason(),
            "rank 1 on b exited with code 7; changes on b: "
            "interface eth1: up -> down 2 s before");
  ASSERT_EQ(RowOf(status, "b").changes_size(), 1);
  EXPECT_EQ(RowOf(status, "b").changes(0).change().after(), "down");
  EXPECT_EQ(RowOf(status, "b").changes(0).age().seconds(), 2);
  EXPECT_EQ(RowOf(status, "a").changes_size(), 0);
  EXPECT_TRUE(absl::StrContains(story.logs(),
                                "event=fact_changed node=c kind=interface "
                                "text=\"interface eth9: up -> down\""))
      << story.logs();
}

// The watch of a node and its rank notice the same fault, in any order.
TEST(FactsStory, AChangeInTheBlameWindowBelongsToTheRootCause) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {11.0, Changes("b", "interface eth0"), ""},
      {12.0, BeatsAll({"a", "b", "c"}), ""},
      {13.0, Exits("b", 1, 7), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {14.0, Changes("c", "interface eth9"), ""},
      {14.0, Changes("b", "interface eth1"), ""},
  });
  v1::JobStatus status = story.job().Status(story.now());
  const std::string changes =
      "interface eth1: up -> down 1 s after, interface eth0: up -> down 2 s "
      "before";
  EXPECT_EQ(status.root_cause().node_changes(), changes);
  EXPECT_EQ(
      status.last_reform().reason(),
      absl::StrCat("rank 1 on b exited with code 7; changes on b: ", changes));
  // The window is one lease.
  story.Tell({{17.0, BeatsAll({"a", "b", "c"}), ""},
              {19.0, Changes("b", "interface eth2"), ""}});
  status = story.job().Status(story.now());
  EXPECT_EQ(status.root_cause().node_changes(), changes);
}

// A heavier cause takes the place of another one, with its own node's changes.
TEST(FactsStory, ALostNodeIsNamedWithItsChanges) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Changes("c", "interface eth1"), ""},
      {1.1, Changes("b", "interface eth0"), ""},
      {1.2, Breaks("c"), ""},
      {1.3, Exits("b", 1, 7), "abort g1 RANK_EXIT"},
      {2.2, Ticks(), "form g2 a,b"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.root_cause().node(), "c");
  EXPECT_EQ(status.root_cause().node_changes(),
            "interface eth1: up -> down 1 s before");
}

TEST(FactsStory, AChangeIsNewsAndAFloodOfThemIsNot) {
  JobStory story = TwoRunning("2");
  std::vector<JobStory::Row> flood;
  for (int i = 0; i < 1000; ++i) {
    flood.push_back({1.0, Changes("b", absl::StrCat("fact ", i)), ""});
  }
  const uint64_t before = story.job().revision();
  story.Tell(flood);
  EXPECT_EQ(story.job().revision(), before + Limits::fact_changes_burst);
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(RowOf(status, "b").changes_size(),
            static_cast<int>(Limits::fact_changes_per_node));
  EXPECT_EQ(RowOf(status, "b").changes_dropped(),
            1000 - Limits::fact_changes_burst);
}

}  // namespace
}  // namespace rollcall
