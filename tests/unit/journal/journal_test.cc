#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/journal/state_folder.h"
#include "tests/unit/file_limit.h"

namespace rollcall {
namespace {

namespace fs = std::filesystem;
using Kind = Journal::Kind;

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (fs::temp_directory_path() / "rollcall_journal_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string state() const { return folder_ + "/a/state"; }
  std::string file() const { return state() + "/journal.db"; }

  absl::StatusOr<std::unique_ptr<SqliteJournal>> Open() {
    absl::StatusOr<StateFolder> folder = StateFolder::Open(state());
    if (!folder.ok()) return folder.status();
    return SqliteJournal::Open(*std::move(folder));
  }
  std::unique_ptr<SqliteJournal> MustOpen() {
    absl::StatusOr<std::unique_ptr<SqliteJournal>> journal = Open();
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }

  std::string folder_;
};

JournalEntry Entry(Kind kind, uint64_t generation, std::string body = "",
                   std::string job = "j", std::string run = "r1") {
  return {std::move(job), std::move(run), {kind, generation, std::move(body)}};
}

std::string Settings(uint32_t nodes) {
  v1::JobSettings settings;
  settings.set_nodes_min(nodes);
  settings.set_nodes_max(nodes);
  return settings.SerializeAsString();
}
std::string ProposalOf(uint64_t generation) {
  v1::Proposal proposal;
  proposal.set_generation(generation);
  proposal.set_world(std::string("w\0rld", 5));
  return proposal.SerializeAsString();
}
std::string SealOf(uint64_t generation) {
  v1::Seal seal;
  seal.set_generation(generation);
  seal.set_master_port(1234);
  return seal.SerializeAsString();
}
std::string ReformOf(v1::ReasonCode code, uint32_t charged) {
  v1::Reform reform;
  reform.set_code(code);
  reform.set_restarts_charged(charged);
  return reform.SerializeAsString();
}
std::string EndOf(int exit_code) {
  v1::End end;
  end.set_exit_code(exit_code);
  return end.SerializeAsString();
}

void MustAppend(JournalStore& journal, std::vector<JournalEntry> entries) {
  const absl::Status status = journal.Append(entries, kThen);
  ASSERT_TRUE(status.ok()) << status;
}

TEST_F(JournalTest, RestoresWhatJobNeeds) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3)),
                          Entry(Kind::kProposed, 1, ProposalOf(1)),
                          Entry(Kind::kCommitted, 1, SealOf(1))});
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
  ASSERT_TRUE(state.seal.has_value());
  EXPECT_EQ(state.seal->master_port(), 1234u);
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
  struct Row {
    JournalEntry entry;
    uint64_t generation;
    bool proposal, seal, end;
    uint32_t charged;
  };
  const Row rows[] = {
      {Entry(Kind::kRunStarted, 0, Settings(2)), 0, false, false, false, 0},
      {Entry(Kind::kProposed, 1, ProposalOf(1)), 1, true, false, false, 0},
      // Superseded before it was committed.
      {Entry(Kind::kProposed, 2, ProposalOf(2)), 2, true, false, false, 0},
      // Of the one before: it changes nothing that counts.
      {Entry(Kind::kCommitted, 2, SealOf(2)), 2, true, true, false, 0},
      {Entry(Kind::kEnded, 2, ReformOf(v1::REASON_CODE_LOST_LEASE, 0)), 2,
       false, false, false, 0},
      {Entry(Kind::kProposed, 3, ProposalOf(3)), 3, true, false, false, 0},
      {Entry(Kind::kCommitted, 3, SealOf(3)), 3, true, true, false, 0},
      {Entry(Kind::kEnded, 3, ReformOf(v1::REASON_CODE_RANK_EXIT, 1)), 3, false,
       false, false, 1},
      {Entry(Kind::kProposed, 4, ProposalOf(4)), 4, true, false, false, 1},
      {Entry(Kind::kEnded, 4, ReformOf(v1::REASON_CODE_HANG, 2)), 4, false,
       false, false, 2},
      // Progress, or a node that was to blame, has given charges back.
      {Entry(Kind::kProposed, 5, ProposalOf(5)), 5, true, false, false, 2},
      {Entry(Kind::kEnded, 5, ReformOf(v1::REASON_CODE_RANK_EXIT, 1)), 5, false,
       false, false, 1},
      {Entry(Kind::kRunEnded, 5, EndOf(3)), 5, false, false, true, 1},
      // The name is used again.
      {Entry(Kind::kRunStarted, 0, Settings(2), "j", "r2"), 0, false, false,
       false, 0},
  };
  for (const Row& row : rows) {
    const auto journal = MustOpen();
    MustAppend(*journal, {row.entry});
    const auto run = journal->Load("j");
    ASSERT_TRUE(run.ok() && run->has_value());
    const JournalState& state = (*run)->state;
    EXPECT_EQ(state.run, row.entry.run);
    EXPECT_EQ(state.generation, row.generation);
    EXPECT_EQ(state.proposal.has_value(), row.proposal);
    EXPECT_EQ(state.seal.has_value(), row.seal);
    EXPECT_EQ(state.end.has_value(), row.end);
    EXPECT_EQ(state.restarts_charged, row.charged);
  }
}

TEST_F(JournalTest, ABatchIsWrittenWholeOrNotAtAll) {
  const auto journal = MustOpen();
  const std::vector<JournalEntry> batch = {
      Entry(Kind::kRunStarted, 0, Settings(1)),
      Entry(Kind::kProposed, 1, ProposalOf(1), "never-started")};
  EXPECT_EQ(journal->Append(batch, kThen).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(journal->Load("j")->has_value());
  // And goes on afterwards.
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
  EXPECT_EQ(runs->size(), size_t{SqliteJournal::kEndedRunsKept});
  EXPECT_TRUE(journal->Load("j69")->has_value());
  EXPECT_FALSE(journal->Load("j0")->has_value());
}

// As by a clock that was set back by a day.
TEST_F(JournalTest, EndedRunsAreTrimmedInTheOrderInWhichTheyEnded) {
  const auto journal = MustOpen();
  const auto end = [&](const std::string& job, absl::Time at) {
    const std::vector<JournalEntry> entries = {
        Entry(Kind::kRunEnded, 0, EndOf(0), job)};
    ASSERT_TRUE(journal->Append(entries, at).ok());
  };
  // Begun first, and it ends last but one.
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), "long")});
  for (int i = 0; i < SqliteJournal::kEndedRunsKept; ++i) {
    const std::string job = absl::StrCat("j", i);
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), job)});
    end(job, kThen);
  }
  end("long", kThen - absl::Hours(24));
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), "last")});
  end("last", kThen - absl::Hours(24));
  EXPECT_EQ(journal->LoadAll()->size(), size_t{SqliteJournal::kEndedRunsKept});
  EXPECT_TRUE(journal->Load("long")->has_value());
  EXPECT_TRUE(journal->Load("last")->has_value());
  EXPECT_FALSE(journal->Load("j0")->has_value());
  EXPECT_FALSE(journal->Load("j1")->has_value());
  EXPECT_TRUE(journal->Load("j2")->has_value());
}

v1::TokenRecord RecordOf(const std::string& id, uint32_t uses_left) {
  v1::TokenRecord record;
  record.mutable_status()->set_id(id);
  record.mutable_status()->set_uses_left(uses_left);
  record.set_secret_sha256(std::string("\0digest\xff", 8));
  return record;
}

// What a journal says of its tokens: "a=1 b=2".
std::string TokensIn(JournalStore& journal) {
  const auto records = journal.LoadTokens();
  EXPECT_TRUE(records.ok()) << records.status();
  std::map<std::string, uint32_t> uses;
  for (const v1::TokenRecord& record : *records) {
    EXPECT_EQ(record.secret_sha256(), std::string("\0digest\xff", 8));
    EXPECT_TRUE(
        uses.emplace(record.status().id(), record.status().uses_left()).second);
  }
  return absl::StrJoin(uses, " ", absl::PairFormatter("="));
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
  // The latest counts; what is not there cannot be missed.
  ASSERT_TRUE(
      journal->SaveTokens({RecordOf("b", 0), RecordOf("d", 4)}, {"c", "nobody"})
          .ok());
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  ASSERT_TRUE(journal->SaveTokens({}, {}).ok());
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  // A run of a job is no reason to forget them, and neither is its end.
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3)),
                        Entry(Kind::kRunEnded, 0, EndOf(0))});
  EXPECT_EQ(TokensIn(*journal), "a=1 b=0 d=4");
  ASSERT_TRUE(journal->DropTokens().ok());
  EXPECT_EQ(TokensIn(*journal), "");
  EXPECT_TRUE((*journal->Load("j")).has_value());
}

TEST_F(JournalTest, SecretsAreForTheOwnerAlone) {
  const mode_t before = umask(0);
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
  umask(before);
  struct stat status;
  ASSERT_EQ(stat(state().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  for (const std::string& name :
       {file(), file() + "-wal", state() + "/daemon.lock"}) {
    ASSERT_EQ(stat(name.c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(JournalTest, ASecondDaemonIsRefusedWithTheFirstOnesPid) {
  const auto first = MustOpen();
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(second.status().message())
                .find(absl::StrCat("process ", getpid())),
            std::string::npos)
      << second.status();
}

TEST_F(JournalTest, TheLockGoesWithItsHolder) {
  { const auto first = MustOpen(); }
  EXPECT_TRUE(Open().ok());
}

void Overwrite(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  fs::permissions(fs::path(path).parent_path(), fs::perms::owner_all);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_F(JournalTest, AForeignFileIsRefusedAndLeftAsItIs) {
  const std::string text =
      "these are notes and no database, " + std::string(4096, '.');
  Overwrite(file(), text);
  const auto journal = Open();
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(journal.status().message()).find(file()),
            std::string::npos);
  EXPECT_EQ(ReadAll(file()), text);
}

void Sql(const std::string& path, const char* sql) {
  fs::create_directories(fs::path(path).parent_path());
  fs::permissions(fs::path(path).parent_path(), fs::perms::owner_all);
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
}

TEST_F(JournalTest, AnotherProgramsDatabaseIsRefused) {
  Sql(file(), "CREATE TABLE t (x); PRAGMA application_id = 7");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  Sql(file(), "PRAGMA application_id = 0");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JournalTest, ANewerRollcallsFileIsRefused) {
  { const auto journal = MustOpen(); }
  Sql(file(), "PRAGMA user_version = 7");
  const auto journal = Open();
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(journal.status().message()).find("newer"),
            std::string::npos);
}

TEST_F(JournalTest, AnOlderRollcallsFileIsTakenUp) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
  }
  // The first one knew no tokens.
  Sql(file(),
      "DROP TABLE tokens; DROP TABLE nodes; ALTER TABLE runs DROP leaving;"
      "ALTER TABLE runs DROP epoch_floor; ALTER TABLE runs DROP finished;"
      "ALTER TABLE runs DROP ran_proposal; ALTER TABLE runs DROP ran_seal;"
      "ALTER TABLE runs DROP ran_finished;"
      "PRAGMA user_version = 1");
  for (int life = 0; life < 2; ++life) {
    const auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    EXPECT_TRUE((*journal->Load("j")).has_value());
    EXPECT_EQ(TokensIn(*journal), life == 0 ? "" : "a=1");
    ASSERT_TRUE(journal->SaveTokens({RecordOf("a", 1)}, {}).ok());
  }
}

TEST_F(JournalTest, AFileThatDoesNotKnowWhoLeavesIsTakenUp) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
    ASSERT_TRUE(journal->SaveTokens({RecordOf("a", 1)}, {}).ok());
  }
  Sql(file(),
      "DROP TABLE nodes; ALTER TABLE runs DROP leaving;"
      "ALTER TABLE runs DROP epoch_floor; ALTER TABLE runs DROP finished;"
      "ALTER TABLE runs DROP ran_proposal; ALTER TABLE runs DROP ran_seal;"
      "ALTER TABLE runs DROP ran_finished;"
      "PRAGMA user_version = 2");
  v1::Notice leaving;
  leaving.add_nodes("b");
  for (int life = 0; life < 2; ++life) {
    const auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    EXPECT_EQ(TokensIn(*journal), "a=1");
    const auto run = journal->Load("j");
    ASSERT_TRUE(run.ok() && run->has_value());
    EXPECT_EQ((*run)->state.leaving.has_value(), life == 1);
    MustAppend(*journal,
               {Entry(Kind::kLeaving, 0, leaving.SerializeAsString())});
  }
}

std::string EpochsBody(std::vector<v1::NodeEpoch> nodes, uint64_t floor = 0,
                       bool whole = false) {
  v1::NodeEpochs epochs;
  epochs.set_floor(floor);
  epochs.set_whole(whole);
  for (v1::NodeEpoch& node : nodes) *epochs.add_nodes() = std::move(node);
  return epochs.SerializeAsString();
}

v1::NodeEpoch EpochRow(const std::string& node, uint64_t epoch,
                       const std::string& token_id) {
  v1::NodeEpoch row;
  row.set_node(node);
  row.set_epoch(epoch);
  row.set_token_id(token_id);
  return row;
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
    // All of them at once: others are no more, and below the floor.
    MustAppend(*journal,
               {Entry(Kind::kNodeEpochs, 0,
                      EpochsBody({EpochRow("a", 0, "t1")}, 2, true))});
  }
  {
    const auto journal = MustOpen();
    EXPECT_EQ(epochs(*journal).EpochOf("a"), 0u);
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 2u);
    EXPECT_FALSE(epochs(*journal).Has("b"));
    // An ended run's agents may still ask how it ended.
    MustAppend(*journal, {Entry(Kind::kRunEnded, 0, "")});
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 2u);
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
    EXPECT_EQ(epochs(*journal).EpochOf("b"), 0u);
    EXPECT_FALSE(epochs(*journal).Has("a"));
  }
}

TEST_F(JournalTest, AFileWithoutEpochsIsTakenUp) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
  }
  Sql(file(),
      "DROP TABLE nodes; ALTER TABLE runs DROP epoch_floor;"
      "ALTER TABLE runs DROP finished; ALTER TABLE runs DROP ran_proposal;"
      "ALTER TABLE runs DROP ran_seal; ALTER TABLE runs DROP ran_finished;"
      "PRAGMA user_version = 3");
  for (uint64_t life = 0; life < 2; ++life) {
    const auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    const auto run = journal->Load("j");
    ASSERT_TRUE(run.ok() && run->has_value());
    EXPECT_EQ((*run)->state.node_epochs.EpochOf("a"), life);
    MustAppend(*journal, {Entry(Kind::kNodeEpochs, 0,
                                EpochsBody({EpochRow("a", 1, "t1")}))});
  }
}

TEST_F(JournalTest, AFileThatDoesNotKnowWhoHasFinishedIsTakenUp) {
  {
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(3))});
  }
  Sql(file(),
      "ALTER TABLE runs DROP finished; ALTER TABLE runs DROP ran_proposal;"
      "ALTER TABLE runs DROP ran_seal; ALTER TABLE runs DROP ran_finished;"
      "PRAGMA user_version = 4");
  v1::FinishedNodes finished;
  finished.add_node_ranks(2);
  for (int life = 0; life < 2; ++life) {
    const auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    const auto run = journal->Load("j");
    ASSERT_TRUE(run.ok() && run->has_value());
    EXPECT_EQ((*run)->state.finished.has_value(), life == 1);
    MustAppend(*journal,
               {Entry(Kind::kFinished, 1, finished.SerializeAsString())});
  }
  // Of a generation that has ended, nothing is finished.
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kEnded, 1, "")});
  const auto run = journal->Load("j");
  ASSERT_TRUE(run.ok() && run->has_value());
  EXPECT_FALSE((*run)->state.finished.has_value());
}

TEST_F(JournalTest, TheWorldThatRanLastIsKeptUntilNobodyWaitsForIt) {
  v1::Proposal proposal;
  proposal.set_generation(1);
  v1::Seal seal;
  seal.set_generation(1);
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
                Entry(Kind::kCommitted, 1, seal.SerializeAsString()),
                Entry(Kind::kFinished, 1, finished.SerializeAsString()),
                Entry(Kind::kEnded, 1, "")});
  };
  run_first();
  // A proposal that comes to nothing does not take its place.
  MustAppend(*journal,
             {Entry(Kind::kProposed, 2, ""), Entry(Kind::kEnded, 2, "")});
  ASSERT_TRUE(state().ran_proposal.has_value());
  EXPECT_EQ(state().ran_proposal->generation(), 1u);
  EXPECT_EQ(state().ran_seal->generation(), 1u);
  EXPECT_EQ(state().ran_finished->node_ranks(0), 1u);
  EXPECT_FALSE(state().proposal.has_value());
  MustAppend(*journal, {Entry(Kind::kFenceOpen, 1, "")});
  EXPECT_FALSE(state().ran_proposal.has_value());
  EXPECT_FALSE(state().ran_seal.has_value());
  run_first();
  MustAppend(*journal,
             {Entry(Kind::kProposed, 2, ""), Entry(Kind::kCommitted, 2, "")});
  EXPECT_FALSE(state().ran_proposal.has_value());
  EXPECT_FALSE(state().ran_finished.has_value());
}

// A folder that is for something else is left as it is; one that is ours, or
// for nothing yet, is closed to others.
TEST_F(JournalTest, AFolderIsOursAloneOrNotOurs) {
  const auto mode = [&] {
    return fs::status(state()).permissions() & fs::perms::mask;
  };
  const fs::perms open_to_all = fs::perms::all | fs::perms::sticky_bit;
  fs::create_directories(state());
  fs::permissions(state(), open_to_all);
  std::ofstream(state() + "/theirs") << "x";
  EXPECT_EQ(StateFolder::Open(state()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(mode(), open_to_all);
  fs::remove(state() + "/theirs");
  EXPECT_TRUE(StateFolder::Open(state()).ok());
  EXPECT_EQ(mode(), fs::perms::owner_all);
  // Others could only read it since: the lock shows whose it is.
  fs::permissions(state(), fs::perms(0755));
  EXPECT_TRUE(StateFolder::Open(state()).ok());
  EXPECT_EQ(mode(), fs::perms::owner_all);
}

// Where others can write, the lock may be theirs.
TEST_F(JournalTest, AFolderThatOthersCanWriteToIsRefused) {
  for (const int mode : {0777, 0770, 0720, 0702, 01777}) {
    fs::remove_all(state());
    ASSERT_TRUE(StateFolder::Open(state()).ok());
    fs::permissions(state(), fs::perms(mode));
    const absl::Status refused = StateFolder::Open(state()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.message().find("chmod 700 " + state()),
              absl::string_view::npos)
        << refused;
    EXPECT_EQ(fs::status(state()).permissions(), fs::perms(mode));
  }
}

// What another user has put into a folder while it was open to all.
TEST_F(JournalTest, AFileThatIsNotOursIsRefused) {
  const std::string victim = folder_ + "/victim";
  const struct {
    const char* what;
    std::function<void(const std::string&)> plant;
    bool needs_root = false;
  } rows[] = {
      {"a link", [&](const auto& at) { fs::create_symlink(victim, at); }},
      {"a hard link",
       [&](const auto& at) { fs::create_hard_link(victim, at); }},
      {"a pipe",
       [](const auto& at) { ASSERT_EQ(mkfifo(at.c_str(), 0600), 0); }},
      {"another user's",
       [](const auto& at) {
         std::ofstream(at) << "";
         ASSERT_EQ(chown(at.c_str(), 65534, 65534), 0);
       },
       true},
  };
  for (const auto& row : rows) {
    if (row.needs_root && geteuid() != 0) continue;
    for (const char* name : {"daemon.lock", "journal.db", "journal.db-wal",
                             "admin.token", "launch.json"}) {
      fs::remove_all(state());
      Overwrite(victim, "kept");
      fs::create_directories(state());
      fs::permissions(state(), fs::perms::owner_all);
      row.plant(state() + "/" + name);
      const absl::Status refused = StateFolder::Open(state()).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition)
          << row.what << " " << name;
      EXPECT_NE(refused.message().find(state() + "/" + name),
                absl::string_view::npos)
          << refused;
      EXPECT_EQ(ReadAll(victim), "kept");
      // Nor by those that open a file later.
      EXPECT_FALSE(OpenPrivateFile(state(), name).ok()) << row.what;
      EXPECT_EQ(ReadAll(victim), "kept");
    }
  }
}

TEST_F(JournalTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give folders away";
  fs::create_directories(state());
  fs::permissions(state(), fs::perms::owner_all);
  ASSERT_EQ(chown(state().c_str(), 65534, 65534), 0);
  EXPECT_EQ(StateFolder::Open(state()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(JournalTest, AnEmptyFileIsANewJournal) {
  Overwrite(file(), "");
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
}

// Whatever is cut off or overwritten, the answer is a journal or a refusal, and
// never a crash, a hang or made-up state.
TEST_F(JournalTest, DamageIsRefusedOrHarmless) {
  {
    const auto journal = MustOpen();
    for (uint64_t g = 1; g <= 20; ++g) {
      MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1)),
                            Entry(Kind::kProposed, g, ProposalOf(g))});
    }
  }
  const std::string whole = ReadAll(file());
  ASSERT_GT(whole.size(), 4096u);
  int refused = 0;
  for (size_t cut = 1; cut < whole.size(); cut += 509) {
    Overwrite(file(), whole.substr(0, cut));
    const auto journal = Open();
    if (!journal.ok()) {
      EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition)
          << journal.status();
      ++refused;
      continue;
    }
    const auto run = (*journal)->Load("j");
    if (run.ok() && run->has_value()) {
      EXPECT_EQ((*run)->state.run, "r1");
    }
  }
  EXPECT_GT(refused, 0);
  for (size_t at = 0; at < whole.size(); at += 211) {
    std::string torn = whole;
    for (size_t i = at; i < std::min(at + 16, torn.size()); ++i)
      torn[i] ^= 0x5A;
    Overwrite(file(), torn);
    const auto journal = Open();
    if (journal.ok()) (*journal)->Load("j").status().IgnoreError();
  }
}

TEST_F(JournalTest, ATornLogLosesItsTailOnly) {
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1)),
                        Entry(Kind::kProposed, 1, ProposalOf(1))});
  const std::string before = ReadAll(file() + "-wal");
  MustAppend(*journal, {Entry(Kind::kProposed, 2, ProposalOf(2))});
  const std::string after = ReadAll(file() + "-wal");
  ASSERT_GT(after.size(), before.size());
  // What a power cut in the middle of the second commit leaves.
  const std::string copy = folder_ + "/copy";
  Overwrite(copy + "/journal.db", ReadAll(file()));
  Overwrite(copy + "/journal.db-wal",
            after.substr(0, (before.size() + after.size()) / 2));
  auto folder = StateFolder::Open(copy);
  ASSERT_TRUE(folder.ok());
  auto restored = SqliteJournal::Open(*std::move(folder));
  ASSERT_TRUE(restored.ok()) << restored.status();
  const auto run = (*restored)->Load("j");
  ASSERT_TRUE(run.ok() && run->has_value());
  EXPECT_EQ((*run)->state.generation, 1u);
}

TEST_F(JournalTest, AnAppendThatCannotBeWrittenSaysWhy) {
  const auto journal = MustOpen();
  MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1))});
  {
    const FileLimit limit(fs::file_size(file() + "-wal"));
    const std::vector<JournalEntry> entries = {
        Entry(Kind::kProposed, 1, ProposalOf(1))};
    const absl::Status status = journal->Append(entries, kThen);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    for (const std::string& word :
         {file(), std::string("File too large"), std::string("--state")}) {
      EXPECT_NE(status.message().find(word), std::string::npos)
          << word << " in " << status;
    }
  }
  // And again once there is room.
  MustAppend(*journal, {Entry(Kind::kProposed, 1, ProposalOf(1))});
}

TEST_F(JournalTest, AFolderThatCannotBeMadeIsNamed) {
  Overwrite(folder_ + "/plain", "a file");
  const auto folder = StateFolder::Open(folder_ + "/plain/state");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(StateFolder::Open("").ok());
}

}  // namespace
}  // namespace rollcall
