// Loop: the handlers of admin calls. Each call is authorized first, and
// answered once.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/loop/loop.h"

namespace rollcall {
namespace {

constexpr size_t kReasonBytesMax = 512;

uint64_t CountOf(const v1::UnauthenticatedCounts& unauthenticated) {
  return unauthenticated.silent() + unauthenticated.garbage() +
         unauthenticated.crowded() + unauthenticated.unknown() +
         unauthenticated.hung_up();
}

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

}  // namespace

template <typename AdminCall>
bool Loop::Permit(AdminCall& call, TokenTable::For purpose, const char* doing) {
  std::string job = call.request.job();
  const std::optional<Denial> denial =
      access_.Permit(call.caller, purpose, doing, job, Now());
  if (!denial.has_value()) {
    Known(call.caller);
    call.request.set_job(job);
    return true;
  }
  Later(denial->wait, [reply = std::move(call.reply), status = denial->status] {
    reply(status);
  });
  return false;
}

void Loop::Known(const Caller& caller) {
  if (!options_.known || caller.peer.empty()) return;
  options_.known(caller.peer, caller.admin ? "" : caller.token.id());
}

uint64_t Loop::FailedConnections() const {
  if (!options_.unauthenticated) return 0;
  return CountOf(options_.unauthenticated());
}

v1::JobStatus Loop::WithCounters(v1::JobStatus status) const {
  for (const auto& [code, count] : access_.refused()) {
    (*status.mutable_refused())[code] = count;
  }
  if (options_.unauthenticated)
    *status.mutable_unauthenticated() = options_.unauthenticated();
  if (options_.events != nullptr && !status.job().empty()) {
    auto summary =
        options_.events->Summary(status.job(), status.run(), WallNow());
    if (summary.has_value()) *status.mutable_summary() = *std::move(summary);
  }
  ToProto(WallNow(), status.mutable_written_at());
  return status;
}

// Whether there is a place for one more call of this caller; otherwise the call
// is answered.
template <typename LargeCall>
bool Loop::TakePlace(LargeCall& call) {
  if (call.caller.admin) return true;
  CallQuota::Hold hold = status_calls_.Take(call.caller.token.id());
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

void Loop::On(EventsAsked& asked) {
  if (!asked.open && !Permit(asked, TokenTable::For::kLook,
                             asked.newest ? "http" : "status")) {
    return;
  }
  if (!asked.newest && !TakePlace(asked)) return;
  const absl::StatusOr<std::string> job = jobs_.Resolve(asked.request.job());
  if (!job.ok()) return asked.reply(job.status());
  if (jobs_.Find(*job) == nullptr && jobs_.FindEnded(*job) == nullptr) {
    return asked.reply(absl::NotFoundError(
        absl::StrCat("this daemon has no job ", *job, "; check --job")));
  }
  asked.request.set_job(*job);
  asked.reply(options_.events == nullptr ? v1::EventsResponse()
              : asked.newest
                  ? options_.events->Newest(*job, asked.request.after())
                  : options_.events->Events(asked.request, WallNow()));
}

void Loop::On(StatusAsked& asked) {
  if (!Permit(asked, TokenTable::For::kLook, "status") || !TakePlace(asked)) {
    return;
  }
  const absl::StatusOr<std::string> job = jobs_.Resolve(asked.request.job());
  if (!job.ok()) return asked.reply(job.status());
  asked.reply(FullStatus(*job, asked.request.pings()));
}

absl::StatusOr<v1::JobStatus> Loop::FullStatus(const std::string& job,
                                               bool pings) const {
  absl::StatusOr<v1::JobStatus> status = jobs_.Status(job, Now());
  if (!status.ok()) return status;
  const auto live = jobs_.live().find(job);
  if (pings && live != jobs_.live().end()) {
    *status->mutable_pings() = live->second.job.Pings(Now());
  }
  return WithCounters(*std::move(status));
}

void Loop::On(SnapshotAsked& asked) {
  if (!asked.open && !Permit(asked, TokenTable::For::kLook, "http")) return;
  Snapshot snapshot;
  const std::string& named = asked.request.job();
  const absl::StatusOr<std::string> one = jobs_.Resolve(named);
  // If no job is named, a daemon with several jobs shows all of them.
  snapshot.single = !named.empty() || (one.ok() && !asked.all);
  const std::vector<std::string> jobs =
      snapshot.single ? std::vector<std::string>{*one} : jobs_.Names();
  for (const std::string& job : jobs) {
    absl::StatusOr<SharedStatus> status =
        snapshots_.Get(job, asked.request.pings(), Now());
    if (!status.ok()) return asked.reply(status.status());
    snapshot.jobs.push_back(*std::move(status));
  }
  if (snapshot.single && options_.events != nullptr) {
    snapshot.last_event = options_.events->LastId(jobs.front());
  }
  snapshot.counters =
      std::make_shared<const v1::JobStatus>(WithCounters(v1::JobStatus()));
  asked.reply(snapshot);
}

void Loop::On(HealthAsked& asked) {
  asked.reply(journal_works_ ? absl::OkStatus()
                             : absl::UnavailableError(
                                   "the journal cannot be written; check free "
                                   "space and permissions"));
}

void Loop::On(StopCame& came) {
  if (!Permit(came, TokenTable::For::kSteer, "stop")) return;
  const absl::StatusOr<std::string> job = jobs_.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  v1::StopResponse response;
  LiveJob* live = jobs_.Find(*job);
  if (live == nullptr) {
    const absl::StatusOr<v1::JobStatus> ended = jobs_.Status(*job, Now());
    if (!ended.ok()) return came.reply(ended.status());
    response.set_state(ended->state());
    return came.reply(response);
  }
  Step(*live, StopAsked{came.request.exit_code(), v1::REASON_CODE_STOPPED,
                        came.request.reason().empty() ? "stopped by request"
                                                      : came.request.reason(),
                        came.request.now()});
  response.set_state(live->job.state());
  batch_.AddAnswer(*job, WhenDurable(came, std::move(response)));
}

void Loop::On(DrainCame& came) {
  if (!Permit(came, TokenTable::For::kSteer, "drain")) return;
  const absl::StatusOr<std::string> job = jobs_.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  LiveJob* live = jobs_.Find(*job);
  if (live == nullptr || !live->job.Knows(came.request.node())) {
    return came.reply(absl::NotFoundError(
        absl::StrCat("job ", *job, " has no node ", Quoted(came.request.node()),
                     "; `rollcall status` names those that it has")));
  }
  DrainAsked drain;
  drain.node = came.request.node();
  drain.reason = Printable(came.request.reason(), kReasonBytesMax);
  if (came.request.has_deadline()) {
    drain.deadline = FromProto(came.request.deadline());
    if (drain.deadline < absl::ZeroDuration() ||
        drain.deadline > Limits::wait_max) {
      return came.reply(absl::InvalidArgumentError(absl::StrCat(
          "deadline: expected 0 to ", absl::FormatDuration(Limits::wait_max),
          ", got ", absl::FormatDuration(drain.deadline))));
    }
  }
  Step(*live, drain);
  batch_.AddAnswer(*job, WhenDurable(came, v1::DrainResponse()));
}

void Loop::On(EvictCame& came) {
  if (!Permit(came, TokenTable::For::kSteer, "evict")) return;
  const absl::StatusOr<std::string> job = jobs_.Resolve(came.request.job());
  if (!job.ok()) return came.reply(job.status());
  LiveJob* live = jobs_.Find(*job);
  const bool over = live == nullptr ? jobs_.FindEnded(*job) != nullptr
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
  Step(*live, EvictAsked{{came.request.node()},
                         Printable(came.request.reason(), kReasonBytesMax),
                         response.former()});
  batch_.AddAnswer(*job, WhenDurable(came, std::move(response)));
}

Batch::Answer Loop::WhenSaved(Batch::Answer answer) {
  return [this, answer = std::move(answer)](const absl::Status&) {
    answer(tokens_saved_);
  };
}

void Loop::On(TokenWanted& wanted) {
  if (!Permit(wanted, TokenTable::For::kSteer, "token_create")) return;
  v1::CreateTokenResponse response;
  response.set_job(wanted.request.job().empty() ? options_.only_job
                                                : wanted.request.job());
  // A token for the daemon's only job has no job name.
  if (wanted.request.job() == options_.only_job) wanted.request.clear_job();
  *response.mutable_token() = MakeToken();
  const absl::Status made =
      access_.tokens().Create(response.token(), wanted.request, WallNow());
  if (!made.ok()) return wanted.reply(made);
  response.set_role(wanted.request.role());
  logger_.Write(
      Log::Level::kInfo,
      absl::StrCat("event=token_created token=", response.token().id(),
                   " role=", RoleWord(wanted.request.role()),
                   " job=", response.job(), " address=", wanted.caller.address,
                   " by=", wanted.caller.token.id()));
  batch_.AddAnswer("", WhenSaved(WhenDurable(wanted, std::move(response))));
}

void Loop::On(TokensAsked& asked) {
  if (!Permit(asked, TokenTable::For::kSteer, "token_list")) return;
  v1::ListTokensResponse response;
  for (v1::TokenStatus& token : access_.tokens().List(asked.request.job())) {
    *response.add_tokens() = std::move(token);
  }
  asked.reply(response);
}

void Loop::On(TokenRevoked& revoked) {
  if (!Permit(revoked, TokenTable::For::kSteer, "token_revoke")) return;
  const std::string& id = revoked.request.id();
  const bool cascade = revoked.request.cascade();
  const absl::Status done =
      access_.tokens().Revoke(id, revoked.caller.bound_to, WallNow());
  // A token that the daemon has already removed may have admitted nodes that
  // are still here.
  const bool evicts_all_the_same =
      cascade && absl::IsNotFound(done) && !access_.tokens().Knows(id);
  if (!done.ok() && !evicts_all_the_same) return revoked.reply(done);
  if (done.ok()) {
    logger_.Write(Log::Level::kInfo,
                  absl::StrCat("event=token_revoked token=", id,
                               " address=", revoked.caller.address,
                               " by=", revoked.caller.token.id()));
  }
  const auto answer =
      [this, done, reply = std::move(revoked.reply)](
          const absl::StatusOr<std::vector<std::string>>& names) {
        if (done.ok() && !tokens_saved_.ok()) return reply(tokens_saved_);
        if (!names.ok()) return reply(names.status());
        if (!done.ok() && names->empty()) return reply(done);
        v1::RevokeTokenResponse response;
        for (const std::string& name : *names) response.add_evicted(name);
        reply(response);
      };
  if (cascade) return Cascade(id, revoked.caller.bound_to, answer);
  batch_.AddAnswer("", [answer](const absl::Status&) {
    answer(std::vector<std::string>());
  });
}

void Loop::On(TokenRotated& rotated) {
  if (!Permit(rotated, TokenTable::For::kSteer, "token_rotate")) return;
  const std::string& id = rotated.request.id();
  v1::CreateTokenResponse response;
  response.set_job(rotated.request.job().empty() ? options_.only_job
                                                 : rotated.request.job());
  *response.mutable_token() = MakeToken();
  const absl::Status done = access_.RotateToken(
      id, response.token(), rotated.caller.bound_to, WallNow());
  if (!done.ok()) return rotated.reply(done);
  response.set_role(access_.tokens().RoleOf(response.token().id()));
  logger_.Write(
      Log::Level::kInfo,
      absl::StrCat("event=token_rotated token=", response.token().id(),
                   " revoked=", id, " address=", rotated.caller.address,
                   " by=", rotated.caller.token.id()));
  batch_.AddAnswer("", WhenSaved(WhenDurable(rotated, std::move(response))));
}

void Loop::Cascade(
    const std::string& token_id, const std::string& only,
    std::function<void(const absl::StatusOr<std::vector<std::string>>&)>
        answer) {
  // Shared by the Answers below. Each job's entries may become durable or not;
  // the last Answer reports the result for all jobs.
  struct Outcome {
    absl::Status durable;
    std::vector<std::string> names;
  };
  const auto outcome = std::make_shared<Outcome>();
  for (auto& [name, live] : jobs_.live()) {
    if ((!only.empty() && name != only) || live.job.end().has_value()) continue;
    std::vector<std::string> nodes = live.job.AdmittedBy(token_id);
    if (nodes.empty()) continue;
    outcome->names.insert(outcome->names.end(), nodes.begin(), nodes.end());
    Step(live, EvictAsked{std::move(nodes),
                          absl::StrCat("token ", token_id, " was revoked")});
    batch_.AddAnswer(name, [outcome](const absl::Status& durable) {
      outcome->durable.Update(durable);
    });
  }
  batch_.AddAnswer("",
                   [outcome, answer = std::move(answer)](const absl::Status&) {
                     if (!outcome->durable.ok())
                       return answer(outcome->durable);
                     answer(outcome->names);
                   });
}

void Loop::On(WatchOpened& opened) {
  const std::optional<Denial> denial = access_.Permit(
      opened.caller, TokenTable::For::kLook, "watch", opened.job, Now());
  if (denial.has_value()) {
    return Later(denial->wait,
                 [watcher = std::move(opened.watcher),
                  status = denial->status] { watcher->End(status); });
  }
  Known(opened.caller);
  watches_.Add(opened.id, opened.job, std::move(opened.watcher),
               opened.caller.admin ? "" : opened.caller.token.id());
}

}  // namespace rollcall
