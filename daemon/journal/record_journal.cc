#include "daemon/journal/record_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/journal/fold.h"
#include "daemon/journal/run_record.h"

namespace rollcall {

absl::Status RecordJournal::Take(const std::string& job,
                                 const std::string& record, int64_t order) {
  if (absl::Status fits = AdmitJobId(job); !fits.ok()) return fits;
  absl::StatusOr<JournaledRun> run = UnpackRun(job, record);
  if (!run.ok()) return run.status();
  kept_.insert_or_assign(job, Kept{*std::move(run), order});
  order_latest_ = std::max(order_latest_, order);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<JournaledRun>> RecordJournal::Load(
    std::string_view job) {
  const auto at = kept_.find(job);
  if (at == kept_.end()) return std::nullopt;
  return at->second.run;
}

absl::StatusOr<std::vector<JournaledRun>> RecordJournal::LoadAll() {
  std::vector<JournaledRun> all;
  for (const auto& [job, kept] : kept_) all.push_back(kept.run);
  return all;
}

absl::Status RecordJournal::Append(absl::Span<const JournalEntry> entries,
                                   absl::Time written_at) {
  if (entries.empty()) return absl::OkStatus();
  Runs changed;
  for (const JournalEntry& entry : entries) {
    if (absl::Status s = Apply(entry, written_at, changed); !s.ok()) return s;
  }
  Changes changes;
  changes.order = order_latest_ + 1;
  changes.removed = EndedBeyondBound(changed);
  for (const std::string& job : changes.removed) changed.erase(job);
  for (const auto& [job, run] : changed) {
    absl::StatusOr<std::string> record = PackRun(run);
    if (!record.ok()) return record.status();
    changes.written.emplace(job, *std::move(record));
  }
  if (absl::Status s = Store(changes); !s.ok()) return s;
  order_latest_ = changes.order;
  for (const std::string& job : changes.removed) kept_.erase(job);
  for (auto& [job, run] : changed) {
    kept_.insert_or_assign(job, Kept{std::move(run), order_latest_});
  }
  return absl::OkStatus();
}

absl::Status RecordJournal::Apply(const JournalEntry& entry,
                                  absl::Time written_at, Runs& changed) const {
  auto at = changed.find(entry.job);
  if (entry.action.kind == Journal::Kind::kRunStarted) {
    JournaledRun fresh;
    fresh.job = entry.job;
    fresh.state.run = entry.run;
    at = changed.insert_or_assign(entry.job, std::move(fresh)).first;
  } else if (at == changed.end()) {
    const auto kept = kept_.find(entry.job);
    if (kept != kept_.end()) {
      at = changed.emplace(entry.job, kept->second.run).first;
    }
  }
  if (at == changed.end() || at->second.state.run != entry.run) {
    return absl::FailedPreconditionError(
        absl::StrCat(store_, " has no run ", entry.run, " of job ", entry.job,
                     "; another run has taken its place, or it was removed"));
  }
  at->second.written_at = written_at;
  return Fold(entry.action, at->second.state);
}

std::vector<std::string> RecordJournal::EndedBeyondBound(
    const Runs& changed) const {
  std::vector<std::pair<int64_t, std::string>> ended;
  for (const auto& [job, kept] : kept_) {
    if (kept.run.state.end.has_value() && !changed.contains(job)) {
      ended.emplace_back(kept.order, job);
    }
  }
  for (const auto& [job, run] : changed) {
    if (run.state.end.has_value()) ended.emplace_back(order_latest_ + 1, job);
  }
  std::vector<std::string> jobs;
  if (ended.size() <= kEndedRunsKept) return jobs;
  std::sort(ended.begin(), ended.end());
  ended.resize(ended.size() - kEndedRunsKept);
  for (auto& [order, job] : ended) jobs.push_back(std::move(job));
  return jobs;
}

}  // namespace rollcall
