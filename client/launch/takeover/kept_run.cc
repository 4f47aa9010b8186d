#include "client/launch/takeover/kept_run.h"

#include <utility>

#include "daemon/journal/sqlite_journal.h"

namespace rollcall {

absl::StatusOr<std::optional<KeptRun>> ReadKeptRun(const std::string& folder,
                                                   const std::string& job) {
  auto held = StateFolder::Open(folder);
  if (!held.ok()) return held.status();
  auto journal = SqliteJournal::Open(*std::move(held));
  if (!journal.ok()) return journal.status();
  auto run = (*journal)->Load(job);
  if (!run.ok()) return run.status();
  if (!run->has_value()) return std::optional<KeptRun>();
  JournalState& state = (*run)->state;
  return std::optional<KeptRun>(
      KeptRun{std::move(state.run), std::move(state.end)});
}

}  // namespace rollcall
