// Job: one run of one job, as a value that is stepped.
//
// This is the whole protocol of the daemon's side: the roll call, the forming
// of worlds in two phases (propose, commit), what happens when something is
// lost, and the end. It does no I/O, reads no clock, draws no random number and
// starts no thread: the shell (daemon/server/loop) tells it what happened and
// when, and carries out what it returns.
//
// Thread rule: one thread at a time; in practice the loop thread only.
//
// Invariants, checked after each Step:
//   1. Generations only grow, and no generation is proposed twice.
//   2. A proposal is journaled before it is sent, and so is a commit: in the
//      returned actions the Journal stands before the Send.
//   3. No seat is held by two nodes; node ranks are dense; ranks are dense.
//   4. A node has at most one living stream.
//   5. Every map is bounded by limits.h.
#ifndef ROLLCALL_DAEMON_CORE_JOB_H_
#define ROLLCALL_DAEMON_CORE_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/exchange.h"
#include "daemon/core/limits.h"
#include "daemon/core/root_cause.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What a journal says of the job's last run; see Journal::Kind.
struct JournalState {
  std::string run;
  v1::JobSettings settings;
  // Highest generation that was ever proposed; 0: none.
  uint64_t generation = 0;
  // The last generation, where it was proposed and has not ended.
  std::optional<v1::Proposal> proposal;
  // Its seal, where it was committed.
  std::optional<v1::Seal> seal;
  // The run has ended.
  std::optional<v1::End> end;
  uint32_t restarts_charged = 0;
};

class Job {
 public:
  // A new run. `run` is a random id. `settings`: unset fields get limits.h's
  // defaults; nodes_min and nodes_max must be set, 1 <= min <= max.
  Job(std::string job, std::string run, const v1::JobSettings& settings,
      const Limits& limits, absl::Time now);

  // Goes on with a run from its journal. `state.end` must be unset.
  static Job Restore(std::string job, const JournalState& state,
                     const Limits& limits, absl::Time now);

  // To be carried out once, before the first Step: journals a new run.
  std::vector<Action> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<Action> Step(const Event& event, absl::Time now);

  // When the next Tick is due at the latest; InfiniteFuture: never.
  absl::Time NextDeadline() const;

  // A snapshot for `status`.
  v1::JobStatus Status(absl::Time now) const;

  // Grows with every change that Status shows, heartbeats apart.
  uint64_t revision() const { return revision_; }
  // Whether a credential is the one that this node's incarnation was given.
  bool CredentialFits(const v1::Hello& hello) const;

  const std::string& name() const { return job_; }
  const std::string& run() const { return run_; }
  v1::JobState state() const;
  // Set once the job has ended.
  const std::optional<v1::End>& end() const { return end_; }
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_H_
