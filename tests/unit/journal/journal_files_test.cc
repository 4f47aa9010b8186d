// The journal's files: who may read them, files of other programs and other
// versions, and damage.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/journal/state_folder.h"
#include "tests/unit/file_limit.h"
#include "tests/unit/journal/journal_fixture.h"

namespace rollcall {
namespace {

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
  Sql(file(), "PRAGMA user_version = 8");
  const auto journal = Open();
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(journal.status().message()).find("newer"),
            std::string::npos);
}

// A folder with other contents is left as it is. A folder that is ours, or is
// empty, is closed to other users.
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
  // Other users could only read the folder meanwhile. The lock shows that it is
  // ours.
  fs::permissions(state(), fs::perms(0755));
  EXPECT_TRUE(StateFolder::Open(state()).ok());
  EXPECT_EQ(mode(), fs::perms::owner_all);
}

// If other users can write to the folder, they may have made the lock.
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

// Another user put this file into the folder while it was open to all users.
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
      // A later open of the file is refused, too.
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

// Whatever is cut off or overwritten, the result is a journal or a refusal. It
// is never a crash, a hang or a false state.
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
  // This is what a power cut in the middle of the second commit leaves.
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
  // A write succeeds again once there is room.
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
