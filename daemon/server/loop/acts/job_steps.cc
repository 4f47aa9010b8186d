#include "daemon/server/loop/acts/job_steps.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// A job that was set back is read again when an agent comes back, or after this
// time.
constexpr absl::Duration kTakeBackPause = absl::Seconds(2);

void Collect(LoopState& loop, const Job& job, std::vector<Action> actions) {
  loop.batch.Add(job.name(), job.run(), std::move(actions));
}

std::vector<Action> StartJob(LoopState& loop, LiveJob& live) {
  if (loop.options.events != nullptr) {
    live.job.UseLastStep(loop.options.events->LastStepOf(live.job.name()));
  }
  return live.job.Start();
}

}  // namespace

void TickJobs(LoopState& loop, absl::Time now) {
  if (loop.quit) return;
  for (auto& [name, live] : loop.jobs.live()) {
    const std::optional<absl::Duration> late = live.tick.Take(now);
    if (!late.has_value()) continue;
    if (*late > Limits::late_min) {
      loop.logger.Write(Log::Level::kWarning,
                        absl::StrCat("job=", name, " event=late by=",
                                     absl::FormatDuration(*late)));
    }
    StepJob(loop, live, Tick{*late});
  }
}

void StepJob(LoopState& loop, LiveJob& live, const Event& event) {
  LoopObserver* const observer = loop.options.observer;
  const absl::Time now = loop.Now();
  if (observer != nullptr) observer->BeforeStep(live.job, event, now);
  std::vector<Action> actions = live.job.Step(event, now);
  if (observer != nullptr) observer->AfterStep(live.job, event, now, actions);
  const Job& job = live.job;
  if (live.history.IsNew(job.state(), job.generation())) {
    live.history.Note(job.state(), job.generation(), job.last_reform(), now,
                      loop.WallNow());
  }
  Collect(loop, live.job, std::move(actions));
}

void StartMade(LoopState& loop, LiveJob& made) {
  Collect(loop, made.job, StartJob(loop, made));
}

void StartTakenUp(LoopState& loop, LiveJob& live, absl::Time now) {
  std::vector<Action> actions = StartJob(loop, live);
  if (loop.options.observer != nullptr) {
    loop.options.observer->TookUp(live.job, actions, now);
  }
  Collect(loop, live.job, std::move(actions));
}

void TakeUpOnlyJob(LoopState& loop, absl::Time now) {
  if (loop.options.only_job.empty() || !loop.jobs.live().empty()) return;
  if (const EndedJob* ended = loop.jobs.FindEnded(loop.options.only_job)) {
    // The last daemon died after the end of the job and before its own. This
    // one tells agents for one lease how the job ended.
    loop.over_at = now + loop.options.limits.lease;
    return loop.outcome.Ended(ended->end);
  }
  StartMade(loop, loop.jobs.MakeOnlyJob(now));
}

absl::Status TakeBack(LoopState& loop, const std::string& job, absl::Time now) {
  if (!loop.jobs.set_back().contains(job)) return absl::OkStatus();
  const absl::StatusOr<LiveJob*> back = loop.jobs.TakeBack(job, now);
  if (!back.ok()) return back.status();
  if (*back != nullptr) {
    StartTakenUp(loop, **back, now);
  } else {
    TakeUpOnlyJob(loop, now);
  }
  return absl::OkStatus();
}

void TakeBackJobs(LoopState& loop, absl::Time now) {
  if (loop.quit || now < loop.take_back_at) return;
  loop.take_back_at = absl::InfiniteFuture();
  const std::set<std::string> jobs = loop.jobs.set_back();
  for (const std::string& job : jobs) {
    if (!TakeBack(loop, job, now).ok())
      loop.take_back_at = now + kTakeBackPause;
  }
}

void SetBackJobs(LoopState& loop, std::map<std::string, absl::Status> failed) {
  for (auto& entry : failed) {
    const std::string& job = entry.first;
    absl::Status& why = entry.second;
    loop.logger.Write(Log::Level::kError,
                      absl::StrCat("job=", job, " event=set_back reason=",
                                   Quoted(std::string(why.message()))));
    // The reason is sent to the agents too, because the daemon's log may be on
    // the same full disk.
    why = absl::UnavailableError(absl::StrCat(
        "the daemon's journal cannot be written: ", why.message()));
    loop.sessions.ForEachOf(
        job, [&](Session& session) { loop.sessions.Close(session, why); });
    loop.jobs.SetBack(job);
  }
  // One job that fails again and again does not put off the others.
  loop.take_back_at = std::min(loop.take_back_at, loop.Now() + kTakeBackPause);
  loop.batch.Drop(failed);
}

}  // namespace rollcall
