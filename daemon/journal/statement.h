// Statement: one prepared SQLite statement, and Run for statements without a
// result. Errors are UNAVAILABLE with SQLite's message.
//
// Thread rule: that of its database.
#ifndef ROLLCALL_DAEMON_JOURNAL_STATEMENT_H_
#define ROLLCALL_DAEMON_JOURNAL_STATEMENT_H_

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

// Bytes that are bound without a copy; they must outlive the step.
struct Blob {
  const std::string& bytes;
};

class Statement {
 public:
  static absl::StatusOr<Statement> Make(sqlite3* database, const char* sql) {
    Statement statement(database);
    if (sqlite3_prepare_v2(database, sql, -1, &statement.statement_, nullptr) !=
        SQLITE_OK) {
      return statement.Trouble();
    }
    return statement;
  }

  Statement(Statement&& other) noexcept
      : database_(other.database_),
        statement_(std::exchange(other.statement_, nullptr)) {}
  Statement(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  // Binds all parameters in order. Memory that they refer to must outlive the
  // steps.
  template <typename... Values>
  absl::Status Bind(const Values&... values) {
    int at = 0;
    const bool bound = ((BindOne(++at, values) == SQLITE_OK) && ...);
    return bound ? absl::OkStatus() : Trouble();
  }

  // True: there is a row to read. False: there are no more rows.
  absl::StatusOr<bool> Step() {
    switch (sqlite3_step(statement_)) {
      case SQLITE_ROW:
        return true;
      case SQLITE_DONE:
        return false;
      default:
        return Trouble();
    }
  }

  int64_t Number(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  std::string Text(int column) const {
    return Bytes(column).value_or(std::string());
  }
  // nullopt if the column is NULL.
  std::optional<std::string> Bytes(int column) const {
    if (sqlite3_column_type(statement_, column) == SQLITE_NULL) {
      return std::nullopt;
    }
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    if (data == nullptr) return std::string();
    return std::string(static_cast<const char*>(data), size);
  }

 private:
  explicit Statement(sqlite3* database) : database_(database) {}

  int BindOne(int at, int64_t value) {
    return sqlite3_bind_int64(statement_, at, value);
  }
  int BindOne(int at, const std::string& text) {
    // Copied, since parameters are often temporaries.
    return sqlite3_bind_text64(statement_, at, text.data(), text.size(),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  int BindOne(int at, const Blob& blob) {
    return sqlite3_bind_blob64(statement_, at, blob.bytes.data(),
                               blob.bytes.size(), SQLITE_STATIC);
  }
  absl::Status Trouble() const {
    return absl::UnavailableError(sqlite3_errmsg(database_));
  }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

// Runs a statement without a result.
template <typename... Values>
absl::Status Run(sqlite3* database, const char* sql, const Values&... values) {
  absl::StatusOr<Statement> statement = Statement::Make(database, sql);
  if (!statement.ok()) return statement.status();
  if (absl::Status s = statement->Bind(values...); !s.ok()) return s;
  return statement->Step().status();
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_STATEMENT_H_
