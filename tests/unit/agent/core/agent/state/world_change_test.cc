// A generation from its Proposal to its start, as one node sees it: a table.
#include "client/agent/core/agent/state/world_change.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// Generation 5 of two nodes with two ranks each; this node is the second one.
WorldChange Proposed() {
  v1::World world;
  world.set_generation(5);
  world.set_world_size(4);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node(absl::StrCat("n", i));
    member.set_node_rank(i);
    member.set_first_rank(2 * i);
    member.set_ranks(2);
    member.set_address(absl::StrCat("10.7.0.", i + 1));
  }
  return WorldChange(world, "bytes", 1);
}

v1::Commit CommitTo(uint64_t generation, const std::string& master,
                    std::optional<uint32_t> source = std::nullopt,
                    const std::string& proof = "proof") {
  v1::WorldCommit world_commit;
  world_commit.set_generation(generation);
  world_commit.set_master_address(master);
  world_commit.set_master_port(23456);
  if (source.has_value()) {
    world_commit.mutable_state_source()->set_rank(*source);
  }
  v1::Commit commit;
  commit.set_generation(generation);
  commit.set_world_commit(world_commit.SerializeAsString());
  commit.set_proof(proof);
  return commit;
}

using Event = std::function<bool(WorldChange&)>;

Event Prepared() {
  return [](WorldChange& change) {
    v1::Prepared prepared;
    prepared.set_generation(5);
    change.Done(prepared);
    return true;
  };
}
Event Says() {
  return [](WorldChange& change) {
    return change.TakePrepared().generation() == 5;
  };
}
Event SaysAgain() {
  return [](WorldChange& change) {
    change.SayAgain();
    return true;
  };
}
// As a commit is handled: it must be awaited and fit.
Event Commits(uint64_t generation, const std::string& master = "10.7.0.1") {
  return [=](WorldChange& change) {
    return change.Awaits(generation) &&
           change.Commit(CommitTo(generation, master));
  };
}
Event ForgetsCommit() {
  return [](WorldChange& change) {
    change.ForgetCommit();
    return true;
  };
}
Event Notices(uint64_t generation) {
  return [=](WorldChange& change) {
    v1::Notice notice;
    notice.set_generation(generation);
    return change.Keep(notice);
  };
}

std::string ChangeText(const WorldChange& change) {
  return absl::StrCat(change.prepared() ? "prepared" : "preparing",
                      change.owes_prepared() ? ", owes Prepared" : "",
                      change.Awaits(5) ? ", awaits Commit" : "",
                      change.committed() ? ", committed" : "");
}

TEST(WorldChange, Table) {
  struct Step {
    Event event;
    bool answer;
    std::string expect;
  };
  const struct {
    std::string name;
    std::vector<Step> steps;
  } kRows[] = {
      {"a Commit counts only after Prepared was sent",
       {{Commits(5), false, "preparing"},
        {Prepared(), true, "prepared, owes Prepared"},
        {Commits(5), false, "prepared, owes Prepared"},
        {Says(), true, "prepared, awaits Commit"},
        {Commits(4), false, "prepared, awaits Commit"},
        {Commits(6), false, "prepared, awaits Commit"},
        {Commits(5, "10.7.0.9"), false, "prepared, awaits Commit"},
        {Commits(5), true, "prepared, committed"},
        {Commits(5), false, "prepared, committed"}}},
      {"Prepared is sent on each stream, until the Commit",
       {{SaysAgain(), true, "preparing"},
        {Prepared(), true, "prepared, owes Prepared"},
        {Says(), true, "prepared, awaits Commit"},
        {SaysAgain(), true, "prepared, owes Prepared, awaits Commit"},
        {Says(), true, "prepared, awaits Commit"},
        {SaysAgain(), true, "prepared, owes Prepared, awaits Commit"},
        {Commits(5), true, "prepared, committed"},
        {SaysAgain(), true, "prepared, committed"}}},
      {"the daemon sends a Commit again that could not be followed",
       {{Prepared(), true, "prepared, owes Prepared"},
        {Says(), true, "prepared, awaits Commit"},
        {Commits(5), true, "prepared, committed"},
        {ForgetsCommit(), true, "prepared, awaits Commit"},
        {Commits(5), true, "prepared, committed"}}},
      {"notices between Commit and start",
       {{Prepared(), true, "prepared, owes Prepared"},
        {Says(), true, "prepared, awaits Commit"},
        {Notices(5), false, "prepared, awaits Commit"},
        {Commits(5), true, "prepared, committed"},
        {Notices(4), false, "prepared, committed"},
        {Notices(5), true, "prepared, committed"}}},
  };
  for (const auto& row : kRows) {
    WorldChange change = Proposed();
    for (const Step& step : row.steps) {
      SCOPED_TRACE(absl::StrCat(row.name, ": ", step.expect));
      EXPECT_EQ(step.event(change), step.answer);
      EXPECT_EQ(ChangeText(change), step.expect);
    }
  }
}

TEST(WorldChange, TheStateSourceOnThisNode) {
  const struct {
    std::optional<uint32_t> source;
    std::optional<uint32_t> expect;
  } kRows[] = {
      {std::nullopt, std::nullopt},
      {0, std::nullopt},
      {1, std::nullopt},
      {2, 0},
      {3, 1},
  };
  for (const auto& row : kRows) {
    WorldChange change = Proposed();
    ASSERT_TRUE(change.Commit(CommitTo(5, "10.7.0.1", row.source)));
    EXPECT_EQ(change.LocalSource(), row.expect);
  }
}

TEST(WorldChange, GivesTheStartWhatItNeeds) {
  WorldChange change = Proposed();
  EXPECT_EQ(change.generation(), 5u);
  EXPECT_EQ(change.node_rank(), 1u);
  EXPECT_EQ(change.member().node(), "n1");
  const v1::Commit commit = CommitTo(5, "10.7.0.1");
  ASSERT_TRUE(change.Commit(commit));
  for (uint64_t number : {1, 2}) {
    v1::Notice notice;
    notice.set_generation(5);
    notice.set_notice(number);
    EXPECT_TRUE(change.Keep(notice));
  }
  const WorldChange::Committed start = std::move(change).Start();
  EXPECT_EQ(start.world.generation(), 5u);
  EXPECT_EQ(start.world_bytes, "bytes");
  EXPECT_EQ(start.world_commit.master_port(), 23456u);
  EXPECT_EQ(start.world_commit_bytes, commit.world_commit());
  EXPECT_EQ(start.proof, "proof");
  EXPECT_EQ(start.notice->notice(), 2u);  // The latest one.
}

TEST(WorldChange, TakesNoProofThatIsTooLong) {
  WorldChange change = Proposed();
  ASSERT_TRUE(change.Commit(
      CommitTo(5, "10.7.0.1", std::nullopt, std::string(65, 'p'))));
  EXPECT_EQ(std::move(change).Start().proof, "");
}

}  // namespace
}  // namespace rollcall
