#include "daemon/server/loop/loop.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/server/loop/acts/commit.h"
#include "daemon/server/loop/acts/job_steps.h"
#include "daemon/server/loop/acts/shutdown.h"
#include "daemon/server/loop/handlers/admin_handlers.h"
#include "daemon/server/loop/handlers/stream_handlers.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

absl::Status GoingDown() {
  return absl::UnavailableError("the daemon is shutting down; dial again");
}

}  // namespace

Loop::Loop(Options options, JournalStore* journal, Logger& logger)
    : state_(std::move(options), journal, logger) {}

Loop::~Loop() { Stop(); }

void Loop::Stop(absl::Status why) {
  if (why.ok()) why = GoingDown();
  if (thread_ != nullptr) {
    state_.inbox.PostAlways(Quit{why});
    thread_->Join();
    thread_.reset();
  }
  // If the loop never ran, its inputs are still here.
  for (LoopInput& late : state_.inbox.Close()) Decline(late, why);
}

absl::Status Loop::Start() {
  LoopState& loop = state_;
  const absl::Time now = loop.Now();
  if (loop.options.resume) {
    if (absl::Status taken = loop.jobs.Restore(now); !taken.ok()) return taken;
  }
  if (absl::Status s = loop.access.Start(loop.options.resume); !s.ok()) {
    return s;
  }
  if (loop.options.events != nullptr) loop.options.events->Begin();
  if (loop.options.observer != nullptr) {
    loop.options.observer->Begins(loop.journal, loop.options.leads);
  }
  for (auto& [name, live] : loop.jobs.live()) StartTakenUp(loop, live, now);
  TakeUpOnlyJob(loop, now);
  // The first entries are written before any agent is admitted, so that Start
  // fails if the journal cannot be written.
  if (loop.journal != nullptr) {
    absl::Status written =
        loop.journal->Append(loop.batch.entries(), loop.WallNow());
    if (!written.ok()) return written;
  }
  loop.batch.TakeEntries();
  thread_ = loop.options.machine->Start([this] { Run(); });
  return absl::OkStatus();
}

std::optional<v1::End> Loop::Wait() { return state_.outcome.Wait(); }

void Loop::Run() {
  LoopState& loop = state_;
  Commit(loop);
  while (!loop.quit) {
    const absl::Time wake = NextWake(loop.Now());
    TakeAll(wake - loop.Now());
    if (loop.Now() - wake > Limits::late_min) TakeAll(absl::ZeroDuration());
    TickJobs(loop, loop.Now());
    loop.sessions.Expire(loop.Now());
    loop.delayed.Run(loop.Now());
    TakeBackJobs(loop, loop.Now());
    Beat(loop.Now());
    loop.TellSuppressed(loop.Now());
    if (loop.Now() >= loop.over_at) {
      loop.over_at = absl::InfiniteFuture();
      loop.outcome.Done();
    }
    Commit(loop);
    if (!loop.quit) loop.watches.Publish(loop.Now());
  }
  loop.outcome.Done();
}

void Loop::TakeAll(absl::Duration timeout) {
  std::vector<LoopInput> inputs = state_.inbox.Take(timeout);
  // Another daemon may have become leader while this one was stopped, so even
  // an answer to a query could be wrong.
  if (!state_.Leads()) StandDown(state_);
  for (LoopInput& input : inputs) {
    Beat(state_.Now());
    if (state_.quit) {
      Decline(input, state_.Leads() ? GoingDown() : NotLeader({}));
    } else {
      Handle(input);
      // A small message may cause a large answer, and many such messages may
      // have come at once.
      if (state_.batch.bytes() > Limits::batch_bytes_max) Commit(state_);
    }
  }
}

void Loop::Handle(LoopInput& input) {
  std::visit(
      [this](auto& one) {
        if constexpr (std::is_same_v<decltype(one), Quit&>) {
          Quits(one.why);
        } else {
          On(state_, one);
        }
      },
      input);
}

void Loop::Quits(const absl::Status& why) {
  LoopState& loop = state_;
  Commit(loop);
  // A lingering job has ended, even if not all agents have received its End.
  const LiveJob* only = loop.jobs.Find(loop.options.only_job);
  if (only != nullptr && only->job.end().has_value() && loop.Leads()) {
    loop.outcome.Ended(*only->job.end());
  }
  EndAll(loop, why);
}

void Loop::Beat(absl::Time now) {
  if (now < beat_at_ || !state_.options.beat) return;
  beat_at_ = now + kBeatEvery;
  state_.options.beat();
}

absl::Time Loop::NextWake(absl::Time now) {
  LoopState& loop = state_;
  absl::Time wake = std::min(
      {loop.watches.NextDue(), loop.over_at, loop.log_quota.NextDue(),
       loop.take_back_at, loop.sessions.NextExpiry(), loop.delayed.NextDue()});
  for (auto& [name, live] : loop.jobs.live()) {
    live.tick.Set(live.job.NextDeadline(), now);
    wake = std::min(wake, live.tick.due());
  }
  if (loop.options.beat) wake = std::min(wake, beat_at_);
  return std::min(wake, now + loop.access.TokensDueIn(loop.WallNow()));
}

}  // namespace rollcall
