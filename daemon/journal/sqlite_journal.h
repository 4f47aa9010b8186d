// SqliteJournal: the journal in one SQLite file, `journal.db` in a state
// folder, mode 0600.
//
// One row has a job's last run (settings, highest generation, the open proposal
// and its seal, the end, the restarts charged). A second table has the headers
// of earlier entries, a third one has tokens (digests, never secrets). It uses
// a write-ahead log and a full sync for each commit: what Append has
// acknowledged survives a power loss.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/journal/journal.h"
#include "daemon/journal/state_folder.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rollcall {

class SqliteJournal final : public JournalStore {
 public:
  // Most headers that are kept for a job; older ones are removed.
  static constexpr int kHeadersKept = 100;
  // Most ended runs that are kept; older ones are removed.
  static constexpr int kEndedRunsKept = 64;

  // Opens or creates the journal in `folder`, and keeps the folder's lock.
  // FAILED_PRECONDITION: the file is another program's, a newer rollcall's or
  // damaged; it is not changed, and the message says what to do. UNAVAILABLE:
  // it cannot be opened or created.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(
      StateFolder folder);

  ~SqliteJournal() override;

  absl::Status Append(absl::Span<const JournalEntry> entries,
                      absl::Time written_at) override;
  absl::StatusOr<std::optional<JournaledRun>> Load(
      std::string_view job) override;
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() override;
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override;
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord> written,
                          absl::Span<const std::string> removed) override;
  absl::Status DropTokens() override;

 private:
  explicit SqliteJournal(StateFolder folder);

  absl::Status Prepare();
  absl::Status CheckFile(bool& empty);
  absl::Status MakeSchema();
  // From an older schema to the current one.
  absl::Status Migrate(int64_t from);
  absl::Status Write(const JournalEntry& entry, absl::Time written_at);
  // Removes ended runs beyond kEndedRunsKept, those that ended first.
  absl::Status TrimEnded();
  absl::Status WriteState(const JournalEntry& entry, int64_t written_us);
  absl::Status WriteNodes(const std::string& job, const v1::NodeEpochs& epochs);
  absl::Status ReadNodes(JournaledRun& run, uint64_t floor);
  absl::Status Execute(const char* sql);
  absl::StatusOr<int64_t> Number(const char* sql);
  absl::StatusOr<std::vector<JournaledRun>> Read(const char* sql,
                                                 std::string_view job);
  // SQLite's error of its last call, as a status.
  absl::Status Trouble(const char* doing) const;
  absl::Status Damaged(const std::string& what) const;

  // Declared before the database, so that the lock is released last.
  StateFolder folder_;
  const std::string file_;
  sqlite3* database_ = nullptr;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_
