// Loop: the one thread that owns all jobs.
//
// It takes all that waits in its inbox, steps the jobs, commits what they want
// journaled once for the whole batch, and only then carries out what they want
// sent, in order. What could not be made durable is not sent: the streams of
// such a job are ended with UNAVAILABLE, and the job goes on from its journal,
// as after a restart. Where several daemons share the journal, nothing is sent
// either once this one leads no more.
//
// Thread rule: the inbox and Wait from any thread, Start and Stop from the
// owner's; everything else is private to the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/base/machine.h"
#include "daemon/base/mutex.h"
#include "daemon/core/job/events.h"
#include "daemon/core/limits.h"
#include "daemon/core/log_quota.h"
#include "daemon/journal/journal.h"
#include "daemon/security/digest.h"
#include "daemon/security/token_table.h"
#include "daemon/server/loop/access.h"
#include "daemon/server/loop/agent_stream.h"
#include "daemon/server/loop/broadcast.h"
#include "daemon/server/loop/call_quota.h"
#include "daemon/server/loop/job_table.h"
#include "daemon/server/loop/logger.h"
#include "daemon/server/loop/loop_observer.h"
#include "daemon/server/loop/stream.h"
#include "daemon/server/loop/watch_list.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// --- What is posted to the loop ---------------------------------------------

// Always the first that is heard of a session.
struct StreamOpened {
  SessionId session;
  // Shared with the call, which may end at any time.
  std::shared_ptr<Stream> stream;
};
// Admission has passed it.
struct HelloCame {
  SessionId session;
  v1::Hello hello;
  std::string observed_address;
  std::string peer;  // See PeerKey.
  // Set where node names are bound to them (--tls-bind-names): the names of the
  // certificate that its connection has shown.
  std::optional<std::vector<std::string>> certificate_names;
  // By this machine's wall clock.
  absl::Time received_at;
};
struct MessageCame {
  SessionId session;
  v1::AgentMessage message;
  size_t bytes;
};
// Always the last.
struct StreamGone {
  SessionId session;
};

// The admin calls. `reply` is called on the loop's thread, once, and must not
// block.
template <typename Request, typename Response>
struct Call {
  Caller caller;
  Request request;
  std::function<void(const absl::StatusOr<Response>&)> reply;
};
struct StatusAsked : Call<v1::StatusRequest, v1::JobStatus> {
  // Kept until the answer has been sent; before `reply`, at most once.
  std::function<void(CallQuota::Hold)> keep;
};
struct StopCame : Call<v1::StopRequest, v1::StopResponse> {};
struct DrainCame : Call<v1::DrainRequest, v1::DrainResponse> {};
struct EvictCame : Call<v1::EvictRequest, v1::EvictResponse> {};
struct TokenWanted : Call<v1::CreateTokenRequest, v1::CreateTokenResponse> {};
struct TokensAsked : Call<v1::ListTokensRequest, v1::ListTokensResponse> {};
struct TokenRevoked : Call<v1::RevokeTokenRequest, v1::RevokeTokenResponse> {};
struct TokenRotated : Call<v1::RotateTokenRequest, v1::CreateTokenResponse> {};

struct WatchOpened {
  uint64_t id;
  Caller caller;
  std::string job;
  std::shared_ptr<Watcher> watcher;  // As StreamOpened::stream.
};
struct WatchGone {
  uint64_t id;
};
// By Loop::Stop.
struct Quit {
  absl::Status why;
};

using LoopInput =
    std::variant<StreamOpened, HelloCame, MessageCame, StreamGone, StatusAsked,
                 StopCame, DrainCame, EvictCame, TokenWanted, TokensAsked,
                 TokenRevoked, TokenRotated, WatchOpened, WatchGone, Quit>;

// Answers what cannot be dealt with, where somebody waits for an answer.
void Decline(LoopInput& input, const absl::Status& status);

class Loop {
 public:
  struct Options {
    Limits limits;
    // Both as ServerOptions has them.
    std::string only_job;
    v1::JobSettings only_settings;
    bool resume = false;
    // Of node credentials.
    std::string credential_key;
    // Of commit proofs; empty: no shared secret, and no run is adopted.
    std::string proof_key;
    std::vector<SeededToken> tokens;
    // As ServerOptions has it; called on the loop's thread.
    KeepToken keep_token;
    // What became of connections before they were calls; may be empty.
    std::function<v1::Strangers()> strangers;
    // A connection has authenticated; `viewer`: see Guests::Know. May be empty.
    std::function<void(const std::string& peer, const std::string& viewer)>
        known;
    // A connection has shown the right to attend: see Guests::Attend. May be
    // empty.
    std::function<absl::StatusOr<AgentStream>(const std::string& peer,
                                              const AgentRight& right)>
        attends;
    // See Guests::ArrivedAt. May be empty.
    std::function<std::string(const std::string& peer)> arrived_at;
    // Whether this daemon leads, of several that share a journal; empty: it is
    // the only one. Once it does not, nothing more is said under this loop:
    // what is not on its way yet is dropped, and all streams are ended.
    std::function<bool()> leads;
    // Called by the loop's thread every kBeatEvery while it gets on; must not
    // block. May be empty.
    std::function<void()> beat;
    // Called by the loop's thread when the journal cannot be written any more,
    // with the reason, and with OK once it was written again; must not block.
    // May be empty.
    std::function<void(const absl::Status&)> journal_changed;
    // So many bytes, of run ids and keys, that nobody can guess.
    std::function<std::string(size_t)> random = RandomBytes;
    // Where it runs; must outlive the loop.
    Machine* machine = &RealMachine();
    // May be null; must outlive the loop.
    LoopObserver* observer = nullptr;
  };
  static constexpr absl::Duration kBeatEvery = absl::Seconds(2);

  // `journal` may be null; it and `logger` must outlive the loop.
  Loop(Options options, JournalStore* journal, Logger& logger);
  ~Loop();

  // Takes up what the journal holds and starts the thread.
  absl::Status Start();

  Inbox<LoopInput>& inbox() { return inbox_; }

  // Blocks until the only job has ended and is forgotten, or Stop.
  std::optional<v1::End> Wait();

  // Ends all streams and calls and the thread; nothing can be posted from then
  // on. From one thread that is not the loop's. `why`: what they are told; OK:
  // that the daemon is going down.
  void Stop(absl::Status why = absl::OkStatus());

 private:
  struct Session {
    std::shared_ptr<Stream> stream;
    // Keeps its connection, and counts its messages; see Options::attends.
    AgentStream connection;
    // Empty: it has not attended.
    std::string job;
    std::string node;
    // Where its Hello came from.
    std::string address;
    bool greeted = false;
    // We have ended it; what it still says is not heard.
    bool closed = false;
    // When it is ended unless something happens before.
    absl::Time expires = absl::InfiniteFuture();
  };

  // Told whether the batch became durable.
  using Answer = std::function<void(const absl::Status&)>;
  // An action that waits for the batch's commit, or an answer that does.
  struct Effect {
    std::string job;
    std::variant<Send, CloseStream, Log, Forget, Answer> what;
  };

  void Run();
  void TakeAll(absl::Duration timeout);
  void On(StreamOpened& opened);
  void On(HelloCame& came);
  void On(MessageCame& came);
  void On(StreamGone& gone);
  void On(StatusAsked& asked);
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
  // It leads no more: drops what the batch has gathered, and ends.
  void StandDown();
  // Ends all streams and calls.
  void EndAll(const absl::Status& status);

  // Whether an admin call goes on, with its job filled in; otherwise it is
  // answered, now or later.
  template <typename AdminCall>
  bool Permit(AdminCall& call, TokenTable::For purpose, const char* doing);
  void Known(const Caller& caller);
  // Connections that ended before they authenticated.
  uint64_t FailedConnections() const;
  // Evicts what this token admitted, in all jobs or in `only`; `answer` gets
  // the names, once all of it is durable.
  void Cascade(
      const std::string& token_id, const std::string& only,
      std::function<void(const absl::StatusOr<std::vector<std::string>>&)>
          answer);
  // With what was refused to whom.
  v1::JobStatus WithBooks(v1::JobStatus status) const;
  // By what a Hello that has shown its right is let in. `live`: its job; may be
  // null.
  AgentRight RightOf(const v1::Hello& hello, const LiveJob* live) const;
  // Ends a session that is turned away, now or later.
  void TurnAway(SessionId id, const Denial& denial);
  void Later(absl::Duration wait, std::function<void()> what);
  void RunDelayed(absl::Time now);

  void AnswerEnded(Session& session, SessionId id, const HelloCame& came,
                   const EndedJob& ended);
  void Step(LiveJob& live, const Event& event);
  void Collect(const Job& job, std::vector<Action> actions);
  void Tick(absl::Time now);
  void ExpireSessions(absl::Time now);
  void SetExpiry(Session& session, SessionId id, absl::Time expires);

  // What the batch has gathered: journaled, then carried out.
  void Commit();
  // An append has gone so.
  void NoteJournal(const absl::Status& written);
  // The batch could not be appended: each job's part by itself, where the
  // reason may be that of one job alone. Those that cannot be written are set
  // back.
  void AppendByJob(absl::Status why);
  // By job, why its part could not be written.
  void SetBackJobs(const std::map<std::string, absl::Status>& failed);
  void TakeBackJobs(absl::Time now);
  absl::Status TakeBack(const std::string& job, absl::Time now);
  // A run goes on from the journal.
  void StartTakenUp(LiveJob& live, absl::Time now);
  void Beat(absl::Time now);
  void TakeUpOnlyJob(absl::Time now);
  void CarryOut(const Send& send);
  // Where more waits for all agents than may: those for whom most waits.
  void EndSlowStreams();
  void CarryOut(const CloseStream& close);
  void CarryOut(const Log& log);
  // How many lines of LogQuota were not written.
  void TellSuppressed(absl::Time now);
  void CloseSession(Session& session, SessionId id, absl::StatusCode code,
                    const v1::Refusal& refusal);
  void ForgetJob(const std::string& job);

  absl::Time NextWake(absl::Time now);

  const Options options_;
  JournalStore* const journal_;
  Logger& logger_;
  Inbox<LoopInput> inbox_;

  Access access_;
  // Of the latest batch.
  absl::Status tokens_saved_;
  LogQuota log_quota_;
  // Answers that wait, at most kDelayedMax.
  std::multimap<absl::Time, std::function<void()>> delayed_;
  JobTable jobs_;
  WatchList watches_;
  CallQuota status_calls_{Limits::status_calls_per_viewer_max};
  absl::flat_hash_map<SessionId, Session> sessions_;
  // Those that were not let in yet, the oldest first.
  std::set<SessionId> strangers_;
  // Sessions with a finite expiry.
  std::set<std::pair<absl::Time, SessionId>> expiries_;
  std::vector<JournalEntry> entries_;
  // What journal_changed was told last.
  bool journal_works_ = true;
  std::vector<Effect> effects_;
  size_t effects_bytes_ = 0;  // Of the messages in them.
  const UnreadBytes unread_ = std::make_shared<std::atomic<size_t>>(0);
  bool quit_ = false;
  // When the only job's end, read from the journal, was told long enough.
  absl::Time over_at_ = absl::InfiniteFuture();
  // When jobs that were set back are taken back.
  absl::Time take_back_at_ = absl::InfiniteFuture();
  absl::Time beat_at_ = absl::InfinitePast();

  Mutex mutex_;
  CondVar ended_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::End> end_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Machine::Thread> thread_;  // Null: it does not run.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
