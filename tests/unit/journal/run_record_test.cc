// A run packed into one value.
#include "daemon/journal/run_record.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "tests/unit/journal/journal_fixture.h"

namespace {

bool memory_is_short = false;

}  // namespace

// The linker option --wrap redirects calls of zlib's compress2 to these.
extern "C" int __real_compress2(Bytef* to, uLongf* size, const Bytef* from,
                                uLong bytes, int level);
extern "C" int __wrap_compress2(Bytef* to, uLongf* size, const Bytef* from,
                                uLong bytes, int level) {
  return memory_is_short ? Z_MEM_ERROR
                         : __real_compress2(to, size, from, bytes, level);
}

namespace rollcall {
namespace {

TEST(RunRecordTest, ComesBackWhole) {
  JournaledRun run;
  run.job = "j";
  run.written_at = kThen + absl::Microseconds(5);
  run.state.run = "r";
  run.state.settings.set_nodes_max(7);
  run.state.generation = 9;
  run.state.proposal.emplace().set_world(std::string(10'000, 'w'));
  run.state.world_commit.emplace().set_master_port(1);
  run.state.leaving.emplace().set_notice(3);
  run.state.finished.emplace().add_node_ranks(4);
  run.state.ran_proposal.emplace().set_generation(8);
  run.state.ran_world_commit.emplace().set_generation(8);
  run.state.ran_finished.emplace().add_node_ranks(5);
  run.state.restarts_charged = 2;
  run.state.node_epochs.Admit("a", "t1");
  run.state.node_epochs.Raise("a");
  run.state.node_epochs.RaiseFloor(1);
  const std::string bytes = *PackRun(run);
  EXPECT_LT(bytes.size(), 1'000u);
  const auto back = UnpackRun("j", bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->written_at, run.written_at);
  EXPECT_EQ(back->state.run, "r");
  EXPECT_EQ(back->state.settings.nodes_max(), 7u);
  EXPECT_EQ(back->state.generation, 9u);
  EXPECT_EQ(back->state.proposal->world().size(), 10'000u);
  EXPECT_EQ(back->state.world_commit->master_port(), 1u);
  EXPECT_EQ(back->state.leaving->notice(), 3u);
  ASSERT_EQ(back->state.finished->node_ranks_size(), 1);
  EXPECT_EQ(back->state.finished->node_ranks(0), 4u);
  EXPECT_EQ(back->state.ran_proposal->generation(), 8u);
  EXPECT_EQ(back->state.ran_world_commit->generation(), 8u);
  EXPECT_EQ(back->state.ran_finished->node_ranks(0), 5u);
  EXPECT_FALSE(back->state.end.has_value());
  EXPECT_EQ(back->state.restarts_charged, 2u);
  EXPECT_EQ(back->state.node_epochs.EpochOf("a"), 1u);
  EXPECT_EQ(back->state.node_epochs.TokenOf("a"), "t1");
  EXPECT_EQ(back->state.node_epochs.EpochOf("b"), 1u);
}

TEST(RunRecordTest, OtherBytesAreRefused) {
  JournaledRun run;
  run.state.run = "r";
  const std::string good = *PackRun(run);
  for (const std::string& bad :
       {std::string(), std::string("garbage"), good.substr(0, good.size() - 3),
        // The header claims a size of 2^62 bytes.
        std::string("\x0a\x01x\x10\x80\x80\x80\x80\x80\x80\x80\x80\x40")}) {
    EXPECT_EQ(UnpackRun("j", bad).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(JournalTest, ARunThatCannotBeCompressedIsNotStored) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
    memory_is_short = true;
    const std::vector<JournalEntry> entries = {
        Entry(Kind::kProposed, 1, ProposalOf(1))};
    EXPECT_EQ(journal->Append(entries, kThen).code(),
              absl::StatusCode::kUnavailable);
    memory_is_short = false;
    EXPECT_EQ(StateIn(*journal, "j"), "r1 g0");
  }
  const auto journal = MustOpen();
  ASSERT_NE(journal, nullptr);
  EXPECT_EQ(StateIn(*journal, "j"), "r1 g0");
}

}  // namespace
}  // namespace rollcall
