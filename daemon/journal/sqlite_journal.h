// SqliteJournal: the journal in one SQLite file, `journal.db` in a state
// folder, mode 0600.
//
// The table `runs` has one packed record per job (RunRecord), the table
// `tokens` one per token (digests, never secrets). It uses a write-ahead log
// and a full sync for each commit: what Append has acknowledged survives a
// power loss. A file of an older schema is converted when it is opened, in one
// transaction.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/journal/record_journal.h"
#include "daemon/journal/state_folder.h"

struct sqlite3;

namespace rollcall {

class SqliteJournal final : public RecordJournal {
 public:
  // Opens or creates the journal in `folder`, and keeps the folder's lock.
  // FAILED_PRECONDITION: the file is another program's, a newer rollcall's or
  // damaged; it is not changed, and the message says what to do. UNAVAILABLE:
  // it cannot be opened or created.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(
      StateFolder folder);

  ~SqliteJournal() override;

  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override;
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord> written,
                          absl::Span<const std::string> removed) override;
  absl::Status DropTokens() override;

 private:
  explicit SqliteJournal(StateFolder folder);

  absl::Status Prepare();
  absl::Status CheckFile(bool& empty);
  // Creates the current schema in an empty file (schema 0), or converts a file
  // of an older schema. The caller has begun a transaction.
  absl::Status MakeSchema(int64_t from);
  absl::Status ReadRuns();
  absl::Status Store(const Changes& changes) override;
  // Runs `write` in a transaction. If `write` returns an error, the transaction
  // is rolled back.
  absl::Status Transact(const std::function<absl::Status()>& write);
  template <typename... Values>
  absl::Status Write(const char* sql, const Values&... values);
  absl::Status Execute(const char* sql);
  absl::StatusOr<int64_t> Number(const char* sql);
  // The error of SQLite's last call, as a status.
  absl::Status Trouble(const char* doing) const;
  absl::Status Damaged(const std::string& what) const;

  // Declared before the database, so that the lock is released last.
  StateFolder folder_;
  const std::string file_;
  sqlite3* database_ = nullptr;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_SQLITE_JOURNAL_H_
