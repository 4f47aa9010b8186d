#include "daemon/server/loop/state/job_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/commit_proof.h"
#include "daemon/security/secrets/node_credential.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

constexpr size_t kRunBytes = 8;
constexpr size_t kProbeKeyBytes = 32;

// Sets both numbers of nodes if the Hello has at least one.
bool FillNodes(v1::JobSettings& settings) {
  if (!settings.has_nodes_min() && !settings.has_nodes_max()) return false;
  if (!settings.has_nodes_min()) {
    settings.set_nodes_min(settings.nodes_max());
  } else if (!settings.has_nodes_max()) {
    settings.set_nodes_max(settings.nodes_min());
  }
  return true;
}

bool BringsNodes(const v1::Hello& hello) {
  return hello.settings().has_nodes_min() || hello.settings().has_nodes_max();
}

// The token that created a restored job is not journaled, but the tokens that
// admitted its nodes are.
std::string AdmittingToken(const NodeEpochs& node_epochs) {
  const v1::NodeEpochs whole = node_epochs.Whole();
  for (const v1::NodeEpoch& row : whole.nodes()) {
    if (!row.token_id().empty()) return row.token_id();
  }
  return "";
}

// The error for an agent that had no part in a run that has ended with success.
absl::Status HadNoPart(const v1::Hello& hello, const std::string& run,
                       const std::string& when) {
  return absl::NotFoundError(absl::StrCat(
      "run ", run, " of job ", hello.job(), " ended with exit code 0 ", when,
      ", and node ", hello.node(),
      " had no part in it; give --nodes to begin another run, or wait for one "
      "to begin"));
}

v1::JobStatus StatusOfEnded(const JournaledRun& run) {
  v1::JobStatus status;
  const v1::End& end = *run.state.end;
  status.set_job(run.job);
  status.set_run(run.state.run);
  status.set_state(end.finished() ? v1::JOB_STATE_FINISHED
                                  : v1::JOB_STATE_FAILED);
  status.set_generation(run.state.generation);
  status.set_nodes_min(run.state.settings.nodes_min());
  status.set_nodes_max(run.state.settings.nodes_max());
  *status.mutable_root_cause() = end.root_cause();
  *status.mutable_causes() = end.causes();
  status.set_exit_code(end.exit_code());
  status.set_end_code(end.code());
  status.set_end_reason(end.reason());
  status.set_restarts_charged(run.state.restarts_charged);
  status.set_max_restarts(run.state.settings.max_restarts());
  status.set_revision(1);
  return status;
}

}  // namespace

JobTable::JobTable(const Limits& limits, std::string only_job,
                   v1::JobSettings only_settings, HandedKeys keys,
                   JournalStore* journal, Logger& logger, Machine& machine,
                   std::function<std::string(size_t)> random)
    : limits_(limits),
      only_job_(std::move(only_job)),
      only_settings_(std::move(only_settings)),
      keys_(std::move(keys)),
      probe_key_(random(kProbeKeyBytes)),
      journal_(journal),
      logger_(logger),
      machine_(machine),
      random_(std::move(random)) {}

absl::Status JobTable::Restore(absl::Time now) {
  if (journal_ == nullptr) return absl::OkStatus();
  absl::StatusOr<std::vector<JournaledRun>> runs = journal_->LoadAll();
  if (!runs.ok()) return runs.status();
  for (const JournaledRun& run : *runs) {
    if (!only_job_.empty() && run.job != only_job_) continue;
    TakeUp(run, now);
  }
  return absl::OkStatus();
}

void JobTable::TakeUp(const JournaledRun& run, absl::Time now) {
  if (!run.state.end.has_value()) {
    JournalState state = run.state;
    FillNodes(state.settings);
    if (absl::Status usable = CheckTakeUp(state); !usable.ok()) {
      logger_.Write(
          Log::Level::kError,
          absl::StrCat("job=", Quoted(run.job), " event=not_restored",
                       " reason=", Quoted(std::string(usable.message()))));
      return;
    }
    LiveJob& live =
        live_
            .insert_or_assign(
                run.job, LiveJob{Job::Restore(run.job, state, limits_, now),
                                 state.settings})
            .first->second;
    live.job.UseKeys(KeysOf(run.job));
    if (only_job_.empty()) {
      live.job.EndUnattended();
      live.made_by = AdmittingToken(state.node_epochs);
    }
    return;
  }
  // If the clock was set back, the age would be negative.
  const absl::Duration age =
      std::max(machine_.WallNow() - run.written_at, absl::ZeroDuration());
  if (age >= kRemembered) return;
  Remember(run.job, EndedJob{StatusOfEnded(run), *run.state.end,
                             run.state.settings, now + kRemembered - age,
                             run.written_at, run.state.node_epochs});
}

// A journal's content may be wrong, and must not reach a CHECK.
absl::Status JobTable::CheckTakeUp(const JournalState& state) const {
  if (live_.size() >= Limits::jobs_per_daemon_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "run ", state.run, ": this daemon already has ",
        Limits::jobs_per_daemon_max, " jobs, the most there can be"));
  }
  return Job::CheckJournal(state);
}

JobKeys JobTable::KeysOf(const std::string& job) const {
  JobKeys keys;
  keys.credential = [key = keys_.credential, ttl = limits_.credential_ttl,
                     &machine = machine_](const std::string& run,
                                          const v1::Hello& hello,
                                          uint64_t epoch) {
    return NodeCredential(key, run, hello, {epoch, machine.WallNow() + ttl});
  };
  keys.probe_secret = [key = probe_key_, job](uint64_t round,
                                              const std::string& word) {
    return HmacSha256(key,
                      absl::StrCat("probe v1/", job, "/", round, "/", word))
        .substr(0, Limits::probe_bytes);
  };
  if (keys_.proof.empty()) return keys;
  keys.commit_proof = [key = keys_.proof, job](
                          const std::string& run, uint64_t generation,
                          const std::string& world,
                          const std::string& world_commit) {
    return CommitProof(key, job, run, generation, world, world_commit);
  };
  return keys;
}

LiveJob& JobTable::Make(const std::string& job, const v1::JobSettings& settings,
                        absl::Time now, bool known) {
  ended_.erase(job);
  const std::string run = absl::BytesToHexString(random_(kRunBytes));
  LiveJob& made =
      live_
          .insert_or_assign(
              job, LiveJob{Job(job, run, settings, limits_, now), settings})
          .first->second;
  made.job.UseKeys(KeysOf(job));
  // Without a secret that the lost daemon had too, a genuine world of an agent
  // cannot be distinguished from an invented one.
  if (!keys_.proof.empty() && !known && NothingIsKnownOf(job)) {
    made.job.AllowAdoption();
  }
  return made;
}

// Whether agents may have a run of this job that this daemon has lost. If there
// is a journal, that is possible only if the journal has no run of the job.
// Otherwise the journaled run was ended on purpose.
bool JobTable::NothingIsKnownOf(const std::string& job) const {
  if (journal_ == nullptr) return true;
  const absl::StatusOr<std::optional<JournaledRun>> run = journal_->Load(job);
  return run.ok() && !run->has_value();
}

LiveJob& JobTable::MakeOnlyJob(absl::Time now) {
  return Make(only_job_, only_settings_, now, /*known=*/false);
}

LiveJob* JobTable::Find(const std::string& job) {
  const auto at = live_.find(job);
  return at == live_.end() ? nullptr : &at->second;
}

const EndedJob* JobTable::FindEnded(const std::string& job) const {
  const auto at = ended_.find(job);
  return at == ended_.end() ? nullptr : &at->second;
}

absl::StatusOr<LiveJob*> JobTable::ForHello(const v1::Hello& hello,
                                            const std::string& made_by,
                                            absl::Time now, bool* made) {
  *made = false;
  // Whether the agent had no part in a run of this job.
  const bool fresh = only_job_.empty() && hello.run().empty();
  const bool begins = fresh && (hello.launcher() || BringsNodes(hello));
  if (LiveJob* live = Find(hello.job())) {
    const std::optional<v1::End>& end = live->job.end();
    if (!fresh || !end.has_value() || live->job.AwaitsWord(hello)) return live;
    if (begins) {
      return absl::NotFoundError(absl::StrCat(
          "run ", live->job.run(), " of job ", hello.job(),
          " has ended and is still here for its agents; the next run can begin "
          "when they are gone"));
    }
    if (end->exit_code() != 0) return live;
    return HadNoPart(hello, live->job.run(), "just now");
  }
  const EndedJob* ended = FindEnded(hello.job());
  const bool known = ended != nullptr;
  if (known && now < ended->forgotten_at && !begins) {
    if (!fresh || ended->end.exit_code() != 0) return nullptr;
    return HadNoPart(
        hello, ended->status.run(),
        absl::StrCat("at ",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", ended->ended_at,
                                      absl::UTCTimeZone())));
  }
  v1::JobSettings settings = hello.settings();
  if (hello.job() == only_job_) {
    settings = only_settings_;
  } else if (!only_job_.empty()) {
    // This daemon never has a job of another name, so waiting does not help.
    return WithRefusalCode(
        absl::PermissionDeniedError(
            absl::StrCat("this daemon has job ", only_job_, " only, not ",
                         hello.job(), "; check --job, or use the join string")),
        v1::REFUSAL_CODE_OTHER_JOB);
  } else if (!FillNodes(settings)) {
    return absl::NotFoundError(
        absl::StrCat("there is no job ", hello.job(),
                     " here yet; give --nodes to make it, or check --job"));
  }
  if (absl::Status room = CheckRoom(made_by); !room.ok()) return room;
  *made = true;
  LiveJob& live = Make(hello.job(), settings, now, known);
  live.made_by = made_by;
  if (only_job_.empty()) live.job.EndUnattended();
  return &live;
}

absl::Status JobTable::CheckRoom(const std::string& made_by) const {
  if (live_.size() >= Limits::jobs_per_daemon_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this daemon already has ", Limits::jobs_per_daemon_max,
        " jobs, the most there can be; wait for one to end, or stop one"));
  }
  if (made_by.empty()) return absl::OkStatus();
  const auto gathering =
      std::count_if(live_.begin(), live_.end(), [&](const auto& entry) {
        return entry.second.made_by == made_by && !entry.second.job.HasRun();
      });
  if (static_cast<size_t>(gathering) < Limits::gathering_jobs_per_token_max) {
    return absl::OkStatus();
  }
  // Unlike the limit above, this one is reached only for a while, so agents
  // redial.
  return WithRefusalCode(
      absl::ResourceExhaustedError(absl::StrCat(
          "token ", made_by, " has made ", Limits::gathering_jobs_per_token_max,
          " jobs that have not run yet, the most there can be; wait for one to "
          "run or end, stop one, or make a token of your own with `rollcall "
          "token create`")),
      v1::REFUSAL_CODE_NO_JOB);
}

absl::StatusOr<LiveJob*> JobTable::TakeBack(const std::string& job,
                                            absl::Time now) {
  if (!set_back_.contains(job)) return nullptr;
  CHECK(journal_ != nullptr);
  absl::StatusOr<std::optional<JournaledRun>> run = journal_->Load(job);
  if (!run.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the daemon's journal cannot be read: ",
                     std::string(run.status().message())));
  }
  set_back_.erase(job);
  if (run->has_value()) TakeUp(**run, now);
  return Find(job);
}

absl::StatusOr<std::string> JobTable::Resolve(const std::string& job) const {
  if (!job.empty()) return job;
  if (!only_job_.empty()) return only_job_;
  if (live_.size() == 1) return live_.begin()->first;
  if (live_.empty() && ended_.size() == 1) return ended_.begin()->first;
  if (live_.empty()) return absl::NotFoundError("this daemon has no job");
  return absl::NotFoundError(absl::StrCat("this daemon has ", live_.size(),
                                          " jobs; name one with --job"));
}

absl::StatusOr<v1::JobStatus> JobTable::Status(const std::string& job,
                                               absl::Time now) const {
  const auto at = live_.find(job);
  if (at != live_.end()) return at->second.Status(now);
  if (const EndedJob* ended = FindEnded(job)) return ended->status;
  return absl::NotFoundError(
      absl::StrCat("this daemon has no job ", job, "; check --job"));
}

std::vector<std::string> JobTable::Names() const {
  std::set<std::string> names;
  for (const auto& [name, live] : live_) names.insert(name);
  for (const auto& [name, ended] : ended_) names.insert(name);
  return {names.begin(), names.end()};
}

void JobTable::Forget(const std::string& job, absl::Time now) {
  const auto at = live_.find(job);
  CHECK(at != live_.end());
  CHECK(at->second.job.end().has_value());
  EndedJob ended{at->second.Status(now),
                 *at->second.job.end(),
                 std::move(at->second.settings),
                 now + kRemembered,
                 machine_.WallNow(),
                 at->second.job.node_epochs()};
  // The job no longer lingers.
  if (ended.status.state() == v1::JOB_STATE_LINGERING) {
    ended.status.set_state(v1::JOB_STATE_FAILED);
    ended.status.clear_lingers();
  }
  live_.erase(at);
  Remember(job, std::move(ended));
}

void JobTable::Remember(const std::string& job, EndedJob ended) {
  ended_.insert_or_assign(job, std::move(ended));
  if (ended_.size() <= Limits::jobs_per_daemon_max) return;
  ended_.erase(std::min_element(
      ended_.begin(), ended_.end(), [](const auto& a, const auto& b) {
        return a.second.forgotten_at < b.second.forgotten_at;
      }));
}

void JobTable::SetBack(const std::string& job) {
  live_.erase(job);
  set_back_.insert(job);
  if (set_back_.size() > Limits::jobs_per_daemon_max) {
    set_back_.erase(set_back_.begin());
  }
}

}  // namespace rollcall
