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
#include "daemon/base/write_error.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/statement.h"

namespace rollcall {
namespace {

constexpr char kFile[] = "journal.db";
// "rcjl": tells `file` and this program that the database is rollcall's.
constexpr int64_t kApplicationId = 0x72636A6C;
// Version 1 had no tokens, 2 no nodes that leave, 3 no node epochs, 4 no
// finished nodes, 5 not the world that ran last.
constexpr int64_t kSchemaVersion = 6;

constexpr char kSchema[] = R"sql(
CREATE TABLE runs (
  job TEXT PRIMARY KEY,
  run TEXT NOT NULL,
  settings BLOB NOT NULL,
  generation INTEGER NOT NULL,
  proposal BLOB,
  seal BLOB,
  run_end BLOB,
  charged INTEGER NOT NULL,
  written_us INTEGER NOT NULL,
  leaving BLOB,
  epoch_floor INTEGER NOT NULL DEFAULT 0,
  finished BLOB,
  ran_proposal BLOB,
  ran_seal BLOB,
  ran_finished BLOB
) WITHOUT ROWID;
CREATE TABLE headers (
  id INTEGER PRIMARY KEY,
  job TEXT NOT NULL,
  run TEXT NOT NULL,
  kind INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  code INTEGER NOT NULL,
  written_us INTEGER NOT NULL
);
CREATE INDEX headers_by_job ON headers (job, id);
)sql";

constexpr char kTokens[] = R"sql(
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY,
  record BLOB NOT NULL
) WITHOUT ROWID;
)sql";

constexpr char kNodes[] = R"sql(
CREATE TABLE IF NOT EXISTS nodes (
  job TEXT NOT NULL,
  node TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  token_id TEXT NOT NULL,
  PRIMARY KEY (job, node)
) WITHOUT ROWID;
)sql";

constexpr char kDeleteNodes[] = "DELETE FROM nodes WHERE job = ?";

constexpr char kColumns[] =
    "SELECT job, run, settings, generation, proposal, seal, run_end, charged, "
    "written_us, leaving, epoch_floor, finished, ran_proposal, ran_seal, "
    "ran_finished FROM runs";

// The reason code of an entry that ends something; else unspecified.
v1::ReasonCode CodeOf(const Journal& action) {
  if (action.kind == Journal::Kind::kEnded) {
    v1::Reform reform;
    if (reform.ParseFromString(action.body)) return reform.code();
  } else if (action.kind == Journal::Kind::kRunEnded) {
    v1::End end;
    if (end.ParseFromString(action.body)) return end.code();
  }
  return v1::REASON_CODE_UNSPECIFIED;
}

// The restarts charged, in an entry that ends a generation.
int64_t ChargedOf(const Journal& action) {
  v1::Reform reform;
  reform.ParseFromString(action.body);
  return int64_t{reform.restarts_charged()};
}

// Created here and not by SQLite, so that other users can never read its
// secrets, not even for a moment. Its write-ahead log gets the same mode.
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
// in the folder is synced. Without this, a power loss could undo the first
// commit.
void SyncFileAndFolder(const std::string& file, const std::string& folder) {
  for (const std::string& path : {file, folder}) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fsync(fd);
    close(fd);
  }
}

// The errno of a result code; 0: unknown.
int SystemError(sqlite3* database, int code) {
  if (code == SQLITE_FULL) return ENOSPC;  // SQLite stores no errno for it.
  int error = sqlite3_system_errno(database);
  if (code != SQLITE_IOERR || error != 0) return error;
  // The errno of a failed commit is stored in the log file that it writes to.
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

template <typename Message>
bool Parse(const std::optional<std::string>& bytes,
           std::optional<Message>& message) {
  if (!bytes.has_value()) return true;
  return message.emplace().ParseFromString(*bytes);
}

}  // namespace

SqliteJournal::SqliteJournal(StateFolder folder)
    : folder_(std::move(folder)), file_(folder_.File(kFile)) {}

SqliteJournal::~SqliteJournal() { sqlite3_close(database_); }

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(
    StateFolder folder) {
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(std::move(folder)));
  absl::Status made = MakeFile(journal->folder_, kFile);
  if (!made.ok()) return made;
  if (absl::Status status = journal->Prepare(); !status.ok()) return status;
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
  if (empty) return MakeSchema();
  const absl::StatusOr<int64_t> version = Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  return Migrate(*version);
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

absl::Status SqliteJournal::MakeSchema() {
  return Execute(absl::StrCat("BEGIN IMMEDIATE;", kSchema, kTokens, kNodes,
                              "PRAGMA application_id = ", kApplicationId,
                              "; PRAGMA user_version = ", kSchemaVersion,
                              "; COMMIT;")
                     .c_str());
}

absl::Status SqliteJournal::Migrate(int64_t from) {
  if (from == kSchemaVersion) return absl::OkStatus();
  const char* leaving = from < 3 ? "ALTER TABLE runs ADD leaving BLOB;" : "";
  const char* epochs = from < 4 ? "ALTER TABLE runs ADD epoch_floor INTEGER "
                                  "NOT NULL DEFAULT 0;"
                                : "";
  const char* finished = from < 5 ? "ALTER TABLE runs ADD finished BLOB;" : "";
  return Execute(absl::StrCat("BEGIN IMMEDIATE;", kTokens, kNodes, leaving,
                              epochs, finished,
                              "ALTER TABLE runs ADD ran_proposal BLOB;"
                              "ALTER TABLE runs ADD ran_seal BLOB;"
                              "ALTER TABLE runs ADD ran_finished BLOB;",
                              "PRAGMA user_version = ", kSchemaVersion,
                              "; COMMIT;")
                     .c_str());
}

absl::Status SqliteJournal::Append(absl::Span<const JournalEntry> entries,
                                   absl::Time written_at) {
  if (entries.empty()) return absl::OkStatus();
  if (absl::Status s = Execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  absl::Cleanup roll_back = [this] {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  };
  for (const JournalEntry& entry : entries) {
    absl::Status s = Write(entry, written_at);
    // SQLite's own message does not name the file.
    if (absl::IsUnavailable(s)) return Trouble("write it");
    if (!s.ok()) return s;
  }
  if (absl::Status s = Execute("COMMIT"); !s.ok()) return s;
  std::move(roll_back).Cancel();
  return absl::OkStatus();
}

absl::Status SqliteJournal::Write(const JournalEntry& entry,
                                  absl::Time written_at) {
  const int64_t written_us = absl::ToUnixMicros(written_at);
  if (absl::Status s = WriteState(entry, written_us); !s.ok()) return s;
  const Journal& action = entry.action;
  // One per node: too many for the list of headers, and of no interest there.
  if (action.kind == Journal::Kind::kNodeEpochs) return absl::OkStatus();
  absl::Status s = Run(database_,
                       "INSERT INTO headers (job, run, kind, generation, code, "
                       "written_us) VALUES (?, ?, ?, ?, ?, ?)",
                       entry.job, entry.run, static_cast<int64_t>(action.kind),
                       static_cast<int64_t>(action.generation),
                       static_cast<int64_t>(CodeOf(action)), written_us);
  if (!s.ok()) return s;
  s = Run(database_,
          "DELETE FROM headers WHERE job = ?1 AND id <= (SELECT id FROM "
          "headers WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
          entry.job, int64_t{kHeadersKept});
  if (!s.ok() || action.kind != Journal::Kind::kRunEnded) return s;
  return TrimEnded();
}

absl::Status SqliteJournal::WriteState(const JournalEntry& entry,
                                       int64_t written_us) {
  const Journal& action = entry.action;
  const Blob body{action.body};
  const int64_t generation = static_cast<int64_t>(action.generation);
  v1::NodeEpochs epochs;
  absl::Status s;
  switch (action.kind) {
    case Journal::Kind::kRunStarted:
      s = Run(database_,
              "INSERT OR REPLACE INTO runs (job, run, settings, generation, "
              "charged, written_us) VALUES (?, ?, ?, 0, 0, ?)",
              entry.job, entry.run, body, written_us);
      break;
    case Journal::Kind::kProposed:
      s = Run(database_,
              "UPDATE runs SET generation = max(generation, ?3), proposal = "
              "?4, seal = NULL, finished = NULL, written_us = ?5 WHERE job = "
              "?1 AND run = ?2",
              entry.job, entry.run, generation, body, written_us);
      break;
    case Journal::Kind::kCommitted:
      s = Run(database_,
              "UPDATE runs SET seal = ?4, ran_proposal = NULL, ran_seal = "
              "NULL, ran_finished = NULL, written_us = ?5 WHERE job = ?1 AND "
              "run = ?2 AND generation = ?3",
              entry.job, entry.run, generation, body, written_us);
      break;
    case Journal::Kind::kEnded:
      s = Run(database_,
              "UPDATE runs SET "
              "ran_proposal = iif(seal IS NULL, ran_proposal, proposal), "
              "ran_finished = iif(seal IS NULL, ran_finished, finished), "
              "ran_seal = ifnull(seal, ran_seal), "
              "proposal = NULL, seal = NULL, finished = NULL, "
              "charged = ?3, written_us = ?4 WHERE job = ?1 AND run = ?2",
              entry.job, entry.run, ChargedOf(action), written_us);
      break;
    case Journal::Kind::kRunEnded:
      s = Run(database_,
              "UPDATE runs SET proposal = NULL, seal = NULL, finished = NULL, "
              "leaving = NULL, ran_proposal = NULL, ran_seal = NULL, "
              "ran_finished = NULL, run_end = ?3, written_us = ?4 WHERE job = "
              "?1 AND run = ?2",
              entry.job, entry.run, body, written_us);
      break;
    case Journal::Kind::kLeaving:
      s = Run(database_,
              "UPDATE runs SET leaving = ?3, written_us = ?4 WHERE job = ?1 "
              "AND run = ?2",
              entry.job, entry.run, body, written_us);
      break;
    case Journal::Kind::kFinished:
      s = Run(database_,
              "UPDATE runs SET finished = ?3, written_us = ?4 WHERE job = ?1 "
              "AND run = ?2",
              entry.job, entry.run, body, written_us);
      break;
    case Journal::Kind::kFenceOpen:
      s = Run(database_,
              "UPDATE runs SET ran_proposal = NULL, ran_seal = NULL, "
              "ran_finished = NULL, written_us = ?3 WHERE job = ?1 AND run = "
              "?2",
              entry.job, entry.run, written_us);
      break;
    case Journal::Kind::kNodeEpochs:
      if (!epochs.ParseFromString(action.body)) {
        return absl::InternalError("an entry of node epochs cannot be parsed");
      }
      s = Run(database_,
              "UPDATE runs SET epoch_floor = ?3, written_us = ?4 WHERE job = "
              "?1 AND run = ?2",
              entry.job, entry.run, static_cast<int64_t>(epochs.floor()),
              written_us);
      break;
  }
  if (!s.ok()) return s;
  if (sqlite3_changes(database_) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_, ": run ", entry.run, " of job ", entry.job,
        " is not in it; another run has taken its place, or the file was "
        "replaced while the daemon ran"));
  }
  if (action.kind == Journal::Kind::kNodeEpochs) {
    return WriteNodes(entry.job, epochs);
  }
  if (action.kind == Journal::Kind::kRunStarted) {
    return Run(database_, kDeleteNodes, entry.job);
  }
  return absl::OkStatus();
}

// By the order in which they ended, not by time: the clock may have been set
// back since.
absl::Status SqliteJournal::TrimEnded() {
  absl::Status s = Run(
      database_,
      "DELETE FROM runs WHERE run_end IS NOT NULL AND job NOT IN (SELECT "
      "job FROM runs WHERE run_end IS NOT NULL ORDER BY (SELECT MAX(id) FROM "
      "headers WHERE headers.job = runs.job) DESC LIMIT ?)",
      int64_t{kEndedRunsKept});
  if (!s.ok()) return s;
  s = Run(database_,
          "DELETE FROM nodes WHERE job NOT IN (SELECT job FROM runs)");
  if (!s.ok()) return s;
  return Run(database_,
             "DELETE FROM headers WHERE job NOT IN (SELECT job FROM runs)");
}

absl::Status SqliteJournal::WriteNodes(const std::string& job,
                                       const v1::NodeEpochs& epochs) {
  if (epochs.whole()) {
    absl::Status s = Run(database_, kDeleteNodes, job);
    if (!s.ok()) return s;
  }
  for (const v1::NodeEpoch& row : epochs.nodes()) {
    absl::Status s =
        Run(database_,
            "INSERT OR REPLACE INTO nodes (job, node, epoch, "
            "token_id) VALUES (?, ?, ?, ?)",
            job, row.node(), static_cast<int64_t>(row.epoch()), row.token_id());
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::ReadNodes(JournaledRun& run, uint64_t floor) {
  absl::StatusOr<Statement> rows = Statement::Make(
      database_, "SELECT node, epoch, token_id FROM nodes WHERE job = ?");
  if (!rows.ok()) return rows.status();
  if (absl::Status s = rows->Bind(run.job); !s.ok()) return s;
  v1::NodeEpochs epochs;
  epochs.set_floor(floor);
  epochs.set_whole(true);
  for (;;) {
    const absl::StatusOr<bool> row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    v1::NodeEpoch& node = *epochs.add_nodes();
    node.set_node(rows->Text(0));
    node.set_epoch(static_cast<uint64_t>(rows->Number(1)));
    node.set_token_id(rows->Text(2));
  }
  run.state.node_epochs.Apply(epochs);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<JournaledRun>> SqliteJournal::Load(
    std::string_view job) {
  absl::StatusOr<std::vector<JournaledRun>> runs =
      Read(absl::StrCat(kColumns, " WHERE job = ?1").c_str(), job);
  if (!runs.ok()) return runs.status();
  if (runs->empty()) return std::nullopt;
  return std::move(runs->front());
}

absl::StatusOr<std::vector<JournaledRun>> SqliteJournal::LoadAll() {
  return Read(absl::StrCat(kColumns, " WHERE ?1 = '' ORDER BY job").c_str(),
              "");
}

absl::StatusOr<std::vector<JournaledRun>> SqliteJournal::Read(
    const char* sql, std::string_view job) {
  absl::StatusOr<Statement> rows = Statement::Make(database_, sql);
  if (!rows.ok()) return rows.status();
  if (absl::Status s = rows->Bind(std::string(job)); !s.ok()) return s;
  std::vector<JournaledRun> runs;
  for (;;) {
    const absl::StatusOr<bool> row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return runs;
    JournaledRun run;
    run.job = rows->Text(0);
    run.state.run = rows->Text(1);
    run.state.generation = static_cast<uint64_t>(rows->Number(3));
    run.state.restarts_charged = static_cast<uint32_t>(rows->Number(7));
    run.written_at = absl::FromUnixMicros(rows->Number(8));
    if (!run.state.settings.ParseFromString(rows->Text(2)) ||
        !Parse(rows->Bytes(4), run.state.proposal) ||
        !Parse(rows->Bytes(5), run.state.seal) ||
        !Parse(rows->Bytes(6), run.state.end) ||
        !Parse(rows->Bytes(9), run.state.leaving) ||
        !Parse(rows->Bytes(11), run.state.finished) ||
        !Parse(rows->Bytes(12), run.state.ran_proposal) ||
        !Parse(rows->Bytes(13), run.state.ran_seal) ||
        !Parse(rows->Bytes(14), run.state.ran_finished)) {
      return Damaged(absl::StrCat("the run of job ", run.job));
    }
    const auto floor = static_cast<uint64_t>(rows->Number(10));
    if (absl::Status s = ReadNodes(run, floor); !s.ok()) return s;
    runs.push_back(std::move(run));
  }
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
  if (absl::Status s = Execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  absl::Cleanup roll_back = [this] {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  };
  for (const std::string& id : removed) {
    absl::Status s = Run(database_, "DELETE FROM tokens WHERE id = ?", id);
    if (!s.ok()) return s;
  }
  for (const v1::TokenRecord& record : written) {
    const std::string bytes = record.SerializeAsString();
    absl::Status s = Run(
        database_, "INSERT OR REPLACE INTO tokens (id, record) VALUES (?, ?)",
        record.status().id(), Blob{bytes});
    if (!s.ok()) return s;
  }
  if (absl::Status s = Execute("COMMIT"); !s.ok()) return s;
  std::move(roll_back).Cancel();
  return absl::OkStatus();
}

absl::Status SqliteJournal::DropTokens() {
  return Execute("DELETE FROM tokens");
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
