// What the SQLite journal stores and returns.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/sqlite_journal.h"
#include "tests/unit/journal/journal_fixture.h"

namespace rollcall {
namespace {

TEST_F(JournalTest, RestoresWhatJobNeeds) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3)),
                          Entry(Kind::kProposed, 1, ProposalOf(1)),
                          Entry(Kind::kCommitted, 1, WorldCommitOf(1))});
  }
  const auto journal = MustOpen();
  const auto run = journal->Load("j");
  ASSERT_TRUE(run.ok() && run->has_value()) << run.status();
  const JournalState& state = (*run)->state;
  EXPECT_EQ((*run)->written_at, kThen);
  EXPECT_EQ(state.run, "r1");
  EXPECT_EQ(state.settings.nodes_min(), 3u);
  EXPECT_EQ(state.generation, 1u);
  ASSERT_TRUE(state.proposal.has_value());
  EXPECT_EQ(state.proposal->world(), std::string("w\0rld", 5));
  ASSERT_TRUE(state.world_commit.has_value());
  EXPECT_EQ(state.world_commit->master_port(), 1234u);
  EXPECT_FALSE(state.end.has_value());
  EXPECT_EQ(state.restarts_charged, 0u);
}

TEST_F(JournalTest, AnUnknownJobIsNone) {
  const auto journal = MustOpen();
  const auto run = journal->Load("j");
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE(run->has_value());
}

TEST_F(JournalTest, EachStepOfARunLeavesItsState) {
  ExpectEachStepLeavesItsState([this] { return MustOpen(); });
}

TEST_F(JournalTest, ABatchIsWrittenWholeOrNotAtAll) {
  const auto journal = MustOpen();
  const std::vector<JournalEntry> batch = {
      Entry(Kind::kRunStarted, 0, Settings(1)),
      Entry(Kind::kProposed, 1, ProposalOf(1), "never-started")};
  EXPECT_EQ(journal->Append(batch, kThen).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(journal->Load("j")->has_value());
  // The journal still works afterwards.
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
  EXPECT_TRUE(journal->Load("j")->has_value());
}

TEST_F(JournalTest, AnEntryOfAnOlderRunIsRefused) {
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), "j", "r1"),
                        Entry(Kind::kRunStarted, 0, Settings(1), "j", "r2")});
  const std::vector<JournalEntry> late = {
      Entry(Kind::kProposed, 1, ProposalOf(1), "j", "r1")};
  EXPECT_EQ(journal->Append(late, kThen).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(JournalTest, ManyGenerationsDoNotMakeItGrow) {
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
  const std::string large(100'000, 'w');
  for (uint64_t g = 1; g <= 300; ++g) {
    v1::Proposal proposal;
    proposal.set_world(large);
    MustAppend(
        *journal,
        {Entry(Kind::kProposed, g, proposal.SerializeAsString()),
         Entry(Kind::kEnded, g, ReformOf(v1::REASON_CODE_RANK_SIGNAL, 2))});
  }
  EXPECT_LT(fs::file_size(file()), 500'000u);
  EXPECT_LT(fs::file_size(file() + "-wal"), 16'000'000u);
  const auto run = journal->Load("j");
  EXPECT_EQ((*run)->state.restarts_charged, 2u);
  EXPECT_EQ((*run)->state.generation, 300u);
}

TEST_F(JournalTest, EndedRunsAreTrimmed) {
  const auto journal = MustOpen();
  for (int i = 0; i < 70; ++i) {
    const std::string job = absl::StrCat("j", i);
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), job)});
    const std::vector<JournalEntry> end = {
        Entry(Kind::kRunEnded, 0, EndOf(0), job)};
    ASSERT_TRUE(journal->Append(end, kThen + absl::Seconds(i)).ok());
  }
  const auto runs = journal->LoadAll();
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(runs->size(), SqliteJournal::kEndedRunsKept);
  EXPECT_TRUE(journal->Load("j69")->has_value());
  EXPECT_FALSE(journal->Load("j0")->has_value());
}

TEST_F(JournalTest, MoreRunsThanAreKeptMayEndInOneBatch) {
  auto journal = MustOpen();
  std::vector<JournalEntry> starts;
  std::vector<JournalEntry> ends;
  for (size_t i = 0; i < SqliteJournal::kEndedRunsKept + 3; ++i) {
    const std::string job = absl::StrCat("j", i);
    starts.push_back(Entry(Kind::kRunStarted, 0, Settings(1), job));
    ends.push_back(Entry(Kind::kRunEnded, 0, EndOf(0), job));
  }
  MustAppend(*journal, starts);
  MustAppend(*journal, ends);
  EXPECT_EQ(journal->LoadAll()->size(), SqliteJournal::kEndedRunsKept);
  // The other runs must not be in the file as unended runs.
  journal.reset();
  journal = MustOpen();
  const auto all = journal->LoadAll();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), SqliteJournal::kEndedRunsKept);
  for (const JournaledRun& run : *all) {
    EXPECT_TRUE(run.state.end.has_value()) << run.job;
  }
}

// The clock was set back by a day.
TEST_F(JournalTest, EndedRunsAreTrimmedInTheOrderInWhichTheyEnded) {
  const auto journal = MustOpen();
  const auto end = [&](const std::string& job, absl::Time at) {
    const std::vector<JournalEntry> entries = {
        Entry(Kind::kRunEnded, 0, EndOf(0), job)};
    ASSERT_TRUE(journal->Append(entries, at).ok());
  };
  // This run begins first and ends last but one.
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), "long")});
  for (size_t i = 0; i < SqliteJournal::kEndedRunsKept; ++i) {
    const std::string job = absl::StrCat("j", i);
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), job)});
    end(job, kThen);
  }
  end("long", kThen - absl::Hours(24));
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), "last")});
  end("last", kThen - absl::Hours(24));
  EXPECT_EQ(journal->LoadAll()->size(), SqliteJournal::kEndedRunsKept);
  EXPECT_TRUE(journal->Load("long")->has_value());
  EXPECT_TRUE(journal->Load("last")->has_value());
  EXPECT_FALSE(journal->Load("j0")->has_value());
  EXPECT_FALSE(journal->Load("j1")->has_value());
  EXPECT_TRUE(journal->Load("j2")->has_value());
}

TEST_F(JournalTest, KeepsTokens) {
  {
    const auto journal = MustOpen();
    EXPECT_EQ(TokensIn(*journal), "");
    ASSERT_TRUE(
        journal
            ->SaveTokens({RecordOf("a", 1), RecordOf("b", 2), RecordOf("c", 3)},
                         {})
            .ok());
    EXPECT_EQ(TokensIn(*journal), "a=1 b=2 c=3");
  }
  const auto journal = MustOpen();
  EXPECT_EQ(TokensIn(*journal), "a=1 b=2 c=3");
  // The latest record of a token counts. Deleting an unknown token is no error.
  ASSERT_TRUE(
      journal->SaveTokens({RecordOf("b", 0), RecordOf("d", 4)}, {"c", "nobody"})
          .ok());
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  ASSERT_TRUE(journal->SaveTokens({}, {}).ok());
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  // Neither the start nor the end of a run drops the tokens.
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3)),
                        Entry(Kind::kRunEnded, 0, EndOf(0))});
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  ASSERT_TRUE(journal->DropTokens().ok());
  EXPECT_EQ(TokensIn(*journal), "");
  EXPECT_TRUE((*journal->Load("j")).has_value());
}

TEST_F(JournalTest, EpochsComeBackAndGoWithTheirRun) {
  const auto epochs = [&](SqliteJournal& journal) {
    const auto run = journal.Load("j");
    EXPECT_TRUE(run.ok() && run->has_value());
    return (*run)->state.node_epochs;
  };
  {
    const auto journal = MustOpen();
    MustAppend(
        *journal,
        {Entry(Kind::kRunStarted, 0, Settings(3)),
         Entry(Kind::kNodeEpochs, 0,
               EpochsBody({EpochRow("a", 0, "t1"), EpochRow("b", 0, "t2")})),
         Entry(Kind::kNodeEpochs, 0, EpochsBody({EpochRow("b", 1, "t2")}))});
  }
  {
    const auto journal = MustOpen();
    const NodeEpochs found = epochs(*journal);
    EXPECT_EQ(found.EpochOf("a"), 0u);
    EXPECT_EQ(found.EpochOf("b"), 1u);
    EXPECT_EQ(found.EpochOf("c"), 0u);
    EXPECT_EQ(found.AdmittedBy("t2"), std::vector<std::string>{"b"});
    // This entry replaces all nodes. The others are removed, and are below the
    // floor.
    MustAppend(*journal,
               {Entry(Kind::kNodeEpochs, 0,
                      EpochsBody({EpochRow("a", 0, "t1")}, 2, true))});
  }
  {
    const auto journal = MustOpen();
    EXPECT_EQ(epochs(*journal).EpochOf("a"), 0u);
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 2u);
    EXPECT_FALSE(epochs(*journal).Has("b"));
    // The agents of an ended run may still ask how it ended.
    MustAppend(*journal, {Entry(Kind::kRunEnded, 0, "")});
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 2u);
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 0u);
    EXPECT_FALSE(epochs(*journal).Has("a"));
  }
}

TEST_F(JournalTest, TheWorldThatRanLastIsKeptUntilNobodyWaitsForIt) {
  v1::Proposal proposal;
  proposal.set_generation(1);
  v1::WorldCommit world_commit;
  world_commit.set_generation(1);
  v1::FinishedNodes finished;
  finished.add_node_ranks(1);
  const auto journal = MustOpen();
  const auto state = [&] {
    const auto run = journal->Load("j");
    EXPECT_TRUE(run.ok() && run->has_value());
    return (*run)->state;
  };
  const auto run_first = [&] {
    MustAppend(*journal,
               {Entry(Kind::kRunStarted, 0, Settings(3)),
                Entry(Kind::kProposed, 1, proposal.SerializeAsString()),
                Entry(Kind::kCommitted, 1, world_commit.SerializeAsString()),
                Entry(Kind::kFinished, 1, finished.SerializeAsString()),
                Entry(Kind::kEnded, 1, "")});
  };
  run_first();
  // A proposal that is never committed does not replace the world that ran.
  MustAppend(*journal,
             {Entry(Kind::kProposed, 2, ""), Entry(Kind::kEnded, 2, "")});
  ASSERT_TRUE(state().ran_proposal.has_value());
  EXPECT_EQ(state().ran_proposal->generation(), 1u);
  EXPECT_EQ(state().ran_world_commit->generation(), 1u);
  EXPECT_EQ(state().ran_finished->node_ranks(0), 1u);
  EXPECT_FALSE(state().proposal.has_value());
  MustAppend(*journal, {Entry(Kind::kFenceOpen, 1, "")});
  EXPECT_FALSE(state().ran_proposal.has_value());
  EXPECT_FALSE(state().ran_world_commit.has_value());
  run_first();
  MustAppend(*journal,
             {Entry(Kind::kProposed, 2, ""), Entry(Kind::kCommitted, 2, "")});
  EXPECT_FALSE(state().ran_proposal.has_value());
  EXPECT_FALSE(state().ran_finished.has_value());
}

}  // namespace
}  // namespace rollcall
