#include "daemon/server/loop/acts/commit.h"

#include <map>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/loop/acts/job_steps.h"
#include "daemon/server/loop/acts/shutdown.h"

namespace rollcall {
namespace {

void CarryOut(LoopState& loop, const std::string&, const Send& send) {
  if (loop.options.observer != nullptr)
    loop.options.observer->Sends(send.message);
  loop.sessions.Send(send);
}

void CarryOut(LoopState& loop, const std::string&, const CloseStream& close) {
  Session* const session = loop.sessions.FindOpen(close.session);
  if (session == nullptr) return;
  // Repeated attempts are answered with growing delays.
  if (close.refusal.code() == v1::REFUSAL_CODE_NAME_TAKEN) {
    const absl::Duration wait =
        loop.access.NameTaken(session->address, loop.Now());
    return loop.Later(wait, [&loop, close] {
      Session* const again = loop.sessions.Find(close.session);
      if (again != nullptr) {
        loop.sessions.Close(*again, close.code, close.refusal);
      }
    });
  }
  loop.sessions.Close(*session, close.code, close.refusal);
}

void CarryOut(LoopState& loop, const std::string& job, const Log& log) {
  const bool written = log.address.empty() ||
                       loop.log_quota.Take(log.node, NetworkOf(log.address),
                                           log.address, loop.Now());
  if (!written) return;
  loop.logger.Write(log.level, log.text);
  if (loop.options.events == nullptr) return;
  const LiveJob* const live = loop.jobs.Find(job);
  loop.options.events->Add(job, live == nullptr ? "" : live->job.run(),
                           log.level, log.text, loop.WallNow());
}

// The End was sent on all streams of the job. Streams that are still open after
// one lease are closed.
void CarryOut(LoopState& loop, const std::string& job, const Forget&) {
  const absl::Time now = loop.Now();
  loop.jobs.Forget(job, now);
  if (loop.options.events != nullptr) loop.options.events->Forget(job);
  loop.sessions.ForEachOf(job, [&](Session& session) {
    loop.sessions.SetExpiry(session, now + loop.options.limits.lease);
  });
  if (job != loop.options.only_job) return;
  loop.outcome.Ended(loop.jobs.FindEnded(job)->end);
  loop.outcome.Done();
}

void CarryOut(LoopState&, const std::string&, const Batch::Answer& answer) {
  answer(absl::OkStatus());
}

// Records the result of an append.
void NoteJournal(LoopState& loop, const absl::Status& written) {
  if (written.ok() == loop.journal_works) return;
  loop.journal_works = written.ok();
  if (loop.options.journal_changed) loop.options.journal_changed(written);
}

// Called when the batch could not be appended. Appends each job's part
// separately, because the cause may be a single job. Jobs whose part cannot be
// written are set back.
void AppendByJob(LoopState& loop, const Batch::Entries& entries,
                 absl::Status why) {
  std::map<std::string, Batch::Entries> parts;
  for (const JournalEntry& entry : entries) parts[entry.job].push_back(entry);
  std::map<std::string, absl::Status> failed;
  for (const auto& [job, part] : parts) {
    // An unreachable journal fails for all jobs, and each try may take the
    // whole timeout, so it is not tried again.
    if (parts.size() > 1 && !absl::IsUnavailable(why)) {
      const absl::Status written = loop.journal->Append(part, loop.WallNow());
      if (written.ok()) continue;
      why = written;
    }
    failed.emplace(job, why);
  }
  SetBackJobs(loop, failed);
}

}  // namespace

void Commit(LoopState& loop) {
  if (loop.quit) return;
  const Batch::Entries entries = loop.batch.TakeEntries();
  if (loop.journal != nullptr && !entries.empty()) {
    const absl::Status written = loop.journal->Append(entries, loop.WallNow());
    NoteJournal(loop, written);
    if (!written.ok() && loop.Leads()) AppendByJob(loop, entries, written);
  }
  // If the tokens cannot be saved, jobs continue; at worst a use of a token is
  // not counted after a restart. Callers that create or revoke a token get the
  // error.
  loop.access.ReplaceTokens(loop.WallNow());
  const absl::Status saved = loop.access.Commit(loop.WallNow());
  if (!saved.ok() && loop.tokens_saved.ok()) {
    loop.logger.Write(Log::Level::kError,
                      absl::StrCat("event=tokens_not_saved reason=",
                                   Quoted(std::string(saved.message()))));
  }
  loop.tokens_saved = saved;
  if (!loop.Leads()) return StandDown(loop);
  if (loop.options.observer != nullptr) loop.options.observer->Durable();
  for (const Batch::Effect& effect : loop.batch.TakeEffects()) {
    std::visit([&](const auto& what) { CarryOut(loop, effect.job, what); },
               effect.what);
  }
}

}  // namespace rollcall
