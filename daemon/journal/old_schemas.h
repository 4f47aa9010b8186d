// Old schemas: reads the runs of a journal.db that an older rollcall wrote.
//
// Up to schema 6, a run was a row of the table `runs` with a column per field.
// The run's node epochs were rows of `nodes`, and `headers` had one row per
// entry.
//
// Thread rule: that of the database.
#ifndef ROLLCALL_DAEMON_JOURNAL_OLD_SCHEMAS_H_
#define ROLLCALL_DAEMON_JOURNAL_OLD_SCHEMAS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/journal/journal.h"

struct sqlite3;

namespace rollcall {

// The newest schema with a column per field.
constexpr int64_t kSchemaOfColumns = 6;

struct OldRun {
  JournaledRun run;
  // The number of the run's last entry.
  int64_t order = 0;
};

// Returns the runs, and drops the tables that the current schema does not have
// or has in another form. The caller has begun a transaction. `schema`: 1 to
// kSchemaOfColumns. FAILED_PRECONDITION: a run cannot be read; the message says
// which. UNAVAILABLE: an error of SQLite.
absl::StatusOr<std::vector<OldRun>> TakeOldRuns(sqlite3* database,
                                                int64_t schema);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_OLD_SCHEMAS_H_
