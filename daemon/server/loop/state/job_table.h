// JobTable: the jobs of one daemon by name: live jobs and, for a while, ended
// ones.
//
// It creates jobs (from options, from a Hello's settings, from the journal) but
// does not step them. It has at most jobs_per_daemon_max live jobs, and as many
// ended ones.
//
// Thread rule: the loop thread only.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_JOB_TABLE_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_JOB_TABLE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/machine.h"
#include "daemon/core/job/history_recorder.h"
#include "daemon/core/job/job.h"
#include "daemon/core/limits.h"
#include "daemon/core/tick_timer.h"
#include "daemon/journal/journal.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/server/loop/state/logger.h"

namespace rollcall {

struct LiveJob {
  Job job;
  v1::JobSettings settings;
  TickTimer tick = {};
  // Id of the token that created the job; empty: the daemon itself or an admin
  // created it.
  std::string made_by;
  HistoryRecorder history = {};

  // The job's status with its history.
  v1::JobStatus Status(absl::Time now) const {
    v1::JobStatus status = job.Status(now);
    *status.mutable_history() = history.history();
    return status;
  }
};

// What is kept of a job that has ended.
struct EndedJob {
  v1::JobStatus status;
  v1::End end;
  v1::JobSettings settings;
  absl::Time forgotten_at;
  // When the job ended; wall clock.
  absl::Time ended_at;
  // Kept because agents of the job may still come with their credentials to
  // learn how it ended.
  NodeEpochs node_epochs;
};

// Keys of the credentials and proofs that jobs issue.
struct HandedKeys {
  // Key of node credentials.
  std::string credential;
  // Key of commit proofs; empty: the daemon has no shared secret.
  std::string proof;
};

class JobTable {
 public:
  // How long a standing daemon remembers how a job ended.
  static constexpr absl::Duration kRemembered = absl::Hours(1);

  // `only_job` and `only_settings`: the name and settings of the daemon's
  // single job; empty: the daemon has many jobs. `journal` may be null.
  // `journal` and `logger` must outlive the table.
  JobTable(const Limits& limits, std::string only_job,
           v1::JobSettings only_settings, HandedKeys keys,
           JournalStore* journal, Logger& logger,
           Machine& machine = RealMachine(),
           std::function<std::string(size_t)> random = RandomBytes);

  // Restores the journal's content: unfinished runs, and the ends of runs that
  // ended within the last hour. A run that cannot continue is logged and
  // skipped. FAILED_PRECONDITION, UNAVAILABLE: errors of the journal.
  absl::Status Restore(absl::Time now);

  // Creates a new run of the daemon's only job.
  LiveJob& MakeOnlyJob(absl::Time now);

  LiveJob* Find(const std::string& job);
  const EndedJob* FindEnded(const std::string& job) const;

  // Reads a job that was set back (SetBack) from the journal again; the caller
  // must run its Start. Null: the job was not set back, or is not in the
  // journal. UNAVAILABLE: the journal cannot be read now.
  absl::StatusOr<LiveJob*> TakeBack(const std::string& job, absl::Time now);

  // Returns the job that this Hello attends. `made`: the job was created now,
  // and the caller must run its Start. Null: the job has ended, see FindEnded.
  //
  // With several jobs, an agent that had no part in the ended run cannot prove
  // that it belongs to that run, and every client with a token can make a run
  // of any name end with success. So such an agent never learns of a success.
  // If its Hello has the number of nodes, it begins another run; otherwise it
  // waits for one.
  //
  // `made_by`: id of the token to which a created job is counted; empty: none.
  // NOT_FOUND: there is no such job and the Hello has no settings to create it;
  // or its last run has ended and the next one cannot begin yet.
  // PERMISSION_DENIED: the daemon has a single job of another name.
  // RESOURCE_EXHAUSTED: the daemon has the maximum number of jobs, or this
  // token the maximum number of jobs that have not run.
  absl::StatusOr<LiveJob*> ForHello(const v1::Hello& hello,
                                    const std::string& made_by, absl::Time now,
                                    bool* made);

  // Returns the job that a request names; if it names none, the daemon's only
  // job. NOT_FOUND: the request names none, and there are several jobs or none.
  absl::StatusOr<std::string> Resolve(const std::string& job) const;
  // NOT_FOUND: there is no such job.
  absl::StatusOr<v1::JobStatus> Status(const std::string& job,
                                       absl::Time now) const;

  // Names of all jobs, including ended ones, in order.
  std::vector<std::string> Names() const;

  // Moves a job that has ended from the live jobs to the ended ones.
  void Forget(const std::string& job, absl::Time now);
  // Called when the job's journal entry could not be written. Removes the job,
  // which is to be read again from the journal.
  void SetBack(const std::string& job);
  const std::set<std::string>& set_back() const { return set_back_; }

  std::map<std::string, LiveJob>& live() { return live_; }
  const std::map<std::string, LiveJob>& live() const { return live_; }

 private:
  LiveJob& Make(const std::string& job, const v1::JobSettings& settings,
                absl::Time now, bool known);
  // RESOURCE_EXHAUSTED: as in ForHello.
  absl::Status CheckRoom(const std::string& made_by) const;
  bool NothingIsKnownOf(const std::string& job) const;
  JobKeys KeysOf(const std::string& job) const;
  void TakeUp(const JournaledRun& run, absl::Time now);
  absl::Status CheckTakeUp(const JournalState& state) const;
  void Remember(const std::string& job, EndedJob ended);

  const Limits limits_;
  const std::string only_job_;
  const v1::JobSettings only_settings_;
  const HandedKeys keys_;
  // Random for each start of the daemon, so that results of probes from before
  // a restart are not accepted.
  const std::string probe_key_;
  JournalStore* const journal_;
  Logger& logger_;
  Machine& machine_;
  const std::function<std::string(size_t)> random_;
  std::map<std::string, LiveJob> live_;
  std::map<std::string, EndedJob> ended_;
  // Removed jobs that are to be read from the journal again.
  std::set<std::string> set_back_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_JOB_TABLE_H_
