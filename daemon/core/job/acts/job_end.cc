#include "daemon/core/job/acts/job_end.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
void EndJob(JobState& job, v1::End end) {
  CHECK(!job.HasEnded());
  const bool ranks_live =
      job.IsRunning() && end.code() != v1::REASON_CODE_FINISHED;
  // Agents stop set-up commands as they stop ranks.
  const bool stops = ranks_live || !job.membership.setting_up().empty();
  job.ending.Begin(std::move(end), stops, job.now, job.limits);
  job.phase = JobPhase::kEnded;
  job.waiting.Stop();
  job.membership.EndDeadlines();
  for (auto& [name, node] : job.membership.nodes()) {
    // A newcomer was never used, like a spare.
    if (job.HasRun() && job.membership.IsSettingUp(node)) {
      node.state = v1::NODE_STATE_SPARE;
    }
    if (!node.gone && node.state != v1::NODE_STATE_SPARE) {
      node.state = v1::NODE_STATE_FINISHED;
    }
  }
  job.notices.DropAll();
  job.hangs.DropAll();
  job.newcomers.StopGrowing();
  job.completion.DropRecord();
  job.isolation.End();
  // An adopted run cannot replace a run that has ended.
  RefuseClaims(job);
  job.out.Write(Journal::Kind::kRunEnded, job.generation(), *job.ending.end());
  SendEnd(job);
  const v1::End& ended = *job.ending.end();
  job.out.Say(
      ended.finished() ? Log::Level::kInfo : Log::Level::kError,
      absl::StrCat("event=end exit_code=", ended.exit_code(),
                   " code=", v1::ReasonCode_Name(ended.code()),
                   " reason=", Quoted(ended.reason()), job.steps.Text()));
  job.out.Changed();
}

void EndJobFailed(JobState& job, v1::End end) {
  const std::vector<v1::RootCause>& causes = job.failures.causes();
  if (!causes.empty()) *end.mutable_root_cause() = causes.back();
  for (const v1::RootCause& cause : causes) *end.add_causes() = cause;
  EndJob(job, std::move(end));
}

void EndJobFinished(JobState& job) {
  v1::End end;
  end.set_finished(true);
  end.set_code(v1::REASON_CODE_FINISHED);
  end.set_reason("all ranks exited 0");
  EndJob(job, std::move(end));
}

void FailRendezvous(JobState& job, v1::ReasonCode code,
                    const std::string& reason) {
  v1::End end;
  end.set_exit_code(kExitRendezvous);
  end.set_code(code);
  end.set_reason(reason);
  EndJobFailed(job, std::move(end));
}

void SendEnd(JobState& job) {
  // Agents get different Ends if their exit codes differ. Agents that get the
  // job's own exit code come first.
  std::map<std::pair<bool, int>, std::vector<SessionId>> to;
  v1::DaemonMessage message;
  for (const auto& [session, name] : job.membership.streams()) {
    const int exit_code = job.EndFor(job.membership.At(name)).exit_code();
    to[{exit_code != job.ending.end()->exit_code(), exit_code}].push_back(
        session);
  }
  for (auto& [kind, sessions] : to) {
    *message.mutable_end() =
        job.EndFor(*job.membership.OfStream(sessions.front()));
    job.out.SendTo(std::move(sessions), message);
  }
}

void MaybeForget(JobState& job) {
  if (job.ending.Forget(job.membership.attached() > 0,
                        !job.membership.streams().empty(), job.now)) {
    job.out.ForgetJob();
  }
}

void RefuseClaims(JobState& job) {
  job.adoption.Forgo();
  for (const Attend& claim : job.adoption.TakeAll()) {
    job.out.Close(claim.session, absl::StatusCode::kAborted,
                  v1::REFUSAL_CODE_OTHER_RUN,
                  absl::StrCat("job ", job.name(), " is in run ", job.run(),
                               " now, not ", claim.hello.run(),
                               ": too few members of that run came back"));
  }
  job.gathering.CallAgain(job.now);
}

void MaybeEndUnattended(JobState& job) {
  job.gathering.unattended().Note(job.membership.attached() > 0, job.now);
  if (!job.AwaitsFirstWorld() ||
      job.now < job.gathering.unattended().Due(job.limits))
    return;
  FailRendezvous(job, v1::REASON_CODE_JOIN_TIMEOUT,
                 absl::StrCat("no node attended for ",
                              absl::FormatDuration(job.limits.reattach_grace),
                              ", and the job had never run"));
}

}  // namespace rollcall
