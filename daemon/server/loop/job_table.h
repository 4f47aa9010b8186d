// JobTable: the jobs of one daemon by name, those that live and, for a while,
// those that have ended.
//
// It makes jobs (from options, from a Hello's settings, from the journal) and
// steps none. Bounded by jobs_per_daemon_max of each kind.
//
// Thread rule: the loop thread alone.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_JOB_TABLE_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_JOB_TABLE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/machine.h"
#include "daemon/core/job/job.h"
#include "daemon/core/limits.h"
#include "daemon/journal/journal.h"
#include "daemon/security/digest.h"
#include "daemon/server/loop/logger.h"

namespace rollcall {

struct LiveJob {
  Job job;
  v1::JobSettings settings;
  // When it is next ticked; kept here so that lateness can be measured.
  absl::Time due = absl::InfiniteFuture();
  // Id of the token that made it; empty: the daemon's own, or an admin's.
  std::string made_by;
};

// What is left of a job that has ended.
struct EndedJob {
  v1::JobStatus status;
  v1::End end;
  v1::JobSettings settings;
  absl::Time forgotten_at;
  // By the wall clock.
  absl::Time ended_at;
  // Its agents may still come by their credentials and hear how it ended.
  NodeEpochs node_epochs;
};

// The keys of what jobs hand out.
struct HandedKeys {
  // Of node credentials.
  std::string credential;
  // Of commit proofs; empty: the daemon has no shared secret.
  std::string proof;
};

class JobTable {
 public:
  // How long a standing daemon remembers how a job ended.
  static constexpr absl::Duration kRemembered = absl::Hours(1);

  // `only_job`: not empty where the daemon has one job alone, with its
  // settings. `journal` may be null; it and `logger` must outlive the table.
  JobTable(const Limits& limits, std::string only_job,
           v1::JobSettings only_settings, HandedKeys keys,
           JournalStore* journal, Logger& logger,
           Machine& machine = RealMachine(),
           std::function<std::string(size_t)> random = RandomBytes);

  // Takes up what the journal holds: unfinished runs, and the ends of others
  // within the last hour. A run that cannot go on is logged and left out.
  // FAILED_PRECONDITION, UNAVAILABLE: as the journal's.
  absl::Status Restore(absl::Time now);

  // A new run of the daemon's only job.
  LiveJob& MakeOnlyJob(absl::Time now);

  LiveJob* Find(const std::string& job);
  const EndedJob* FindEnded(const std::string& job) const;

  // A job that was set back is read again; null: it was not, or there is
  // nothing of it. Its Start is due. UNAVAILABLE: it stands in a journal that
  // cannot be read now.
  absl::StatusOr<LiveJob*> TakeBack(const std::string& job, absl::Time now);

  // The job that this Hello shall attend; `made` where it had to be made, and
  // its Start is due. Null: it has ended, see FindEnded.
  //
  // With several jobs, an agent that had no part in the run that has ended
  // cannot prove that it belonged to it, and any holder of a token can end a
  // run of any name with success. So it is never told of a success: if it
  // brings the number of nodes it begins another run, otherwise it waits for
  // one.
  //
  // `made_by`: id of the token that a job which this makes is counted for;
  // empty: for none. NOT_FOUND: no such job, and no settings to make it with;
  // or its last run has ended, and the next one cannot begin yet.
  // RESOURCE_EXHAUSTED: the daemon, or this token, has all the jobs it may.
  absl::StatusOr<LiveJob*> ForHello(const v1::Hello& hello,
                                    const std::string& made_by, absl::Time now,
                                    bool* made);

  // The name that a request means: empty is the daemon's only job.
  // NOT_FOUND: there is none of that name, or several to choose from.
  absl::StatusOr<std::string> Resolve(const std::string& job) const;
  // NOT_FOUND as above.
  absl::StatusOr<v1::JobStatus> Status(const std::string& job,
                                       absl::Time now) const;

  // The job has ended and lingers no more.
  void Forget(const std::string& job, absl::Time now);
  // Its journal could not be written: it is dropped, and to be taken back from
  // what is durable.
  void SetBack(const std::string& job);
  const std::set<std::string>& set_back() const { return set_back_; }

  std::map<std::string, LiveJob>& live() { return live_; }

 private:
  LiveJob& Make(const std::string& job, const v1::JobSettings& settings,
                absl::Time now, bool known);
  // RESOURCE_EXHAUSTED: as ForHello says.
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
  // Of one life of the daemon: what probers learned in another proves nothing.
  const std::string probe_key_;
  JournalStore* const journal_;
  Logger& logger_;
  Machine& machine_;
  const std::function<std::string(size_t)> random_;
  std::map<std::string, LiveJob> live_;
  std::map<std::string, EndedJob> ended_;
  // Dropped, and to be read from the journal.
  std::set<std::string> set_back_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_JOB_TABLE_H_
