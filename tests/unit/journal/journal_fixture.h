// Shared by the tests of the SQLite journal.
#ifndef ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/journal/state_folder.h"
#include "tests/unit/journal/journal_entries.h"

namespace rollcall {

namespace fs = std::filesystem;
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

inline v1::TokenRecord RecordOf(const std::string& id, uint32_t uses_left) {
  v1::TokenRecord record;
  record.mutable_status()->set_id(id);
  record.mutable_status()->set_uses_left(uses_left);
  record.set_secret_sha256(std::string("\0digest\xff", 8));
  return record;
}

// Returns the tokens that a journal has, such as "a=1 b=2".
inline std::string TokensIn(JournalStore& journal) {
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_FIXTURE_H_
