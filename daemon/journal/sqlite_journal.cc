#include "daemon/journal/sqlite_journal.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/files/write_error.h"
#include "daemon/journal/old_schemas.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/run_record.h"
#include "daemon/journal/statement.h"

namespace rollcall {
namespace {

constexpr char kFile[] = "journal.db";
// "rcjl". By it, this program and the command `file` recognize a database of
// rollcall.
constexpr int64_t kApplicationId = 0x72636A6C;
constexpr int64_t kSchemaVersion = kSchemaOfColumns + 1;

// `written`: grows with each write of any record.
constexpr char kSchema[] = R"sql(
CREATE TABLE runs (
  job TEXT PRIMARY KEY,
  record BLOB NOT NULL,
  written INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY,
  record BLOB NOT NULL
) WITHOUT ROWID;
)sql";

constexpr char kWriteRecord[] =
    "INSERT OR REPLACE INTO runs (job, record, written) VALUES (?, ?, ?)";

// Creates the database with mode 0600. SQLite does not create it, because then
// other users could read it for a moment. SQLite gives the write-ahead log the
// same mode.
absl::Status MakeFile(const StateFolder& folder, const std::string& name) {
  const absl::StatusOr<int> fd = OpenPrivateFile(folder.path(), name);
  if (!fd.ok()) return fd.status();
  const bool closed = fchmod(*fd, 0600) == 0;
  const int error = errno;
  close(*fd);
  if (closed) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot close ", folder.File(name),
                   " to other users: ", strerror(error)));
}

// A new file is set up with synchronous=OFF, so neither the file nor its name
// in the folder is synced. Without this function, a power loss could undo the
// first commit.
void SyncFileAndFolder(const std::string& file, const std::string& folder) {
  for (const std::string& path : {file, folder}) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fsync(fd);
    close(fd);
  }
}

// The errno that belongs to a result code; 0: unknown.
int SystemError(sqlite3* database, int code) {
  if (code == SQLITE_FULL) return ENOSPC;  // SQLite stores no errno for it.
  int error = sqlite3_system_errno(database);
  if (code != SQLITE_IOERR || error != 0) return error;
  // SQLite stores the errno of a failed commit in its object for the log file.
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

}  // namespace

SqliteJournal::SqliteJournal(StateFolder folder)
    : RecordJournal(folder.File(kFile)),
      folder_(std::move(folder)),
      file_(folder_.File(kFile)) {}

SqliteJournal::~SqliteJournal() { sqlite3_close(database_); }

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(
    StateFolder folder) {
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(std::move(folder)));
  absl::Status made = MakeFile(journal->folder_, kFile);
  if (!made.ok()) return made;
  if (absl::Status status = journal->Prepare(); !status.ok()) return status;
  if (absl::Status status = journal->ReadRuns(); !status.ok()) return status;
  return journal;
}

absl::Status SqliteJournal::Prepare() {
  if (sqlite3_open_v2(file_.c_str(), &database_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    return Trouble("open it");
  }
  sqlite3_extended_result_codes(database_, 1);
  // The daemon holds the folder's lock. With a single user, SQLite needs no
  // shared memory file.
  if (absl::Status s = Execute("PRAGMA locking_mode = EXCLUSIVE"); !s.ok()) {
    return s;
  }
  bool empty = false;
  if (absl::Status checked = CheckFile(empty); !checked.ok()) return checked;
  // A new file is synced by SyncFileAndFolder; SQLite itself would sync several
  // times.
  const char* quick = empty ? "PRAGMA synchronous = OFF" : "";
  for (const char* sql : {quick, "PRAGMA journal_mode = WAL"}) {
    if (absl::Status s = Execute(sql); !s.ok()) return s;
  }
  if (empty) SyncFileAndFolder(file_, folder_.path());
  if (absl::Status s = Execute("PRAGMA synchronous = FULL"); !s.ok()) return s;
  const absl::StatusOr<int64_t> version = Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (*version == kSchemaVersion) return absl::OkStatus();
  return Transact([&] { return MakeSchema(*version); });
}

absl::Status SqliteJournal::CheckFile(bool& empty) {
  const absl::StatusOr<int64_t> id = Number("PRAGMA application_id");
  if (!id.ok()) return id.status();
  const absl::StatusOr<int64_t> version = Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const absl::StatusOr<int64_t> tables =
      Number("SELECT count(*) FROM sqlite_schema");
  if (!tables.ok()) return tables.status();
  empty = *id == 0 && *version == 0 && *tables == 0;
  if (empty) return absl::OkStatus();
  if (*id != kApplicationId) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_, " is another program's database (application id ",
                     *id, ", expected ", kApplicationId,
                     "); give another folder with --state, or move it away"));
  }
  if (*version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_, " was written by a newer rollcall (schema ", *version,
        ", this one knows ", kSchemaVersion,
        "); use that rollcall, or give another folder with --state"));
  }
  absl::StatusOr<Statement> check =
      Statement::Make(database_, "PRAGMA quick_check(1)");
  if (!check.ok()) return Damaged(std::string(check.status().message()));
  const absl::StatusOr<bool> row = check->Step();
  if (!row.ok()) return Damaged(std::string(row.status().message()));
  const std::string found = check->Text(0);
  return found == "ok" ? absl::OkStatus() : Damaged(found);
}

absl::Status SqliteJournal::MakeSchema(int64_t from) {
  std::vector<OldRun> runs;
  if (from != 0) {
    absl::StatusOr<std::vector<OldRun>> old = TakeOldRuns(database_, from);
    if (absl::IsFailedPrecondition(old.status())) {
      return Damaged(std::string(old.status().message()));
    }
    if (!old.ok()) return Trouble("convert it");
    runs = *std::move(old);
  }
  absl::Status s =
      Execute(absl::StrCat(kSchema, "PRAGMA application_id = ", kApplicationId,
                           "; PRAGMA user_version = ", kSchemaVersion)
                  .c_str());
  if (!s.ok()) return s;
  for (const OldRun& old : runs) {
    const absl::StatusOr<std::string> record = PackRun(old.run);
    if (!record.ok()) return record.status();
    s = Write(kWriteRecord, old.run.job, Blob{*record}, old.order);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::ReadRuns() {
  absl::StatusOr<Statement> rows =
      Statement::Make(database_, "SELECT job, record, written FROM runs");
  if (!rows.ok()) return Trouble("read it");
  for (;;) {
    const absl::StatusOr<bool> row = rows->Step();
    if (!row.ok()) return Trouble("read it");
    if (!*row) return absl::OkStatus();
    absl::Status s = Take(rows->Text(0), rows->Text(1), rows->Number(2));
    if (!s.ok()) return Damaged(std::string(s.message()));
  }
}

absl::Status SqliteJournal::Transact(
    const std::function<absl::Status()>& write) {
  if (absl::Status s = Execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  absl::Cleanup roll_back = [this] {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  };
  absl::Status s = write();
  if (!s.ok()) return s;
  if (s = Execute("COMMIT"); !s.ok()) return s;
  std::move(roll_back).Cancel();
  return absl::OkStatus();
}

absl::Status SqliteJournal::Store(const Changes& changes) {
  return Transact([&]() -> absl::Status {
    for (const std::string& job : changes.removed) {
      absl::Status s = Write("DELETE FROM runs WHERE job = ?", job);
      if (!s.ok()) return s;
    }
    for (const auto& [job, record] : changes.written) {
      absl::Status s = Write(kWriteRecord, job, Blob{record}, changes.order);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<v1::TokenRecord>> SqliteJournal::LoadTokens() {
  absl::StatusOr<Statement> rows =
      Statement::Make(database_, "SELECT id, record FROM tokens");
  if (!rows.ok()) return rows.status();
  std::vector<v1::TokenRecord> records;
  for (;;) {
    const absl::StatusOr<bool> row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return records;
    v1::TokenRecord record;
    if (!record.ParseFromString(rows->Text(1)) ||
        record.status().id() != rows->Text(0)) {
      return Damaged("a token");
    }
    records.push_back(std::move(record));
  }
}

absl::Status SqliteJournal::SaveTokens(
    absl::Span<const v1::TokenRecord> written,
    absl::Span<const std::string> removed) {
  return Transact([&]() -> absl::Status {
    for (const std::string& id : removed) {
      absl::Status s = Write("DELETE FROM tokens WHERE id = ?", id);
      if (!s.ok()) return s;
    }
    for (const v1::TokenRecord& record : written) {
      const std::string bytes = record.SerializeAsString();
      absl::Status s =
          Write("INSERT OR REPLACE INTO tokens (id, record) VALUES (?, ?)",
                record.status().id(), Blob{bytes});
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  });
}

absl::Status SqliteJournal::DropTokens() {
  return Execute("DELETE FROM tokens");
}

template <typename... Values>
absl::Status SqliteJournal::Write(const char* sql, const Values&... values) {
  return Run(database_, sql, values...).ok() ? absl::OkStatus()
                                             : Trouble("write it");
}

absl::Status SqliteJournal::Execute(const char* sql) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return Trouble("write it");
}

absl::StatusOr<int64_t> SqliteJournal::Number(const char* sql) {
  absl::StatusOr<Statement> statement = Statement::Make(database_, sql);
  if (!statement.ok()) return Trouble("read it");
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return Trouble("read it");
  return *row ? statement->Number(0) : 0;
}

absl::Status SqliteJournal::Trouble(const char* doing) const {
  const int code = sqlite3_errcode(database_) & 0xFF;
  std::string said = sqlite3_errmsg(database_);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return Damaged(said);
  const int error = SystemError(database_, code);
  if (error != 0) {
    absl::StrAppend(&said, ": ", WriteErrorText(error, file_));
  }
  return absl::UnavailableError(
      absl::StrCat(file_, ": cannot ", doing, ": ", said,
                   "; check free space and permissions, or give another folder "
                   "with --state"));
}

absl::Status SqliteJournal::Damaged(const std::string& what) const {
  return absl::FailedPreconditionError(
      absl::StrCat(file_, " is damaged or not a journal (", what,
                   "); it was not changed: restore it from a copy, or move it "
                   "away and start again"));
}

}  // namespace rollcall
