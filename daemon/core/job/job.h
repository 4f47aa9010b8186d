// Job: one run of one job, as a value that is stepped.
//
// This is the whole protocol of the daemon: attending, forming worlds in two
// phases (propose, commit), losses, and the end. It does no I/O, reads no
// clock, draws no random number and starts no thread. The shell
// (daemon/server/loop) passes in events with their time and carries out the
// returned actions.
//
// state/ has what a job remembers; handlers/ has what each kind of event leads
// to; acts/ has what several handlers do. A group of functions calls only the
// groups below it.
//
// Thread rule: one thread at a time; in practice the loop thread only.
//
// The invariants are in daemon/core/invariants.h; the simulator checks them
// over whole runs. Each Step checks the bounds of its own containers. A Step
// that makes a world also checks that no seat is held twice.
#ifndef ROLLCALL_DAEMON_CORE_JOB_JOB_H_
#define ROLLCALL_DAEMON_CORE_JOB_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/job/state/job_keys.h"
#include "daemon/core/job/state/job_report.h"
#include "daemon/core/job/state/job_state.h"
#include "daemon/core/job/state/journal_state.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Job {
 public:
  // A new run. `run` is a random id. Unset fields of `settings` get the
  // defaults of limits.h; nodes_min and nodes_max must be set, 1 <= min <= max.
  Job(std::string job, std::string run, const v1::JobSettings& settings,
      const Limits& limits, absl::Time now);

  // OK if Restore accepts this state. INVALID_ARGUMENT: the run has ended, or
  // no daemon can have journaled these settings or this generation.
  static absl::Status CheckJournal(const JournalState& state);

  // Continues a run from its journal, which CheckJournal has passed. If the
  // journaled world is not valid, it is ignored and a new world is formed.
  static Job Restore(std::string job, const JournalState& state,
                     const Limits& limits, absl::Time now);

  // Returns the actions that journal a new run. Call once, before the first
  // Step.
  std::vector<Action> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<Action> Step(const Event& event, absl::Time now);

  // When the next Tick is due at the latest; InfiniteFuture: none is due.
  absl::Time NextDeadline() const;

  // What the job tells people of itself. Valid until the next Step.
  JobReport Report() const { return JobReport(state_); }
  // A snapshot for `status`.
  v1::JobStatus Status(absl::Time now) const { return Report().Status(now); }

  // The nodes' latest probes of each other, for `status --pings`.
  v1::Pings Pings(absl::Time now) const;

  // Increases with every change that Status shows, except heartbeats.
  uint64_t revision() const { return state_.out.revision(); }
  // False if another incarnation has replaced the one whose credential this
  // Hello shows.
  bool CredentialStands(const v1::Hello& hello) const;
  // The epochs that credentials of this run must have. Requires IsRun(run).
  const NodeEpochs& EpochsOf(const std::string& run) const {
    return state_.credentials.EpochsOf(run);
  }
  const NodeEpochs& node_epochs() const { return state_.credentials.epochs(); }
  // Names of the nodes that this token admitted, including nodes that are gone.
  std::vector<std::string> AdmittedBy(const std::string& token_id) const {
    return state_.credentials.epochs().AdmittedBy(token_id);
  }
  // Whether this job may still adopt the run of its agents: the daemon has no
  // memory of the job and has formed no world.
  bool MayAdopt() const { return state_.adoption.possible(); }
  // Call before the first Step. Without keys, a Welcome has no credential and a
  // commit no proof.
  void UseKeys(const JobKeys& keys) {
    state_.credentials.UseKey(keys.credential);
    state_.formation.UseKey(keys.commit_proof);
    state_.vetting.UseKey(keys.probe_secret);
  }
  // Call before the first Step, if no journal has the job and the daemon has a
  // shared secret.
  void AllowAdoption() { state_.adoption.Allow(); }
  // Call before the first Step, if a Hello created the job: while the job has
  // never run, it ends if no node attends for reattach_grace.
  void EndUnattended() { state_.gathering.unattended().Allow(); }
  // Call before the first Step: what was recorded before this daemon began to
  // take steps. The run may be this one or the one before it. A recorded step
  // that is too high causes one false warning, and nothing else.
  void UseLastStep(LastStep last) { state_.steps.UseLast(std::move(last)); }
  // Whether a world of this run was committed, or may have been.
  bool HasRun() const { return state_.HasRun(); }
  // Whether an agent of this run may know it by this id.
  bool IsRun(const std::string& run) const { return state_.IsRun(run); }
  // Whether the job has a node of this name that is not gone.
  bool Knows(const std::string& node) const { return state_.Knows(node); }
  // Whether the job has admitted a node of this name and remembers it; the node
  // may be gone. EvictAsked accepts such names.
  bool HasAdmitted(const std::string& node) const {
    return state_.membership.Find(node) != nullptr ||
           state_.credentials.epochs().Has(node);
  }
  // Whether EvictAsked for this name must evict its former agent: the next
  // world waits for the former agent, and another agent has the name now.
  bool EvictsFormer(const std::string& node) const {
    return state_.FenceLeft(state_.now) > absl::ZeroDuration() &&
           state_.fence().IsTakenOver(node, state_.membership);
  }
  bool Attends(SessionId session) const {
    return state_.membership.Attends(session);
  }
  // Whether a token has admitted this incarnation of the agent and the agent
  // may not know that: it has sent nothing since its Welcome, so the Welcome
  // may be lost.
  bool AwaitsWord(const v1::Hello& hello) const;
  // Whether `hello` shows one of the two latest credentials that this daemon
  // gave to the node, and its lifetime has not passed on the monotonic clock.
  bool ShowsRecentCredential(const v1::Hello& hello, absl::Time now) const;
  // Whether the incarnation in `hello` is known to have its credential: it
  // attended with one, or it has sent a message since its Welcome. For a
  // restored node: whether it is the incarnation in the world commit.
  bool HasCredential(const v1::Hello& hello) const;

  const std::string& name() const { return state_.name(); }
  const std::string& run() const { return state_.run(); }
  v1::JobState state() const { return Report().State(); }
  // The generation that was proposed last, or that was taken up since; 0: none.
  uint64_t generation() const { return state_.generation(); }
  // Why the current world was formed; while the next one is awaited, why the
  // last one ended.
  const v1::Reform& last_reform() const { return Report().LastReform(); }
  // Set once the job has ended.
  const std::optional<v1::End>& end() const { return state_.ending.end(); }

 private:
  JobState state_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_JOB_H_
