#include "daemon/journal/old_schemas.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/journal/statement.h"

namespace rollcall {
namespace {

template <typename Message>
bool Parse(const std::optional<std::string>& bytes,
           std::optional<Message>& message) {
  return !bytes.has_value() || message.emplace().ParseFromString(*bytes);
}

// A column that schema `since` added; in an older schema its value is NULL.
std::string Column(const char* name, int64_t since, int64_t schema) {
  return absl::StrCat(", ", schema < since ? "NULL" : name);
}

absl::Status ReadEpochs(sqlite3* database, JournaledRun& run) {
  absl::StatusOr<Statement> rows = Statement::Make(
      database, "SELECT node, epoch, token_id FROM nodes WHERE job = ?");
  if (!rows.ok()) return rows.status();
  if (absl::Status s = rows->Bind(run.job); !s.ok()) return s;
  v1::NodeEpochs epochs;
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

absl::StatusOr<std::vector<OldRun>> ReadRuns(sqlite3* database,
                                             int64_t schema) {
  const std::string sql = absl::StrCat(
      "SELECT job, run, settings, generation, proposal, seal, run_end, "
      "charged, written_us, (SELECT max(id) FROM headers WHERE headers.job = "
      "runs.job)",
      Column("leaving", 3, schema), Column("epoch_floor", 4, schema),
      Column("finished", 5, schema), Column("ran_proposal", 6, schema),
      Column("ran_seal", 6, schema), Column("ran_finished", 6, schema),
      " FROM runs");
  absl::StatusOr<Statement> rows = Statement::Make(database, sql.c_str());
  if (!rows.ok()) return rows.status();
  std::vector<OldRun> runs;
  for (;;) {
    const absl::StatusOr<bool> row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return runs;
    OldRun& old = runs.emplace_back();
    old.order = rows->Number(9);
    JournaledRun& run = old.run;
    run.job = rows->Text(0);
    run.written_at = absl::FromUnixMicros(rows->Number(8));
    JournalState& state = run.state;
    state.run = rows->Text(1);
    state.generation = static_cast<uint64_t>(rows->Number(3));
    state.restarts_charged = static_cast<uint32_t>(rows->Number(7));
    if (!state.settings.ParseFromString(rows->Text(2)) ||
        !Parse(rows->Bytes(4), state.proposal) ||
        !Parse(rows->Bytes(5), state.world_commit) ||
        !Parse(rows->Bytes(6), state.end) ||
        !Parse(rows->Bytes(10), state.leaving) ||
        !Parse(rows->Bytes(12), state.finished) ||
        !Parse(rows->Bytes(13), state.ran_proposal) ||
        !Parse(rows->Bytes(14), state.ran_world_commit) ||
        !Parse(rows->Bytes(15), state.ran_finished)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the run of job ", run.job));
    }
    v1::NodeEpochs epochs;
    epochs.set_floor(static_cast<uint64_t>(rows->Number(11)));
    state.node_epochs.Apply(epochs);
  }
}

}  // namespace

absl::StatusOr<std::vector<OldRun>> TakeOldRuns(sqlite3* database,
                                                int64_t schema) {
  absl::StatusOr<std::vector<OldRun>> runs = ReadRuns(database, schema);
  if (!runs.ok()) return runs;
  for (OldRun& old : *runs) {
    if (schema < 4) break;
    if (absl::Status s = ReadEpochs(database, old.run); !s.ok()) return s;
  }
  for (const char* sql : {"DROP TABLE runs", "DROP TABLE headers",
                          "DROP TABLE IF EXISTS nodes"}) {
    if (absl::Status s = Run(database, sql); !s.ok()) return s;
  }
  return runs;
}

}  // namespace rollcall
