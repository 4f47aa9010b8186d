// A journal.db of every older schema: all its runs and tokens are kept.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/file_limit.h"
#include "tests/unit/journal/journal_fixture.h"

namespace rollcall {
namespace {

constexpr int kLastOldSchema = 6;

std::string Hex(const std::string& bytes) {
  return absl::StrCat("X'", absl::BytesToHexString(bytes), "'");
}

class OldSchemasTest : public JournalTest {
 protected:
  // Returns the first column of the first row; -1: there is no row.
  int64_t Sql(const std::string& sql) {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    int64_t number = -1;
    const auto take = [](void* to, int, char** columns, char**) {
      *static_cast<int64_t*>(to) = std::atoll(columns[0]);
      return 0;
    };
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), take, &number, &error),
              SQLITE_OK)
        << sql << ": " << error;
    sqlite3_close(database);
    return number;
  }

  // Makes the file as a rollcall of this schema did.
  void MakeFile(int schema) {
    fs::create_directories(state());
    fs::permissions(state(), fs::perms::owner_all);
    fs::remove(file());
    const auto since = [schema](int first, const char* sql) {
      return schema < first ? "" : sql;
    };
    Sql(absl::StrCat(
        "PRAGMA journal_mode = WAL; BEGIN;"
        "CREATE TABLE runs (job TEXT PRIMARY KEY, run TEXT NOT NULL, settings "
        "BLOB NOT NULL, generation INTEGER NOT NULL, proposal BLOB, seal BLOB, "
        "run_end BLOB, charged INTEGER NOT NULL, written_us INTEGER NOT NULL",
        since(3, ", leaving BLOB"),
        since(4, ", epoch_floor INTEGER NOT NULL DEFAULT 0"),
        since(5, ", finished BLOB"),
        since(6, ", ran_proposal BLOB, ran_seal BLOB, ran_finished BLOB"),
        ") WITHOUT ROWID;"
        "CREATE TABLE headers (id INTEGER PRIMARY KEY, job TEXT NOT NULL, run "
        "TEXT NOT NULL, kind INTEGER NOT NULL, generation INTEGER NOT NULL, "
        "code INTEGER NOT NULL, written_us INTEGER NOT NULL);"
        "CREATE INDEX headers_by_job ON headers (job, id);",
        since(2,
              "CREATE TABLE tokens (id TEXT PRIMARY KEY, record BLOB NOT NULL) "
              "WITHOUT ROWID;"),
        since(4,
              "CREATE TABLE nodes (job TEXT NOT NULL, node TEXT NOT NULL, "
              "epoch INTEGER NOT NULL, token_id TEXT NOT NULL, PRIMARY KEY "
              "(job, node)) WITHOUT ROWID;"),
        "PRAGMA application_id = 1919117932; PRAGMA user_version = ", schema,
        "; COMMIT"));
  }

  void AddRun(const std::string& job, uint64_t generation,
              const std::optional<std::string>& end, int64_t header) {
    Sql(absl::StrCat(
        "INSERT INTO runs (job, run, settings, generation, run_end, charged, "
        "written_us) VALUES ('",
        job, "', 'r1', ", Hex(Settings(3)), ", ", generation, ", ",
        end.has_value() ? Hex(*end) : "NULL", ", 2, ",
        absl::ToUnixMicros(kThen),
        ");"
        "INSERT INTO headers VALUES (",
        header, ", '", job, "', 'r1', 1, 0, 0, 0)"));
  }

  // Adds job `j` with everything that a file of this schema can have of a run.
  void AddFullRun(int schema) {
    AddRun("j", 7, std::nullopt, 1);
    const auto set = [&](int since, const char* column,
                         const std::string& bytes) {
      if (schema < since) return;
      Sql(absl::StrCat("UPDATE runs SET ", column, " = ", Hex(bytes),
                       " WHERE job = 'j'"));
    };
    set(1, "proposal", ProposalOf(7));
    set(1, "seal", WorldCommitOf(7));
    set(3, "leaving", LeavingOf("b"));
    set(5, "finished", FinishedOf(1));
    set(6, "ran_proposal", ProposalOf(6));
    set(6, "ran_seal", WorldCommitOf(6));
    set(6, "ran_finished", FinishedOf(2));
    if (schema >= 2) {
      Sql(absl::StrCat("INSERT INTO tokens VALUES ('a', ",
                       Hex(RecordOf("a", 1).SerializeAsString()), ")"));
    }
    if (schema >= 4) {
      Sql("UPDATE runs SET epoch_floor = 4 WHERE job = 'j';"
          "INSERT INTO nodes VALUES ('j', 'n1', 5, 't1'), ('j', 'n2', 0, ''), "
          "('other', 'n3', 1, 't1')");
    }
  }

  // The state that AddFullRun leaves.
  static std::string FullRun(int schema) {
    const auto since = [schema](int first, const char* text) {
      return schema < first ? "" : text;
    };
    return absl::StrCat("r1 g7 proposed7 sealed7", since(5, " finished:1"),
                        since(3, " leaving:b"),
                        since(6, " ran6 ran_sealed6 ran_finished:2"),
                        " charged2", since(4, " n1=5/t1 n2=0/ floor4"));
  }
};

TEST_F(OldSchemasTest, NothingOfAnOldFileIsLost) {
  for (int schema = 1; schema <= kLastOldSchema; ++schema) {
    SCOPED_TRACE(schema);
    MakeFile(schema);
    AddFullRun(schema);
    AddRun("k", 2, EndOf(3), 2);
    for (int life = 0; life < 2; ++life) {
      const auto journal = MustOpen();
      ASSERT_NE(journal, nullptr);
      EXPECT_EQ(StateIn(*journal, "j"), FullRun(schema));
      EXPECT_EQ(StateIn(*journal, "k"), "r1 g2 charged2 end3");
      EXPECT_EQ(journal->LoadAll()->size(), 2u);
      const auto run = *journal->Load("j");
      EXPECT_EQ(run->written_at, kThen);
      EXPECT_EQ(run->state.settings.nodes_max(), 3u);
      EXPECT_EQ(run->state.proposal->world(), std::string("w\0rld", 5));
      EXPECT_EQ(run->state.world_commit->master_port(), 1234u);
      EXPECT_EQ(TokensIn(*journal), schema < 2 ? "" : "a=1");
    }
    EXPECT_EQ(Sql("PRAGMA user_version"), 7);
    EXPECT_EQ(Sql("SELECT count(*) FROM sqlite_schema WHERE type = 'table'"),
              2);
    // The journal accepts further entries.
    const auto journal = MustOpen();
    MustAppend(*journal, {Entry(Kind::kRunEnded, 7, EndOf(0))});
    ASSERT_TRUE(journal->SaveTokens({RecordOf("a", 2)}, {}).ok());
    EXPECT_EQ(TokensIn(*journal), "a=2");
  }
}

TEST_F(OldSchemasTest, EndedRunsAreTrimmedInTheirOldOrder) {
  MakeFile(kLastOldSchema);
  constexpr int kRuns = SqliteJournal::kEndedRunsKept;
  // The order of the names is the reverse of the order of the ends. One run has
  // no headers.
  for (int i = 1; i < kRuns; ++i) {
    AddRun(absl::StrCat("j", 100 + i), 1, EndOf(0), kRuns - i);
  }
  AddRun("bare", 1, EndOf(0), kRuns);
  Sql("DELETE FROM headers WHERE job = 'bare'");
  const auto journal = MustOpen();
  ASSERT_NE(journal, nullptr);
  for (const char* job : {"x", "y"}) {
    MustAppend(*journal, {Entry(Kind::kRunStarted, 0, Settings(1), job),
                          Entry(Kind::kRunEnded, 0, EndOf(0), job)});
  }
  EXPECT_EQ(journal->LoadAll()->size(), SqliteJournal::kEndedRunsKept);
  EXPECT_EQ(StateIn(*journal, "bare"), "");
  EXPECT_EQ(StateIn(*journal, absl::StrCat("j", 100 + kRuns - 1)), "");
  EXPECT_NE(StateIn(*journal, absl::StrCat("j", 100 + kRuns - 2)), "");
  EXPECT_NE(StateIn(*journal, "x"), "");
}

// Every field of every old schema is read, so none of them may be damaged.
TEST_F(OldSchemasTest, AnOldRunThatCannotBeReadIsRefusedAndLeftAsItIs) {
  for (const char* column :
       {"settings", "proposal", "seal", "run_end", "leaving", "finished",
        "ran_proposal", "ran_seal", "ran_finished"}) {
    SCOPED_TRACE(column);
    MakeFile(kLastOldSchema);
    AddRun("a", 1, EndOf(0), 2);
    AddFullRun(kLastOldSchema);
    Sql(absl::StrCat("UPDATE runs SET ", column, " = X'FF' WHERE job = 'j'"));
    const absl::Status refused = Open().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.message().find("the run of job j"),
              absl::string_view::npos)
        << refused;
    EXPECT_EQ(Sql("PRAGMA user_version"), kLastOldSchema);
    EXPECT_EQ(Sql("SELECT count(*) FROM runs WHERE seal NOT NULL"), 1);
    EXPECT_EQ(Sql("SELECT count(*) FROM headers"), 2);
    EXPECT_EQ(Sql("SELECT count(*) FROM nodes"), 3);
  }
}

// Wherever the disk becomes full, the old file stays complete and is converted
// later.
TEST_F(OldSchemasTest, AConversionThatIsCutOffLosesNothing) {
  int refused = 0;
  for (rlim_t bytes = 1024;; bytes += 1024) {
    SCOPED_TRACE(bytes);
    MakeFile(kLastOldSchema);
    AddFullRun(kLastOldSchema);
    absl::Status status;
    {
      const FileLimit limit(bytes);
      status = Open().status();
    }
    if (!status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_NE(status.message().find(file()), absl::string_view::npos);
      ASSERT_EQ(Sql("PRAGMA user_version"), kLastOldSchema);
      EXPECT_EQ(Sql("SELECT count(*) FROM headers"), 1);
    }
    const auto journal = MustOpen();
    ASSERT_NE(journal, nullptr);
    EXPECT_EQ(StateIn(*journal, "j"), FullRun(kLastOldSchema));
    if (status.ok()) break;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace rollcall
