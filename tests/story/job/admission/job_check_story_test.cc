// Nodes check each other in pairs before a world is formed (--node-check).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

v1::JobSettings Checking() {
  v1::JobSettings settings;
  settings.set_node_check(true);
  return settings;
}

HelloOptions Checks() {
  HelloOptions options;
  options.checks_groups = true;
  return options;
}

Told Listens(std::string node) {
  return [=](JobStory& story) {
    v1::AgentMessage message;
    message.mutable_group_listening()->set_round(
        story.groups().at(node).round());
    message.mutable_group_listening()->set_port(4000);
    return Says(node, message)(story);
  };
}

Told Took(std::string node, double product_ms) {
  return [=](JobStory& story) {
    v1::AgentMessage message;
    v1::GroupChecked& checked = *message.mutable_group_checked();
    checked.set_round(story.groups().at(node).round());
    ToProto(absl::Milliseconds(product_ms), checked.mutable_product());
    ToProto(absl::Milliseconds(5), checked.mutable_all_reduce());
    return Says(node, message)(story);
  };
}

Told Fails(std::string node) {
  return [=](JobStory& story) {
    v1::AgentMessage message;
    v1::GroupChecked& checked = *message.mutable_group_checked();
    checked.set_round(story.groups().at(node).round());
    checked.set_error("broken");
    return Says(node, message)(story);
  };
}

// The whole group answers, its first node last: "b=30" is a time.
Told Answer(std::string first, std::vector<std::string> others,
            double first_ms = 10, double others_ms = 10) {
  return [=](JobStory& story) {
    std::vector<std::string> told = {Listens(first)(story)};
    for (const std::string& other : others) {
      told.push_back(Took(other, others_ms)(story));
    }
    told.push_back(Took(first, first_ms)(story));
    std::erase(told, "");
    return absl::StrJoin(told, "; ");
  };
}

v1::NodeState StateOfNode(JobStory& story, const std::string& node) {
  return RowOf(story.job().Status(story.now()), node).state();
}

TEST(NodeCheckStory, NothingIsCheckedWithoutTheFlag) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), "form g1 a,b"},
  });
}

TEST(NodeCheckStory, AWorldWaitsForTheCheck) {
  JobStory story("2", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), "a checks 0/2"},
      {0.1, BeatsAll({"a", "b"}), ""},
      {0.2, Listens("a"), "b checks 1/2"},
      {1.0, Took("b", 10), ""},
      {1.1, Took("a", 10), "form g1 a,b"},
      {1.2, PreparesAll({"a", "b"}, 1), "run g1"},
      // Nodes that have passed are not checked again.
      {1.3, Exits("a", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"},
  });
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "event=node_check nodes=2 rounds=1 found=0 product_ms=10"));
}

TEST(NodeCheckStory, AStragglerIsLeftOutAndASpareIsCheckedForItsSeat) {
  JobStory story("3:4", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {0.0, Attends("c", 1, Checks()), ""},
      {0.0, Attends("d", 1, Checks()), "a checks 0/2; c checks 0/2"},
      {0.1, Attends("e", 1, Checks()), ""},
      {0.2, Answer("a", {"b"}), "b checks 1/2"},
      {0.3, Answer("c", {"d"}, 10, 30),
       "d checks 1/2; a checks 0/2; b checks 0/2"},
  });
  // The fastest with the slowest: a with d, b with c.
  ASSERT_EQ(story.groups().at("a").addresses(1), AddressOf("d"));
  story.Tell({
      {0.4, Answer("a", {"d"}, 10, 30), "d checks 1/2"},
      {0.5, Answer("b", {"c"}), "c checks 1/2; e checks 0/2"},
  });
  EXPECT_EQ(StateOfNode(story, "d"), v1::NODE_STATE_QUARANTINED);
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "d").reason(),
            "found by --node-check: matrix product 30ms, median 10ms; then "
            "matrix product 30ms, median 10ms");
  story.Tell({
      {0.6, Answer("e", {"a"}), "a checks 1/2; form g1 a,b,c,e"},
  });
}

TEST(NodeCheckStory, ANodeThatIsNeededTakesPart) {
  JobStory story("4", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {0.0, Attends("c", 1, Checks()), ""},
      {0.0, Attends("d", 1, Checks()), "a checks 0/2; c checks 0/2"},
      {0.2, Answer("a", {"b"}), "b checks 1/2"},
      {0.3, Answer("c", {"d"}, 10, 30),
       "d checks 1/2; a checks 0/2; b checks 0/2"},
      {0.4, Answer("a", {"d"}, 10, 30), "d checks 1/2"},
      {0.5, Answer("b", {"c"}), "c checks 1/2; form g1 a,b,c,d"},
  });
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "it takes part: too few other nodes are there"));
}

// A quarantined node gets its seat back if too few others are left.
TEST(NodeCheckStory, ALeftOutNodeIsReleasedWhenItIsNeeded) {
  JobStory story("3:4", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {0.0, Attends("c", 1, Checks()), ""},
      {0.0, Attends("d", 1, Checks()), "a checks 0/2; c checks 0/2"},
      {0.2, Answer("a", {"b"}), "b checks 1/2"},
      {0.3, Answer("c", {"d"}, 10, 30),
       "d checks 1/2; a checks 0/2; b checks 0/2"},
      {0.4, Answer("a", {"d"}, 10, 30), "d checks 1/2"},
      {0.5, Answer("b", {"c"}), "c checks 1/2"},
      // The last call ends.
      {1.0, Ticks(), "form g1 a,b,c"},
      {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      {1.2, Breaks("c"), ""},
      {2.3, Ticks(), "abort g1 LOST_STREAM; form g2 a,b,d"},
  });
}

TEST(NodeCheckStory, ANodeThatSaysNothingIsFoundByTheTimeLimit) {
  JobStory story("3:4", Checking());
  const double round_s = absl::ToDoubleSeconds(Limits::node_check_round +
                                               Limits::node_check_answer);
  const auto all_beat = BeatsAll({"a", "b", "c", "d"});
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {0.0, Attends("c", 1, Checks()), ""},
      {0.0, Attends("d", 1, Checks()), "a checks 0/2; c checks 0/2"},
      {0.2, Answer("a", {"b"}), "b checks 1/2"},
  });
  std::vector<JobStory::Row> rows;
  for (double at = 4; at < round_s; at += 4) rows.push_back({at, all_beat, ""});
  story.Tell(rows);
  // c did not even listen, so d was not asked.
  story.Tell({{round_s, Ticks(), "a checks 0/2; b checks 0/2"}});
  EXPECT_EQ(story.groups().at("a").addresses(1), AddressOf("c"));
  story.Tell({{round_s + 0.1, all_beat, ""},
              {round_s + 0.2, Answer("b", {"d"}), "d checks 1/2"},
              {round_s + 0.3, Listens("a"), "c checks 1/2"},
              {round_s + 0.4, Took("a", 10), ""}});
  rows.clear();
  for (double at = round_s + 4; at < 2 * round_s; at += 4) {
    rows.push_back({at, all_beat, ""});
  }
  rows.push_back({2 * round_s, Ticks(), "form g1 a,b,d"});
  story.Tell(rows);
  EXPECT_EQ(StateOfNode(story, "c"), v1::NODE_STATE_QUARANTINED);
}

// x, y and z hang. After 92 s no further node is checked.
TEST(NodeCheckStory, NodesThatHangDoNotHoldUpAGatheringForEver) {
  JobStory story("2:3", Checking());
  std::vector<std::string> here = {"a", "b", "x"};
  double at = 0;
  const auto until = [&](double end, const std::string& expect) {
    std::vector<JobStory::Row> rows;
    for (at += 4; at < end; at += 4) rows.push_back({at, BeatsAll(here), ""});
    rows.push_back({end, Ticks(), expect});
    story.Tell(rows);
    at = end;
  };
  story.Tell({{0.0, Attends("a", 1, Checks()), ""},
              {0.0, Attends("b", 1, Checks()), ""},
              {0.0, Attends("x", 1, Checks()), "a checks 0/3"},
              {0.1, Listens("a"), "b checks 1/3; x checks 2/3"},
              {0.2, Took("b", 10), ""},
              {0.2, Took("a", 10), ""},
              {0.3, Attends("y", 1, Checks()), ""}});
  here.push_back("y");
  until(23, "a checks 0/3");
  story.Tell({{23.1, Listens("a"), "x checks 1/3; b checks 2/3"},
              {23.2, Took("b", 10), ""},
              {23.2, Took("a", 10), ""}});
  until(46, "y checks 0/2");
  story.Tell({{46.1, Attends("z", 1, Checks()), ""}});
  here.push_back("z");
  until(69, "b checks 0/2");
  story.Tell({{69.1, Listens("b"), "y checks 1/2"}});
  until(92, "form g1 a,b");
  EXPECT_EQ(StateOfNode(story, "y"), v1::NODE_STATE_QUARANTINED);
  EXPECT_TRUE(
      absl::StartsWith(RowOf(story.job().Status(story.now()), "z").reason(),
                       "--node-check has not checked it in time"));
}

TEST(NodeCheckStory, ANodeThatRedialsAgainAndAgainGetsNoSeat) {
  JobStory story("2:3", Checking());
  story.Tell({{0.0, Attends("a", 1, Checks()), ""},
              {0.0, Attends("b", 1, Checks()), ""},
              {0.0, Attends("x", 1, Checks()), "a checks 0/3"}});
  // Whatever it causes.
  const auto redials = [](JobStory& told) {
    Listens("a")(told);
    Took("b", 10)(told);
    Attends("x", 1, Checks())(told);
    Took("a", 10)(told);
    return std::string();
  };
  for (int i = 1; story.job().state() == v1::JOB_STATE_GATHERING; ++i) {
    ASSERT_LT(i, 20);
    story.Tell({{0.1 * i, redials, ""}});
  }
  EXPECT_EQ(story.job().Status(story.now()).state(), v1::JOB_STATE_FORMING);
}

TEST(NodeCheckStory, ANodeThatIsLostDuringTheCheckIsNotWaitedFor) {
  JobStory story("2:3", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {0.0, Attends("c", 1, Checks()), "a checks 0/3"},
      {0.1, Listens("a"), "b checks 1/3; c checks 2/3"},
      {0.2, Breaks("c"), ""},
      {0.3, Took("b", 10), ""},
      {0.4, Took("a", 10), ""},
      // The last call ends, then the node's grace.
      {1.3, Ticks(), "form g1 a,b"},
  });
}

TEST(NodeCheckStory, AnAgentWithoutTheProgramIsNamedAndTakesPart) {
  JobStory story("3", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1), ""},
      {0.0, Attends("c", 1, Checks()), "a checks 0/2"},
      {0.1, Answer("a", {"c"}), "c checks 1/2; form g1 a,b,c"},
  });
  EXPECT_TRUE(absl::StrContains(story.logs(),
                                "event=warning node=b text=\"--node-check does "
                                "not check it"));
}

TEST(NodeCheckStory, TheEndOfTheJobEndsTheCheck) {
  JobStory story("2", Checking());
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), "a checks 0/2"},
      {0.1, StopIsAsked(75), "end 75 STOPPED"},
      {0.2, Listens("a"), ""},
      {0.3, Took("a", 10), ""},
  });
}

// Rows in which these nodes send heartbeats, every 4 s, between two times.
std::vector<JobStory::Row> Beating(const std::vector<std::string>& nodes,
                                   double after, double before) {
  std::vector<JobStory::Row> rows;
  for (double at = after + 1; at < before; at += 4) {
    rows.push_back({at, BeatsAll(nodes), ""});
  }
  return rows;
}

// At 1.2 s, in generation 1. The job takes more nodes.
void AAndBRun(JobStory& story) {
  story.Tell({
      {0.0, Attends("a", 1, Checks()), ""},
      {0.0, Attends("b", 1, Checks()), ""},
      {1.0, Ticks(), "a checks 0/2"},
      {1.1, Answer("a", {"b"}), "b checks 1/2; form g1 a,b"},
      {1.2, PreparesAll({"a", "b"}, 1), "run g1"},
  });
}

// A newcomer that passes alone is checked with a node that has passed, before
// the next world.
TEST(NodeCheckStory, ANewcomerIsCheckedAloneAndThenWithANode) {
  JobStory story("2:3", Checking());
  AAndBRun(story);
  story.Tell({
      {1.3, Attends("c", 1, Checks()), "c checks 0/1"},
      {1.4, Took("c", 10), "notice 1 GROW"},
      {1.5, Exits("a", 1, 1), "abort g1 RANK_EXIT; c checks 0/2"},
      {1.6, Answer("c", {"a"}), "a checks 1/2; form g2 a,b,c"},
  });
}

// The world of a and b runs on.
TEST(NodeCheckStory, ANewcomerWhoseCheckHangsStopsNoWorld) {
  JobStory story("2:5", Checking());
  const std::vector<std::string> all = {"a", "b", "c", "d"};
  const double round_s = absl::ToDoubleSeconds(Limits::node_check_round +
                                               Limits::node_check_answer);
  const double second = 1.3 + round_s;
  const double end = second + round_s;
  AAndBRun(story);
  story.Tell({
      {1.3, Attends("c", 1, Checks()), "c checks 0/1"},
      {1.4, Attends("d", 1, Checks()), ""},
  });
  story.Tell(Beating(all, 1.4, second));
  story.Tell({{second, Ticks(), "c checks 0/1"}});
  story.Tell(Beating(all, second, end));
  story.Tell({{end, Ticks(), "d checks 0/1"}});
  const auto row = RowOf(story.job().Status(story.now()), "c");
  EXPECT_EQ(row.state(), v1::NODE_STATE_QUARANTINED);
  EXPECT_EQ(row.reason(),
            "found by --node-check: it did not answer in time; then it did not "
            "answer in time");
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "d").reason(),
            "--node-check checks it before it is called in");
  // d is called in, although e, which comes later, is not checked yet.
  story.Tell({{end + 0.1, Attends("e", 1, Checks()), ""},
              {end + 0.2, Took("d", 10), "notice 1 GROW; e checks 0/1"}});
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "d").reason(), "");
}

// c hangs when the world ends, so no rank waits for its check with another
// node.
TEST(NodeCheckStory, ANewcomerInItsCheckWaitsForALaterWorld) {
  JobStory story("2:3", Checking());
  AAndBRun(story);
  story.Tell({
      {1.3, Attends("c", 1, Checks()), "c checks 0/1"},
      {1.4, Exits("a", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "c").reason(),
            "its check by --node-check had not ended when the world did; it is "
            "checked again later");
  story.Tell({{1.6, PreparesAll({"a", "b"}, 2), "run g2"}});
  story.Tell(Beating({"a", "b", "c"}, 1.6, 31.4));
  story.Tell({{31.4, Ticks(), "c checks 0/1"},
              {31.5, Took("c", 10), "notice 1 GROW"}});
}

// While the ranks of the last world wait, a newcomer gets one round. Found a
// second time, with another partner, it is quarantined.
TEST(NodeCheckStory, ANewcomerThatFailsInItsPairsStopsTwoWorldsAtMost) {
  JobStory story("2:3", Checking());
  AAndBRun(story);
  story.Tell({
      {1.3, Attends("c", 1, Checks()), "c checks 0/1"},
      {1.4, Took("c", 10), "notice 1 GROW"},
      {1.5, Exits("a", 1, 1), "abort g1 RANK_EXIT; c checks 0/2"},
      {1.6, Fails("c"), "form g2 a,b"},
  });
  EXPECT_EQ(story.groups().at("c").addresses(1), AddressOf("a"));
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "c").reason(),
            "found by --node-check: broken; it is checked again later");
  story.Tell({{1.7, PreparesAll({"a", "b"}, 2), "run g2"}});
  story.Tell(Beating({"a", "b", "c"}, 1.7, 31.6));
  story.Tell({{31.6, Ticks(), "c checks 0/1"},
              {31.7, Took("c", 10), "notice 2 GROW"},
              {31.8, Exits("b", 2, 1), "abort g2 RANK_EXIT; c checks 0/2"},
              {31.9, Fails("c"), "form g3 a,b"}});
  EXPECT_EQ(story.groups().at("c").addresses(1), AddressOf("b"));
  EXPECT_EQ(StateOfNode(story, "c"), v1::NODE_STATE_QUARANTINED);
}

}  // namespace
}  // namespace rollcall
