#include "daemon/server/loop/loop.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

// The shortest time between two Ticks, so that a job whose deadline stays in
// the past does not make the loop spin.
constexpr absl::Duration kTickMin = absl::Milliseconds(10);
// A job that was set back is read again when an agent comes back, or after this
// time.
constexpr absl::Duration kTakeBackPause = absl::Seconds(2);

absl::Status GoingDown() {
  return absl::UnavailableError("the daemon is shutting down; dial again");
}

}  // namespace

Loop::Loop(Options options, JournalStore* journal, Logger& logger)
    : options_(std::move(options)),
      journal_(journal),
      logger_(logger),
      inbox_(Limits::inbox_events_max, *options_.machine),
      access_({options_.credential_key, options_.proof_key}, options_.tokens,
              options_.keep_token, journal, logger, *options_.machine),
      log_quota_(options_.limits.log),
      jobs_(options_.limits, options_.only_job, options_.only_settings,
            {options_.credential_key, options_.proof_key}, journal, logger,
            *options_.machine, options_.random),
      watches_(
          jobs_, options_.limits.watcher_patience,
          [this](v1::JobStatus status) {
            return WithCounters(std::move(status));
          },
          [this] { return FailedConnections(); }),
      snapshots_([this](const std::string& job, bool pings) {
        return FullStatus(job, pings);
      }),
      sessions_(options_.limits, logger) {}

Loop::~Loop() { Stop(); }

void Loop::Stop(absl::Status why) {
  if (why.ok()) why = GoingDown();
  if (thread_ != nullptr) {
    inbox_.PostAlways(Quit{why});
    thread_->Join();
    thread_.reset();
  }
  // If the loop never ran, its inputs are still here.
  for (LoopInput& late : inbox_.Close()) Decline(late, why);
}

absl::Status Loop::Start() {
  const absl::Time now = Now();
  if (options_.resume) {
    if (absl::Status taken = jobs_.Restore(now); !taken.ok()) return taken;
  }
  if (absl::Status s = access_.Start(options_.resume); !s.ok()) return s;
  if (options_.events != nullptr) options_.events->Begin();
  if (options_.observer != nullptr) {
    options_.observer->Begins(journal_, options_.leads);
  }
  for (auto& [name, live] : jobs_.live()) StartTakenUp(live, now);
  TakeUpOnlyJob(now);
  // The first entries are written before any agent is admitted, so that Start
  // fails if the journal cannot be written.
  if (journal_ != nullptr) {
    absl::Status written = journal_->Append(batch_.entries(), WallNow());
    if (!written.ok()) return written;
  }
  batch_.TakeEntries();
  thread_ = options_.machine->Start([this] { Run(); });
  return absl::OkStatus();
}

std::optional<v1::End> Loop::Wait() {
  MutexLock lock(mutex_);
  while (!done_) ended_.Wait(mutex_);
  return end_;
}

void Loop::Run() {
  Commit();
  while (!quit_) {
    const absl::Time wake = NextWake(Now());
    TakeAll(wake - Now());
    if (Now() - wake > Limits::late_min) TakeAll(absl::ZeroDuration());
    Tick(Now());
    sessions_.Expire(Now());
    delayed_.Run(Now());
    TakeBackJobs(Now());
    Beat(Now());
    TellSuppressed(Now());
    if (Now() >= over_at_) {
      over_at_ = absl::InfiniteFuture();
      MutexLock lock(mutex_);
      done_ = true;
      ended_.NotifyAll();
    }
    Commit();
    if (!quit_) watches_.Publish(Now());
  }
  MutexLock lock(mutex_);
  done_ = true;
  ended_.NotifyAll();
}

void Loop::TakeAll(absl::Duration timeout) {
  std::vector<LoopInput> inputs = inbox_.Take(timeout);
  // Another daemon may have become leader while this one was stopped, so even
  // an answer to a query could be wrong.
  if (!Leads()) StandDown();
  for (LoopInput& input : inputs) {
    Beat(Now());
    if (quit_) {
      Decline(input, Leads() ? GoingDown() : NotLeader({}));
    } else {
      std::visit([this](auto& one) { On(one); }, input);
      // A small message may cause a large answer, and many such messages may
      // have come at once.
      if (batch_.bytes() > Limits::batch_bytes_max) Commit();
    }
  }
}

void Loop::Beat(absl::Time now) {
  if (now < beat_at_ || !options_.beat) return;
  beat_at_ = now + kBeatEvery;
  options_.beat();
}

absl::Time Loop::NextWake(absl::Time now) {
  absl::Time wake =
      std::min({watches_.NextDue(), over_at_, log_quota_.NextDue(),
                take_back_at_, sessions_.NextExpiry(), delayed_.NextDue()});
  for (auto& [name, live] : jobs_.live()) {
    live.due = live.job.NextDeadline();
    if (live.due <= now) live.due = now + kTickMin;
    wake = std::min(wake, live.due);
  }
  if (options_.beat) wake = std::min(wake, beat_at_);
  return std::min(wake, now + access_.TokensDueIn(WallNow()));
}

void Loop::On(WatchGone& gone) { watches_.Remove(gone.id); }

void Loop::On(Quit& quit) {
  Commit();
  // A lingering job has ended, even if not all agents have received its End.
  const LiveJob* only = jobs_.Find(options_.only_job);
  if (only != nullptr && only->job.end().has_value() && Leads()) {
    MutexLock lock(mutex_);
    end_ = only->job.end();
  }
  EndAll(quit.why);
}

void Loop::StandDown() {
  if (quit_) return;
  const absl::Status status = NotLeader({});
  batch_.DropAll(status);
  EndAll(status);
}

void Loop::EndAll(const absl::Status& status) {
  if (quit_) return;
  quit_ = true;
  TellSuppressed(absl::InfiniteFuture());
  // The latest changes are still published, but only if this daemon leads.
  if (Leads()) watches_.Publish(absl::InfiniteFuture());
  watches_.EndAll(status);
  sessions_.ForEach([&](Session& session) {
    // An agent that knows of the job's end does not need to redial.
    const LiveJob* live = jobs_.Find(session.job);
    const bool over =
        live == nullptr ? session.greeted : live->job.end().has_value();
    sessions_.Close(session, over && Leads() ? absl::OkStatus() : status);
  });
  delayed_.Run(absl::InfiniteFuture());
  for (LoopInput& late : inbox_.Close()) Decline(late, status);
}

void Decline(LoopInput& input, const absl::Status& status) {
  if (StreamOpened* opened = std::get_if<StreamOpened>(&input)) {
    opened->stream->Close(status.code(), RefusalOf(status));
  } else if (WatchOpened* watch = std::get_if<WatchOpened>(&input)) {
    watch->watcher->End(status);
  } else {
    std::visit(
        [&status](auto& call) {
          if constexpr (requires { call.reply; }) call.reply(status);
        },
        input);
  }
}

// --- Jobs --------------------------------------------------------------------

void Loop::Tick(absl::Time now) {
  if (quit_) return;
  for (auto& [name, live] : jobs_.live()) {
    if (live.due > now) continue;
    const absl::Duration late = now - live.due;
    if (late > Limits::late_min) {
      logger_.Write(Log::Level::kWarning,
                    absl::StrCat("job=", name, " event=late by=",
                                 absl::FormatDuration(late)));
    }
    Step(live, rollcall::Tick{late});
  }
}

void Loop::Step(LiveJob& live, const Event& event) {
  LoopObserver* const observer = options_.observer;
  const absl::Time now = Now();
  if (observer != nullptr) observer->BeforeStep(live.job, event, now);
  std::vector<Action> actions = live.job.Step(event, now);
  if (observer != nullptr) observer->AfterStep(live.job, event, now, actions);
  const Job& job = live.job;
  if (live.history.IsNew(job.state(), job.generation())) {
    live.history.Note(job.state(), job.generation(), job.last_reform(), now,
                      WallNow());
  }
  Collect(live.job, std::move(actions));
}

std::vector<Action> Loop::StartJob(LiveJob& live) {
  if (options_.events != nullptr) {
    live.job.UseLastStep(options_.events->LastStepOf(live.job.name()));
  }
  return live.job.Start();
}

void Loop::StartTakenUp(LiveJob& live, absl::Time now) {
  std::vector<Action> actions = StartJob(live);
  if (options_.observer != nullptr) {
    options_.observer->TookUp(live.job, actions, now);
  }
  Collect(live.job, std::move(actions));
}

void Loop::Collect(const Job& job, std::vector<Action> actions) {
  batch_.Add(job.name(), job.run(), std::move(actions));
}

// --- The end of a batch ------------------------------------------------------

void Loop::Commit() {
  if (quit_) return;
  const Batch::Entries entries = batch_.TakeEntries();
  if (journal_ != nullptr && !entries.empty()) {
    const absl::Status written = journal_->Append(entries, WallNow());
    NoteJournal(written);
    if (!written.ok() && Leads()) AppendByJob(entries, written);
  }
  // If the tokens cannot be saved, jobs continue; at worst a use of a token is
  // not counted after a restart. Callers that create or revoke a token get the
  // error.
  access_.ReplaceTokens(WallNow());
  const absl::Status saved = access_.Commit(WallNow());
  if (!saved.ok() && tokens_saved_.ok()) {
    logger_.Write(Log::Level::kError,
                  absl::StrCat("event=tokens_not_saved reason=",
                               Quoted(std::string(saved.message()))));
  }
  tokens_saved_ = saved;
  if (!Leads()) return StandDown();
  if (options_.observer != nullptr) options_.observer->Durable();
  for (const Batch::Effect& effect : batch_.TakeEffects()) {
    std::visit([&](const auto& what) { CarryOut(effect.job, what); },
               effect.what);
  }
}

void Loop::NoteJournal(const absl::Status& written) {
  if (written.ok() == journal_works_) return;
  journal_works_ = written.ok();
  if (options_.journal_changed) options_.journal_changed(written);
}

void Loop::AppendByJob(const Batch::Entries& entries, absl::Status why) {
  std::map<std::string, Batch::Entries> parts;
  for (const JournalEntry& entry : entries) parts[entry.job].push_back(entry);
  std::map<std::string, absl::Status> failed;
  for (const auto& [job, part] : parts) {
    // An unreachable journal fails for all jobs, and each try may take the
    // whole timeout, so it is not tried again.
    if (parts.size() > 1 && !absl::IsUnavailable(why)) {
      const absl::Status written = journal_->Append(part, WallNow());
      if (written.ok()) continue;
      why = written;
    }
    failed.emplace(job, why);
  }
  SetBackJobs(failed);
}

// Continues the only job from the journal, or starts a new run of it.
void Loop::TakeUpOnlyJob(absl::Time now) {
  if (options_.only_job.empty() || !jobs_.live().empty()) return;
  if (const EndedJob* ended = jobs_.FindEnded(options_.only_job)) {
    // The last daemon died after the end of the job and before its own. This
    // one tells agents for one lease how the job ended.
    over_at_ = now + options_.limits.lease;
    MutexLock lock(mutex_);
    end_ = ended->end;
    return;
  }
  LiveJob& made = jobs_.MakeOnlyJob(now);
  Collect(made.job, StartJob(made));
}

// Usually a returning agent causes a TakeBack earlier. This is for jobs without
// agents, which have deadlines too.
void Loop::TakeBackJobs(absl::Time now) {
  if (quit_ || now < take_back_at_) return;
  take_back_at_ = absl::InfiniteFuture();
  const std::set<std::string> jobs = jobs_.set_back();
  for (const std::string& job : jobs) {
    if (!TakeBack(job, now).ok()) take_back_at_ = now + kTakeBackPause;
  }
}

// Reads a job that was set back. The job may have ended: its end may have been
// written although the journal returned an error.
absl::Status Loop::TakeBack(const std::string& job, absl::Time now) {
  if (!jobs_.set_back().contains(job)) return absl::OkStatus();
  const absl::StatusOr<LiveJob*> back = jobs_.TakeBack(job, now);
  if (!back.ok()) return back.status();
  if (*back != nullptr) {
    StartTakenUp(**back, now);
  } else {
    TakeUpOnlyJob(now);
  }
  return absl::OkStatus();
}

void Loop::SetBackJobs(std::map<std::string, absl::Status> failed) {
  for (auto& entry : failed) {
    const std::string& job = entry.first;
    absl::Status& why = entry.second;
    logger_.Write(Log::Level::kError,
                  absl::StrCat("job=", job, " event=set_back reason=",
                               Quoted(std::string(why.message()))));
    // The reason is sent to the agents too, because the daemon's log may be on
    // the same full disk.
    why = absl::UnavailableError(absl::StrCat(
        "the daemon's journal cannot be written: ", why.message()));
    sessions_.ForEachOf(
        job, [&](Session& session) { sessions_.Close(session, why); });
    jobs_.SetBack(job);
  }
  take_back_at_ = Now() + kTakeBackPause;
  batch_.Drop(failed);
}

void Loop::CarryOut(const std::string&, const Send& send) {
  if (options_.observer != nullptr) options_.observer->Sends(send.message);
  sessions_.Send(send);
}

void Loop::CarryOut(const std::string&, const CloseStream& close) {
  Session* const session = sessions_.FindOpen(close.session);
  if (session == nullptr) return;
  // Repeated attempts are answered with growing delays.
  if (close.refusal.code() == v1::REFUSAL_CODE_NAME_TAKEN) {
    const absl::Duration wait = access_.NameTaken(session->address, Now());
    return Later(wait, [this, close] {
      Session* const again = sessions_.Find(close.session);
      if (again != nullptr) {
        sessions_.Close(*again, close.code, close.refusal);
      }
    });
  }
  sessions_.Close(*session, close.code, close.refusal);
}

void Loop::CarryOut(const std::string& job, const Log& log) {
  const bool written =
      log.address.empty() ||
      log_quota_.Take(log.node, NetworkOf(log.address), log.address, Now());
  if (!written) return;
  logger_.Write(log.level, log.text);
  if (options_.events == nullptr) return;
  const LiveJob* const live = jobs_.Find(job);
  options_.events->Add(job, live == nullptr ? "" : live->job.run(), log.level,
                       log.text, WallNow());
}

void Loop::TellSuppressed(absl::Time now) {
  for (const LogQuota::Suppressed& of : log_quota_.Due(now)) {
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat("event=suppressed address=",
                     of.address.empty() ? "others" : of.address,
                     " lines=", of.lines,
                     " reason=\"messages from there caused too many lines\""));
  }
}

// The End was sent on all streams of the job. Streams that are still open after
// one lease are closed.
void Loop::CarryOut(const std::string& job, const Forget&) {
  const absl::Time now = Now();
  jobs_.Forget(job, now);
  if (options_.events != nullptr) options_.events->Forget(job);
  sessions_.ForEachOf(job, [&](Session& session) {
    sessions_.SetExpiry(session, now + options_.limits.lease);
  });
  if (job != options_.only_job) return;
  const v1::End end = jobs_.FindEnded(job)->end;
  MutexLock lock(mutex_);
  done_ = true;
  end_ = end;
  ended_.NotifyAll();
}

void Loop::CarryOut(const std::string&, const Batch::Answer& answer) {
  answer(absl::OkStatus());
}

}  // namespace rollcall
