// Loop: the one thread that owns all jobs.
//
// It takes everything from its inbox, steps the jobs, commits their journal
// entries once for the whole batch, and only then carries out their sends, in
// order. If entries of a job could not be made durable, nothing of that job is
// sent. Instead its streams are ended with UNAVAILABLE, and the job continues
// from the journal, as after a restart. If several daemons share the journal,
// nothing is sent after this one stops leading.
//
// Thread rule: the inbox and Wait from any thread, Start and Stop from the
// owner's thread; everything else is private to the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/base/machine.h"
#include "daemon/base/mutex.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/core/log_quota.h"
#include "daemon/journal/journal.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token_table.h"
#include "daemon/server/events/event_log.h"
#include "daemon/server/loop/access.h"
#include "daemon/server/loop/batch.h"
#include "daemon/server/loop/call_quota.h"
#include "daemon/server/loop/delayed_calls.h"
#include "daemon/server/loop/job_table.h"
#include "daemon/server/loop/logger.h"
#include "daemon/server/loop/loop_input.h"
#include "daemon/server/loop/loop_observer.h"
#include "daemon/server/loop/session_table.h"
#include "daemon/server/loop/snapshots.h"
#include "daemon/server/loop/streams/agent_stream.h"
#include "daemon/server/loop/watch_list.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Loop {
 public:
  struct Options {
    Limits limits;
    // Both as in ServerOptions.
    std::string only_job;
    v1::JobSettings only_settings;
    bool resume = false;
    // Key of node credentials.
    std::string credential_key;
    // Key of commit proofs; empty: there is no shared secret, so no run is
    // adopted.
    std::string proof_key;
    std::vector<SeededToken> tokens;
    // As in ServerOptions; called on the loop's thread.
    KeepToken keep_token;
    // Returns counts of connections that ended before they authenticated; may
    // be empty.
    std::function<v1::UnauthenticatedCounts()> unauthenticated;
    // A connection has authenticated; `viewer`: see
    // UnauthenticatedConnections::Know. May be empty.
    std::function<void(const std::string& peer, const std::string& viewer)>
        known;
    // A connection has shown the right to attend: see
    // UnauthenticatedConnections::Attend. May be empty.
    std::function<absl::StatusOr<AgentStream>(const std::string& peer,
                                              const AgentRight& right)>
        attends;
    // See UnauthenticatedConnections::ArrivedAt. May be empty.
    std::function<std::string(const std::string& peer)> arrived_at;
    // Returns whether this daemon leads, if several daemons share a journal;
    // empty: it is the only one. Once it does not lead, this loop sends nothing
    // more: it drops queued messages and ends all streams.
    std::function<bool()> leads;
    // Called on the loop's thread every kBeatEvery while the loop makes
    // progress; must not block. May be empty.
    std::function<void()> beat;
    // Called on the loop's thread with the reason when the journal can no
    // longer be written, and with OK when it was written again; must not block.
    // May be empty.
    std::function<void(const absl::Status&)> journal_changed;
    // Returns this many unpredictable bytes, for run ids and keys.
    std::function<std::string(size_t)> random = RandomBytes;
    // Clocks and threads of the loop; must outlive it.
    Machine* machine = &RealMachine();
    // May be null; must outlive the loop.
    LoopObserver* observer = nullptr;
    // Receives what the jobs log. May be null; must outlive the loop.
    EventLog* events = nullptr;
  };
  static constexpr absl::Duration kBeatEvery = absl::Seconds(2);

  // `journal` may be null; it and `logger` must outlive the loop.
  Loop(Options options, JournalStore* journal, Logger& logger);
  ~Loop();

  // Restores the journal's content and starts the thread.
  absl::Status Start();

  Inbox<LoopInput>& inbox() { return inbox_; }

  // Blocks until the only job has ended and is removed, or until Stop. Returns
  // how the job ended; nullopt: it has not.
  std::optional<v1::End> Wait();

  // Ends all streams, all calls and the thread; later posts are declined. To be
  // called from one thread, which is not the loop's. `why`: the status that
  // clients get; OK: they get the error that the daemon shuts down.
  void Stop(absl::Status why = absl::OkStatus());

 private:
  void Run();
  void TakeAll(absl::Duration timeout);
  void On(StreamOpened& opened);
  void On(HelloCame& came);
  void On(MessageCame& came);
  void On(StreamGone& gone);
  void On(StatusAsked& asked);
  void On(EventsAsked& asked);
  void On(SnapshotAsked& asked);
  void On(HealthAsked& asked);
  void On(StopCame& came);
  void On(DrainCame& came);
  void On(EvictCame& came);
  void On(TokenWanted& wanted);
  void On(TokensAsked& asked);
  void On(TokenRevoked& revoked);
  void On(TokenRotated& rotated);
  void On(WatchOpened& opened);
  void On(WatchGone& gone);
  void On(Quit& quit);

  absl::Time Now() const { return options_.machine->Now(); }
  absl::Time WallNow() const { return options_.machine->WallNow(); }
  bool Leads() const { return !options_.leads || options_.leads(); }
  // Called when this daemon no longer leads. Drops the batch's effects and ends
  // the loop.
  void StandDown();
  // Ends all streams and calls.
  void EndAll(const absl::Status& status);

  // Whether the caller may make this admin call; if so, sets the call's job.
  // Otherwise the call is answered, now or later.
  template <typename AdminCall>
  bool Permit(AdminCall& call, TokenTable::For purpose, const char* doing);
  template <typename LargeCall>
  bool TakePlace(LargeCall& call);
  void Known(const Caller& caller);
  // The number of connections that ended before they authenticated.
  uint64_t FailedConnections() const;
  // Returns an Answer that calls `answer` with the result of saving the tokens.
  Batch::Answer WhenSaved(Batch::Answer answer);
  // Evicts the nodes that this token admitted, in the job `only` or (empty) in
  // all jobs. `answer` is called with their names when all evictions are
  // durable.
  void Cascade(
      const std::string& token_id, const std::string& only,
      std::function<void(const absl::StatusOr<std::vector<std::string>>&)>
          answer);
  // The status of a job, with the counts of refusals.
  absl::StatusOr<v1::JobStatus> FullStatus(const std::string& job,
                                           bool pings) const;
  // Adds the counts of refusals, the wall clock and the run's summary.
  v1::JobStatus WithCounters(v1::JobStatus status) const;
  // The right with which an authenticated Hello attends. `live`: its job; may
  // be null.
  AgentRight RightOf(const v1::Hello& hello, const LiveJob* live) const;
  // Ends a refused session, now or later.
  void TurnAway(SessionId id, const Denial& denial);
  void Later(absl::Duration wait, std::function<void()> what);

  void AnswerEnded(Session& session, const HelloCame& came,
                   const EndedJob& ended);
  void Step(LiveJob& live, const Event& event);
  void Collect(const Job& job, std::vector<Action> actions);
  // Starts a run that has just been made, or that continues from the journal.
  std::vector<Action> StartJob(LiveJob& live);
  void Tick(absl::Time now);

  // Journals the batch, then carries out its effects.
  void Commit();
  // Records the result of an append.
  void NoteJournal(const absl::Status& written);
  // Called when the batch could not be appended. Appends each job's part
  // separately, because the cause may be a single job. Jobs whose part cannot
  // be written are set back.
  void AppendByJob(const Batch::Entries& entries, absl::Status why);
  // The keys are jobs; the values say why their part could not be written.
  void SetBackJobs(std::map<std::string, absl::Status> failed);
  void TakeBackJobs(absl::Time now);
  absl::Status TakeBack(const std::string& job, absl::Time now);
  // Starts a job whose run continues from the journal.
  void StartTakenUp(LiveJob& live, absl::Time now);
  void Beat(absl::Time now);
  void TakeUpOnlyJob(absl::Time now);
  void CarryOut(const std::string& job, const Send& send);
  void CarryOut(const std::string& job, const CloseStream& close);
  void CarryOut(const std::string& job, const Log& log);
  void CarryOut(const std::string& job, const Forget& forget);
  void CarryOut(const std::string& job, const Batch::Answer& answer);
  // Logs how many lines LogQuota has suppressed.
  void TellSuppressed(absl::Time now);

  absl::Time NextWake(absl::Time now);

  const Options options_;
  JournalStore* const journal_;
  Logger& logger_;
  Inbox<LoopInput> inbox_;

  Access access_;
  // Result of saving the tokens of the latest batch.
  absl::Status tokens_saved_;
  LogQuota log_quota_;
  // Delayed answers to refused peers.
  DelayedCalls delayed_;
  JobTable jobs_;
  WatchList watches_;
  Snapshots snapshots_;
  CallQuota status_calls_{Limits::status_calls_per_viewer_max};
  SessionTable sessions_;
  Batch batch_;
  // Whether journal_changed was last called with OK.
  bool journal_works_ = true;
  bool quit_ = false;
  // Set if the journal already had the end of the only job: the time until
  // which the loop tells agents of that end.
  absl::Time over_at_ = absl::InfiniteFuture();
  // When jobs that were set back are read from the journal again.
  absl::Time take_back_at_ = absl::InfiniteFuture();
  absl::Time beat_at_ = absl::InfinitePast();

  Mutex mutex_;
  CondVar ended_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::End> end_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Machine::Thread> thread_;  // Null: not running.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
