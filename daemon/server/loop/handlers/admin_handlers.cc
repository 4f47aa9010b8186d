#include "daemon/server/loop/handlers/admin_handlers.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/loop/acts/job_steps.h"

namespace rollcall {
namespace {

// Returns an Answer that sends `response` when the batch is durable, so that
// the caller can rely on it.
template <typename AdminCall, typename Response>
Batch::Answer WhenDurable(AdminCall& call, Response response) {
  return [reply = std::move(call.reply),
          response = std::move(response)](const absl::Status& durable) {
    if (!durable.ok()) return reply(durable);
    reply(response);
  };
}

// Whether the caller may make this admin call; if so, sets the call's job.
// Otherwise the call is answered, now or later.
template <typename AdminCall>
bool Permit(LoopState& loop, AdminCall& call, TokenTable::For purpose,
            const char* doing) {
  std::string job = call.request.job();
  const std::optional<Denial> denial =
      loop.access.Permit(call.caller, purpose, doing, job, loop.Now());
  if (!denial.has_value()) {
    loop.Known(call.caller);
    call.request.set_job(job);
    return true;
  }
  loop.Later(denial->wait, [reply = std::move(call.reply),
                            status = denial->status] { reply(status); });
  return false;
}

// Whether there is a place for one more call of this caller; otherwise the call
// is answered.
template <typename LargeCall>
bool TakePlace(LoopState& loop, LargeCall& call) {
  if (call.caller.admin) return true;
  CallQuota::Hold hold = loop.status_calls.Take(call.caller.token.id());
  if (hold == nullptr) {
    call.reply(absl::ResourceExhaustedError(absl::StrCat(
        "token ", call.caller.token.id(), " has ",
        Limits::status_calls_per_viewer_max,
        " status calls under way, the most there can be; read their answers "
        "first")));
    return false;
  }
  if (call.keep) call.keep(std::move(hold));
  return true;
}

// Returns an Answer that calls `answer` with the result of saving the tokens.
Batch::Answer WhenSaved(LoopState& loop, Batch::Answer answer) {
  return [&loop, answer = std::move(answer)](const absl::Status&) {
    answer(loop.tokens_saved);
  };
}

// Evicts the nodes that this token admitted, in the job `only` or (empty) in
// all jobs. `answer` is called with their names when all evictions are durable.
void Cascade(
    LoopState& loop, const std::string& token_id, const std::string& only,
    std::function<void(const absl::StatusOr<std::vector<std::string>>&)>
        answer) {
  // Shared by the Answers below. Each job's entries may become durable or not;
  // the last Answer reports the result for all jobs.
  struct Outcome {
    absl::Status durable;
    std::vector<std::string> names;
  };
  const auto outcome = std::make_shared<Outcome>();
  for (auto& [name, live] : loop.jobs.live()) {
    if ((!only.empty() && name != only) || live.job.end().has_value()) continue;
    std::vector<std::string> nodes = live.job.AdmittedBy(token_id);
    if (nodes.empty()) continue;
    outcome->names.insert(outcome->names.end(), nodes.begin(), nodes.end());
    StepJob(loop, live,
            EvictAsked{std::move(nodes),
                       absl::StrCat("token ", token_id, " was revoked")});
    loop.batch.AddAnswer(name, [outcome](const absl::Status& durable) {
      outcome->durable.Update(durable);
    });
  }
  loop.batch.AddAnswer(
      "", [outcome, answer = std::move(answer)](const absl::Status&) {
        if (!outcome->durable.ok()) return answer(outcome->durable);
        answer(outcome->names);
      });
}

}  // namespace

void On(LoopState& loop, EventsAsked& asked) {
  if (!asked.open && !Permit(loop, asked, TokenTable::For::kLook,
                             asked.newest ? "http" : "status")) {
    return;
  }
  if (!asked.newest && !TakePlace(loop, asked)) return;
  const absl::StatusOr<std::string> job =
      loop.jobs.Resolve(asked.request.job());
  if (!job.ok()) return asked.reply(job.status());
  if (loop.jobs.Find(*job) == nullptr && loop.jobs.FindEnded(*job) == nullptr) {
    return asked.reply(absl::NotFoundError(
        absl::StrCat("this daemon has no job ", *job, "; check --job")));
  }
  asked.request.set_job(*job);
  asked.reply(loop.options.events == nullptr ? v1::EventsResponse()
              : asked.newest
                  ? loop.options.events->Newest(*job, asked.request.after())
                  : loop.options.events->Events(asked.request, loop.WallNow()));
}

void On(LoopState& loop, StatusAsked& asked) {
  if (!Permit(loop, asked, TokenTable::For::kLook, "status") ||
      !TakePlace(loop, asked)) {
    return;
  }
  const absl::StatusOr<std::string> job =
      loop.jobs.Resolve(asked.request.job());
  if (!job.ok()) return asked.reply(job.status());
  asked.reply(loop.FullStatus(*job, asked.request.pings()));
}

void On(LoopState& loop, SnapshotAsked& asked) {
  if (!asked.open && !Permit(loop, asked, TokenTable::For::kLook, "http"))
    return;
  Snapshot snapshot;
  const std::string& named = asked.request.job();
  const absl::StatusOr<std::string> one = loop.jobs.Resolve(named);
  // If no job is named, a daemon with several jobs shows all of them.
  snapshot.single = !named.empty() || (one.ok() && !asked.all);
  const std::vector<std::string> jobs =
      snapshot.single ? std::vector<std::string>{*one} : loop.jobs.Names();
  for (const std::string& job : jobs) {
    absl::StatusOr<SharedStatus> status =
        loop.snapshots.Get(job, asked.request.pings(), loop.Now());
    if (!status.ok()) return asked.reply(status.status());
    snapshot.jobs.push_back(*std::move(status));
  }
  if (snapshot.single && loop.options.events != nullptr) {
    snapshot.last_event = loop.options.events->LastId(jobs.front());
  }
  snapshot.counters =
      std::make_shared<const v1::JobStatus>(loop.WithCounters(v1::JobStatus()));
  asked.reply(snapshot);
}

void On(LoopState& loop, HealthAsked& asked) {
  asked.reply(
      loop.journal_works
          ? absl::OkStatus()
          : absl::UnavailableError("the journal cannot be written; check free "
                                   "space and permissions"));
}

void On(LoopState& loop, StopCame& came) {
  if (!Permit(loop, came, TokenTable::For::kSteer, "stop")) return;
  const absl::StatusOr<std::string> job = loop.jobs.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  v1::StopResponse response;
  LiveJob* live = loop.jobs.Find(*job);
  if (live == nullptr) {
    const absl::StatusOr<v1::JobStatus> ended =
        loop.jobs.Status(*job, loop.Now());
    if (!ended.ok()) return came.reply(ended.status());
    response.set_state(ended->state());
    return came.reply(response);
  }
  StepJob(loop, *live,
          StopAsked{came.request.exit_code(), v1::REASON_CODE_STOPPED,
                    came.request.reason().empty() ? "stopped by request"
                                                  : came.request.reason(),
                    came.request.now()});
  response.set_state(live->job.state());
  loop.batch.AddAnswer(*job, WhenDurable(came, std::move(response)));
}

void On(LoopState& loop, DrainCame& came) {
  if (!Permit(loop, came, TokenTable::For::kSteer, "drain")) return;
  const absl::StatusOr<std::string> job = loop.jobs.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  LiveJob* live = loop.jobs.Find(*job);
  if (live == nullptr || !live->job.Knows(came.request.node())) {
    return came.reply(absl::NotFoundError(
        absl::StrCat("job ", *job, " has no node ", Quoted(came.request.node()),
                     "; `rollcall status` names those that it has")));
  }
  DrainAsked drain;
  drain.node = came.request.node();
  drain.reason =
      Printable(came.request.reason(), Limits::admin_reason_bytes_max);
  if (came.request.has_deadline()) {
    drain.deadline = FromProto(came.request.deadline());
    if (drain.deadline < absl::ZeroDuration() ||
        drain.deadline > Limits::wait_max) {
      return came.reply(absl::InvalidArgumentError(absl::StrCat(
          "deadline: expected 0 to ", absl::FormatDuration(Limits::wait_max),
          ", got ", absl::FormatDuration(drain.deadline))));
    }
  }
  StepJob(loop, *live, drain);
  loop.batch.AddAnswer(*job, WhenDurable(came, v1::DrainResponse()));
}

void On(LoopState& loop, EvictCame& came) {
  if (!Permit(loop, came, TokenTable::For::kSteer, "evict")) return;
  const absl::StatusOr<std::string> job = loop.jobs.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  LiveJob* live = loop.jobs.Find(*job);
  const bool over = live == nullptr ? loop.jobs.FindEnded(*job) != nullptr
                                    : live->job.end().has_value();
  if (over) {
    return came.reply(absl::FailedPreconditionError(absl::StrCat(
        "job ", *job, " has ended: there is nothing to evict node ",
        Quoted(came.request.node()), " from")));
  }
  if (live == nullptr || !live->job.HasAdmitted(came.request.node())) {
    return came.reply(absl::NotFoundError(absl::StrCat(
        "job ", *job, " never admitted a node ", Quoted(came.request.node()),
        "; `rollcall status` names those that it has")));
  }
  v1::EvictResponse response;
  response.set_former(live->job.EvictsFormer(came.request.node()));
  StepJob(loop, *live,
          EvictAsked{
              {came.request.node()},
              Printable(came.request.reason(), Limits::admin_reason_bytes_max),
              response.former()});
  loop.batch.AddAnswer(*job, WhenDurable(came, std::move(response)));
}

void On(LoopState& loop, TokenWanted& wanted) {
  if (!Permit(loop, wanted, TokenTable::For::kSteer, "token_create")) return;
  v1::CreateTokenResponse response;
  response.set_job(wanted.request.job().empty() ? loop.options.only_job
                                                : wanted.request.job());
  // A token for the daemon's only job has no job name.
  if (wanted.request.job() == loop.options.only_job) wanted.request.clear_job();
  *response.mutable_token() = MakeToken();
  const absl::Status made = loop.access.tokens().Create(
      response.token(), wanted.request, loop.WallNow());
  if (!made.ok()) return wanted.reply(made);
  response.set_role(wanted.request.role());
  loop.logger.Write(
      Log::Level::kInfo,
      absl::StrCat("event=token_created token=", response.token().id(),
                   " role=", RoleWord(wanted.request.role()),
                   " job=", response.job(), " address=", wanted.caller.address,
                   " by=", wanted.caller.token.id()));
  loop.batch.AddAnswer(
      "", WhenSaved(loop, WhenDurable(wanted, std::move(response))));
}

void On(LoopState& loop, TokensAsked& asked) {
  if (!Permit(loop, asked, TokenTable::For::kSteer, "token_list")) return;
  v1::ListTokensResponse response;
  for (v1::TokenStatus& token :
       loop.access.tokens().List(asked.request.job())) {
    *response.add_tokens() = std::move(token);
  }
  asked.reply(response);
}

void On(LoopState& loop, TokenRevoked& revoked) {
  if (!Permit(loop, revoked, TokenTable::For::kSteer, "token_revoke")) return;
  const std::string& id = revoked.request.id();
  const bool cascade = revoked.request.cascade();
  const absl::Status done =
      loop.access.tokens().Revoke(id, revoked.caller.bound_to, loop.WallNow());
  // A token that the daemon has already removed may have admitted nodes that
  // are still here.
  const bool evicts_all_the_same =
      cascade && absl::IsNotFound(done) && !loop.access.tokens().Knows(id);
  if (!done.ok() && !evicts_all_the_same) return revoked.reply(done);
  if (done.ok()) {
    loop.logger.Write(Log::Level::kInfo,
                      absl::StrCat("event=token_revoked token=", id,
                                   " address=", revoked.caller.address,
                                   " by=", revoked.caller.token.id()));
  }
  const auto answer =
      [&loop, done, reply = std::move(revoked.reply)](
          const absl::StatusOr<std::vector<std::string>>& names) {
        if (done.ok() && !loop.tokens_saved.ok())
          return reply(loop.tokens_saved);
        if (!names.ok()) return reply(names.status());
        if (!done.ok() && names->empty()) return reply(done);
        v1::RevokeTokenResponse response;
        for (const std::string& name : *names) response.add_evicted(name);
        reply(response);
      };
  if (cascade) return Cascade(loop, id, revoked.caller.bound_to, answer);
  loop.batch.AddAnswer("", [answer](const absl::Status&) {
    answer(std::vector<std::string>());
  });
}

void On(LoopState& loop, TokenRotated& rotated) {
  if (!Permit(loop, rotated, TokenTable::For::kSteer, "token_rotate")) return;
  const std::string& id = rotated.request.id();
  v1::CreateTokenResponse response;
  response.set_job(rotated.request.job().empty() ? loop.options.only_job
                                                 : rotated.request.job());
  *response.mutable_token() = MakeToken();
  const absl::Status done = loop.access.RotateToken(
      id, response.token(), rotated.caller.bound_to, loop.WallNow());
  if (!done.ok()) return rotated.reply(done);
  response.set_role(loop.access.tokens().RoleOf(response.token().id()));
  loop.logger.Write(
      Log::Level::kInfo,
      absl::StrCat("event=token_rotated token=", response.token().id(),
                   " revoked=", id, " address=", rotated.caller.address,
                   " by=", rotated.caller.token.id()));
  loop.batch.AddAnswer(
      "", WhenSaved(loop, WhenDurable(rotated, std::move(response))));
}

void On(LoopState& loop, WatchOpened& opened) {
  const std::optional<Denial> denial = loop.access.Permit(
      opened.caller, TokenTable::For::kLook, "watch", opened.job, loop.Now());
  if (denial.has_value()) {
    return loop.Later(denial->wait,
                      [watcher = std::move(opened.watcher),
                       status = denial->status] { watcher->End(status); });
  }
  loop.Known(opened.caller);
  loop.watches.Add(opened.id, opened.job, std::move(opened.watcher),
                   opened.caller.admin ? "" : opened.caller.token.id());
}

void On(LoopState& loop, WatchGone& gone) { loop.watches.Remove(gone.id); }

}  // namespace rollcall
