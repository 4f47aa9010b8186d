// Agent: what one node does in a run, as a value that is stepped.
//
// The counterpart of daemon/core/job: it attends, prepares for proposals,
// starts and stops ranks, and ends. It does no I/O, reads no clock, draws no
// random number and starts no thread; its shell (client/agent/session) tells it
// what happened and carries out what it returns, in order.
//
// Thread rule: one thread at a time.
//
// Invariants:
//   1. It never acts on a generation older than one it has seen.
//   2. It says Prepared(g) only when no rank of an older generation lives here.
//   3. Ranks of g are started once, after Commit(g), and only if Prepared(g)
//      was said.
//   4. Exit comes last, and only when no rank lives.
#ifndef ROLLCALL_CLIENT_AGENT_AGENT_H_
#define ROLLCALL_CLIENT_AGENT_AGENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// --- Events -----------------------------------------------------------------

// The stream is open: Hello may be said.
struct StreamUp {};

// The stream (or the attempt to open it) has ended. `refusal` is set where the
// status carried one.
struct StreamDown {
  absl::Status status;
  std::optional<v1::Refusal> refusal;
  // Somebody answered who is not the daemon.
  bool stranger = false;
  // Uniform in [0, 1), for the jitter of the next delay.
  double jitter = 0.5;
  // Random, not 0: taken if a new incarnation is needed.
  uint64_t fresh_incarnation = 1;
};

struct FromDaemon {
  v1::DaemonMessage message;
};

// The answer to Prepare: everything on this node is in place.
struct PreparationDone {
  uint64_t generation;
  uint32_t master_port = 0;  // Node rank 0 only.
  std::vector<std::string> nccl_ids;
  uint32_t nccl_version = 0;
  std::string nccl_absent;
  std::vector<std::string> warnings;
};

struct PreparationFailed {
  uint64_t generation;
  std::string reason;
};

// A rank's process has ended and been reaped.
struct RankEnded {
  uint64_t generation;
  uint32_t local_rank;
  int code = 0;
  int signal = 0;
  std::string stderr_tail;
  std::string error_file;
};

// The answer to StopRanks: no rank of the generation and no child of one is
// left. Also told by itself once the last rank has ended and been swept after.
struct RanksGone {
  uint64_t generation;
};

// A linked rank gives a value for a key (Rank.Exchange).
struct RankExchanged {
  uint64_t generation;
  uint32_t local_rank;
  std::string key;
  std::string value;
};

// The highest step that a rank has published so far.
struct RankProgressed {
  uint64_t generation;
  uint64_t step;
};

// This agent is to go: SIGTERM, SIGUSR1 or SIGINT. A second one: at once.
struct LeaveAsked {
  int signal;
};

// A signal that means nothing to the agent and may mean something to its ranks
// (SIGUSR2).
struct SignalCame {
  int signal;
};

struct AgentTick {};

using AgentEvent =
    std::variant<StreamUp, StreamDown, FromDaemon, PreparationDone,
                 PreparationFailed, RankEnded, RanksGone, RankExchanged,
                 RankProgressed, LeaveAsked, SignalCame, AgentTick>;

// --- Actions ----------------------------------------------------------------

// Open a stream to the daemon (resolve its name anew). Answered by StreamUp or
// StreamDown. At most one is under way.
struct Dial {};

struct Say {
  v1::AgentMessage message;
};

// End the stream from this side; StreamDown follows.
struct HangUp {};

// Get this node ready for a generation: port (node rank 0), hosts file, world
// files, NCCL ids (node rank 0). Answered by PreparationDone or
// PreparationFailed with the same generation.
struct Prepare {
  v1::World world;
  uint32_t node_rank;
};

// Take back what Prepare did (port, ids, files); the hosts block stays until
// the next Prepare replaces it or Exit takes it out.
struct Undo {
  uint64_t generation;
};

struct StartRanks {
  v1::World world;
  v1::Seal seal;
  uint32_t node_rank;
};

// SIGTERM to each rank's process group, SIGKILL after `grace`, then sweep what
// they left. Repeated with a shorter grace: the shorter one counts.
struct StopRanks {
  uint64_t generation;
  absl::Duration grace;
};

// To every living rank's process group.
struct PassSignal {
  int signal;
};

// All values of a key, or why there are none, for the linked ranks that wait
// for it.
struct AnswerExchange {
  v1::ExchangeOut exchange;
};

// Linked ranks that still wait for keys of this generation get ABORTED.
struct FailExchanges {
  uint64_t generation;
  std::string reason;
};

// For the person or the log: waiting (live line), or one state change.
struct Report {
  enum class Kind { kState, kWaiting, kWarning, kError };
  Kind kind;
  std::string text;
};

// Restore the hosts file, remove the files and exit. `end` is set where the
// daemon said how the run ended.
struct Exit {
  int code;
  std::string reason;
  std::optional<v1::End> end;
};

using AgentAction =
    std::variant<Dial, Say, HangUp, Prepare, Undo, StartRanks, StopRanks,
                 PassSignal, AnswerExchange, FailExchanges, Report, Exit>;

// --- The value --------------------------------------------------------------

class Agent {
 public:
  // `hello`: all that does not change between streams (job, node, token, facts,
  // ranks, settings, launcher, incarnation). `join_timeout`: how long to redial
  // a daemon that has never welcomed us.
  Agent(const v1::Hello& hello, absl::Duration join_timeout,
        const Limits& limits, absl::Time now);

  // The first actions: dials.
  std::vector<AgentAction> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<AgentAction> Step(const AgentEvent& event, absl::Time now);

  // When the next AgentTick is due at the latest.
  absl::Time NextDeadline() const;

 private:
  enum class Link {
    kDown,      // Until redial_at_.
    kDialing,   // Dial is under way, or Hello awaits its Welcome.
    kAttending  // Welcomed.
  };

  // A generation from its Proposal to its Commit.
  struct Preparing {
    v1::World world;
    std::string world_bytes;
    uint32_t node_rank = 0;
    std::optional<v1::Prepared> done;
    bool said = false;
  };

  // A generation from its Commit to its end.
  struct Running {
    uint64_t generation = 0;
    uint32_t ranks = 0;
    uint32_t first_rank = 0;
    int world_size = 0;
    std::string world_bytes;
    std::string seal_bytes;
    std::vector<v1::RankExited> exits;
    uint64_t step = 0;
  };

  // Values of one key from this node's ranks.
  struct Exchange {
    std::vector<std::optional<std::string>> values;
    bool said = false;
  };

  void On(const StreamUp& up);
  void On(const StreamDown& down);
  void On(const FromDaemon& from);
  void On(const PreparationDone& done);
  void On(const PreparationFailed& failed);
  void On(const RankEnded& ended);
  void On(const RanksGone& gone);
  void On(const RankExchanged& exchanged);
  void On(const RankProgressed& progressed);
  void On(const LeaveAsked& leave);
  void On(const SignalCame& came);
  void On(const AgentTick& tick);

  void OnWelcome(const v1::Welcome& welcome);
  void OnProposal(const v1::Proposal& proposal);
  void OnCommit(const v1::Commit& commit);
  void OnAbort(const v1::Abort& abort);
  void OnEnd(const v1::End& end);
  void OnExchange(const v1::ExchangeOut& exchange);
  void OnWaiting(const v1::Waiting& waiting);

  // What a refused or broken stream means.
  void Refused(const StreamDown& down);
  void NameTaken(const std::string& text);
  void AttendAnew(uint64_t incarnation, const std::string& why);
  void Redial(double jitter);
  void TellTurnedAway(const StreamDown& down);
  void TellNobodyAnswers(bool refused);

  v1::Held HeldNow() const;
  void SayExchange(const std::string& key, Exchange& exchange);
  void SayAnswered();
  void SayLateExits();
  void RefuseExchange(const std::string& key, absl::StatusCode code,
                      const std::string& why);
  void SayPreparedIfReady();
  void SayStoppedIfGone();
  void DropPreparation();
  // The committed generation is over here: its ranks are stopped.
  void EndGeneration(const std::string& reason);
  void Stop(absl::Duration grace);
  // Stops what lives, then exits.
  void Leave(int code, const std::string& reason,
             std::optional<v1::End> end = std::nullopt);
  void MaybeExit();
  void Tell(v1::AgentMessage message);
  void Tell(Report::Kind kind, std::string text);

  v1::Hello hello_;
  Limits limits_;
  absl::Time now_;
  std::vector<AgentAction> actions_;

  // What Welcome gave, and the incarnation that it was given to; empty: none.
  std::string credential_;
  uint64_t credential_of_ = 0;

  Link link_ = Link::kDown;
  absl::Time redial_at_;
  absl::Duration redial_delay_;
  absl::Time give_up_at_;  // While not attending.
  bool welcomed_ = false;  // Ever.
  std::string last_error_;
  // Why the daemon itself last ended a stream that attended, told once.
  std::string turned_away_;
  // What the first attempt failed with; told until one is welcomed.
  std::string first_error_;
  absl::Time name_taken_until_ = absl::InfiniteFuture();
  absl::Duration heartbeat_;
  absl::Time next_heartbeat_ = absl::InfiniteFuture();

  uint64_t generation_seen_ = 0;
  std::optional<Preparing> preparing_;
  std::optional<Running> running_;
  // How many of its exits the Hello of this stream has told.
  size_t exits_in_hello_ = 0;
  // Generation whose ranks, or what they left, live here; 0: none.
  uint64_t living_ = 0;
  bool stopping_ = false;
  absl::Time kill_at_ = absl::InfiniteFuture();
  uint64_t stopped_to_say_ = 0;
  std::map<std::string, Exchange> exchanges_;
  std::vector<v1::ExchangeOut> answered_;  // The latest last.

  int leave_signal_ = 0;
  absl::Time leave_by_ = absl::InfiniteFuture();
  std::optional<Exit> exit_;
  bool exited_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_AGENT_H_
