// What the tests of the journal in SQLite share.
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
#include <vector>

#include "absl/strings/str_join.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/journal/state_folder.h"

namespace rollcall {

namespace fs = std::filesystem;
using Kind = Journal::Kind;

inline const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

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

inline JournalEntry Entry(Kind kind, uint64_t generation, std::string body = "",
                          std::string job = "j", std::string run = "r1") {
  return {std::move(job), std::move(run), {kind, generation, std::move(body)}};
}

inline std::string Settings(uint32_t nodes) {
  v1::JobSettings settings;
  settings.set_nodes_min(nodes);
  settings.set_nodes_max(nodes);
  return settings.SerializeAsString();
}
inline std::string ProposalOf(uint64_t generation) {
  v1::Proposal proposal;
  proposal.set_generation(generation);
  proposal.set_world(std::string("w\0rld", 5));
  return proposal.SerializeAsString();
}
inline std::string SealOf(uint64_t generation) {
  v1::Seal seal;
  seal.set_generation(generation);
  seal.set_master_port(1234);
  return seal.SerializeAsString();
}
inline std::string ReformOf(v1::ReasonCode code, uint32_t charged) {
  v1::Reform reform;
  reform.set_code(code);
  reform.set_restarts_charged(charged);
  return reform.SerializeAsString();
}
inline std::string EndOf(int exit_code) {
  v1::End end;
  end.set_exit_code(exit_code);
  return end.SerializeAsString();
}

inline void MustAppend(JournalStore& journal,
                       std::vector<JournalEntry> entries) {
  const absl::Status status = journal.Append(entries, kThen);
  ASSERT_TRUE(status.ok()) << status;
}

inline v1::TokenRecord RecordOf(const std::string& id, uint32_t uses_left) {
  v1::TokenRecord record;
  record.mutable_status()->set_id(id);
  record.mutable_status()->set_uses_left(uses_left);
  record.set_secret_sha256(std::string("\0digest\xff", 8));
  return record;
}

// What a journal says of its tokens: "a=1 b=2".
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

inline std::string EpochsBody(std::vector<v1::NodeEpoch> nodes,
                              uint64_t floor = 0, bool whole = false) {
  v1::NodeEpochs epochs;
  epochs.set_floor(floor);
  epochs.set_whole(whole);
  for (v1::NodeEpoch& node : nodes) *epochs.add_nodes() = std::move(node);
  return epochs.SerializeAsString();
}

inline v1::NodeEpoch EpochRow(const std::string& node, uint64_t epoch,
                              const std::string& token_id) {
  v1::NodeEpoch row;
  row.set_node(node);
  row.set_epoch(epoch);
  row.set_token_id(token_id);
  return row;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_FIXTURE_H_
