// Events and actions of Agent (agent/agent.h). Events are what the shell passes
// in; actions are what it carries out, in order.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_EVENTS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

// One process of a local rank: the one that was started for `generation`. A
// linked rank keeps this incarnation in later generations.
struct RankIncarnation {
  uint64_t generation = 0;
  uint32_t local_rank = 0;

  bool operator==(const RankIncarnation&) const = default;
};

// --- Events -----------------------------------------------------------------

// The stream is open: Hello may be sent.
struct StreamUp {};

// The stream, or the attempt to open it, has ended. `refusal` is set if the
// status carried one.
struct StreamDown {
  absl::Status status;
  std::optional<v1::Refusal> refusal;
  // The server that answered is not the daemon: it has another certificate or
  // secret.
  bool other_daemon = false;
  // The endpoint that was dialed; empty: none.
  std::string endpoint;
  // Uniform in [0, 1), for the jitter of the next delay.
  double jitter = 0.5;
  // Derived from a fresh nonce, never 0. Used if the agent needs a new
  // incarnation.
  uint64_t fresh_incarnation = 1;
  // The nonce of the incarnation in the latest Hello. Secret. Empty: the agent
  // cannot say that its ranks are gone (--attach).
  std::string nonce;
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
  uint64_t generation;  // For which it was started: see RankIncarnation.
  uint32_t local_rank = 0;
  int code = 0;
  int signal = 0;
  std::string stderr_tail;
  std::string error_file;
  std::string out_of_memory;   // See v1::RankExited.
  uint64_t peak_bytes = 0;     // See v1::RankExited.
  bool permanent = false;      // See v1::RankExited.
  bool gone = false;           // See v1::RankExited.
  bool started_again = false;  // See v1::RankExited.
};

// The answer to StopRanks: these ranks have ended and no descendant of them is
// left. Also sent without StopRanks when all ranks have ended and are swept.
struct RanksGone {
  std::vector<RankIncarnation> ranks;
};

// A linked rank attends the world of `generation`.
struct RankAttended {
  uint64_t generation;
  uint32_t local_rank;
  bool elastic = false;
};

// The rank's connection has ended and no newer one replaced it. From now on the
// rank is treated as a plain rank.
struct RankUnlinked {
  uint32_t local_rank;
};

// A second process attaches for a local rank whose process is still connected
// (--attach). It gets no world before the first process has gone.
struct RankDoubled {
  uint32_t local_rank;
  // The pids that the two processes sent.
  int32_t pid = 0;
  int32_t connected_pid = 0;
};

// The answer to AbortRanks: the rank has torn its communicator down and waits.
struct RankWaits {
  uint64_t generation;
  uint32_t local_rank;
  uint64_t completed_step = 0;
  bool whole_state = false;
};

// The rank has stopped at the boundary that a notice asked for.
struct RankAtBoundary {
  uint64_t generation;
  uint32_t local_rank;
};

// A linked rank gives a value for a key (v1::RankExchange).
struct RankExchanged {
  uint64_t generation;
  uint32_t local_rank;
  std::string key;
  std::string value;
};

// A linked rank asks for an operation on the store (v1::RankStore).
struct RankAsksStore {
  uint64_t generation;
  // Identifies the answer (AnswerStore); each ticket is used once.
  uint64_t ticket;
  v1::StoreOperation operation;
};

// The ranks that asked with these tickets no longer wait.
struct StoreCancelled {
  std::vector<uint64_t> tickets;
};

// A rank has published a step or changed its progress file. `step`: its highest
// step so far. `pace`: set if the rank is the node's first and has published a
// pace.
struct RankProgressed {
  uint64_t generation;
  uint64_t step;
  uint32_t local_rank = 0;
  std::optional<v1::Pace> pace = std::nullopt;
};

// A rank reports that the checkpoint of this step is complete.
struct RankSaved {
  uint64_t generation;
  uint64_t step;
};

// A linked rank's answer to LookAtRank. The collectives that it has entered and
// left are set if it counts them.
struct RankIsHere {
  uint64_t generation;
  uint32_t local_rank;
  std::optional<uint64_t> collective_entered;
  std::optional<uint64_t> collective_left;
};

// The answer to LookAtRank about the rank's processes, whose stacks were
// written to the rank's log.
struct RankLooked {
  RankIncarnation incarnation;
  bool stopped = false;
  std::string text;
  v1::NcclPlace nccl = v1::NCCL_PLACE_UNSPECIFIED;
};

// A signal asks the agent to leave: SIGTERM, SIGUSR1, SIGINT or SIGHUP. At the
// second one the agent leaves at once.
struct LeaveAsked {
  int signal;
};

// A linked rank got a signal that asks it to leave, so the whole node leaves.
// Only the first of these counts.
struct RankAskedToLeave {
  uint32_t local_rank;
};

// The answer to RunChecks.
struct ChecksDone {
  v1::CheckReport report;
};

// The answer to RunProbe.
struct ProbeDone {
  v1::Probed probed;
};

// The answers to RunGroupCheck: GroupListening and GroupChecked.
struct GroupCheckSaid {
  v1::AgentMessage message;
};

// A signal for the ranks, not for the agent (SIGUSR2).
struct SignalCame {
  int signal;
};

// A fact of this node has changed (client/facts/watch).
struct FactChanged {
  v1::FactChange change;
};
// Some facts are not watched any more. `reason`: which ones, and why.
struct FactWatchEnded {
  std::string reason;
};

// The shell of the set-up command has ended and been reaped; see RunSetup.
struct SetupShellEnded {
  int code = 0;
  int signal = 0;
  std::string stderr_tail;
};
// No process of the set-up command is left. Follows SetupShellEnded.
struct SetupGone {
  // The files of --same and --shared, which the command may have made. Only the
  // shell reads them, for the facts.
  std::vector<v1::SameFile> same_files;
  // Why the node cannot use one of them; empty: it can use all.
  std::string unusable_file;
};

struct AgentTick {};

using AgentEvent = std::variant<
    StreamUp, StreamDown, FromDaemon, PreparationDone, PreparationFailed,
    RankEnded, RanksGone, RankAttended, RankUnlinked, RankDoubled, RankWaits,
    RankAtBoundary, RankExchanged, RankAsksStore, StoreCancelled,
    RankProgressed, RankSaved, RankIsHere, RankLooked, LeaveAsked,
    RankAskedToLeave, ChecksDone, ProbeDone, GroupCheckSaid, SignalCame,
    FactChanged, FactWatchEnded, SetupShellEnded, SetupGone, AgentTick>;

// --- Actions ----------------------------------------------------------------

// Opens a stream to the daemon and resolves host names again. Answered by
// StreamUp or StreamDown. At most one dial is in progress.
struct Dial {};

struct Say {
  v1::AgentMessage message;
};

// Gets this node ready for a generation: hosts file, and on node rank 0 the
// port and the NCCL ids. Answered by PreparationDone or PreparationFailed with
// the same generation.
struct Prepare {
  v1::World world;
  uint32_t node_rank;
};

// Undoes what Prepare did (port, ids) and removes the generation's files. The
// hosts block stays until the next Prepare replaces it or Exit removes it.
struct Undo {
  uint64_t generation;
};

// Gives the world to this node's ranks: ranks that wait get it on their
// connection, the others are started as processes.
struct StartRanks {
  v1::World world;
  v1::WorldCommit world_commit;
  uint32_t node_rank;
  // Local ranks, in order. `fresh`: those to start. `waiting`: those that wait
  // for the world. Together they are all ranks of the node.
  std::vector<uint32_t> fresh;
  std::vector<RankIncarnation> waiting;
};

// The generation has ended. Linked ranks that wait for keys of this generation
// get ABORTED, and all linked ranks are told to tear their communicator down.
// Elastic ranks answer with RankWaits; the others are also stopped, by
// StopRanks.
struct AbortRanks {
  uint64_t generation;
  v1::ReasonCode code;
  std::string reason;
};

// Sends SIGTERM to each rank's process group, SIGKILL after `grace`, then ends
// the remaining descendants. If repeated, the shorter grace counts. Ranks that
// the agent did not start (--attach) get no signal: they are gone once they
// have answered the abort or their connection has ended.
struct StopRanks {
  std::vector<RankIncarnation> ranks;
  absl::Duration grace;
};

// Sends a signal to the process groups of these ranks.
struct PassSignal {
  std::vector<RankIncarnation> ranks;
  int signal;
};

// Tells linked ranks of a notice, also those that attend later in this
// generation, and writes the notice file.
struct TellNotice {
  v1::RankNotice notice;
  // Written into the notice file if the notice itself has no deadline.
  absl::Duration deadline;
};

// A rank has made no progress for a long time. A linked rank is asked where it
// is (it may answer with RankIsHere). The stacks of all its processes are
// written to its log (always answered by RankLooked).
struct LookAtRank {
  RankIncarnation incarnation;
  uint64_t generation;
};

// Starts the set-up command. Answered by SetupShellEnded and SetupGone.
struct RunSetup {};

// Sends SIGTERM to the process group of the set-up command, SIGKILL after
// `grace`, then ends the remaining descendants. If repeated, the shorter grace
// counts.
struct StopSetupCommand {
  absl::Duration grace;
};

// Runs the node's own checks, between generations; answered by ChecksDone.
struct RunChecks {
  uint64_t request;
};

// Tries to reach other nodes, and answers nodes that probe this one, until the
// next RunProbe. Answered by ProbeDone if there are targets.
struct RunProbe {
  v1::Probe probe;
};

// Runs this node's part of a round of the paired check, in place of the one
// that runs, which is ended without an answer. nullopt: only ends it. Answered
// by GroupCheckSaid.
struct RunGroupCheck {
  std::optional<v1::GroupCheck> check;
};

// Gives all values of a key, or the error, to the linked ranks that wait for
// it.
struct AnswerExchange {
  v1::ExchangeOut exchange;
};

// The result of a rank's operation on the store.
struct AnswerStore {
  uint64_t ticket;
  v1::StoreResult result;
};

// Linked ranks that still wait for keys of this generation, in an exchange or
// in the store, get ABORTED.
struct FailRequests {
  uint64_t generation;
  std::string reason;
};

// A text for the user or the log: what is awaited (live line), or a state
// change.
struct Report {
  // kUnreachable: why the daemon cannot be reached (DialFailures). kSocket: the
  // path of the socket to which ranks attach (--attach).
  enum class Kind { kState, kWaiting, kUnreachable, kSocket, kWarning, kError };
  Kind kind;
  std::string text;
};

// Restores the hosts file, removes the files and exits. `end` is set if the
// daemon sent End.
struct Exit {
  int code;
  std::string reason;
  std::optional<v1::End> end;
};

using AgentAction =
    std::variant<Dial, Say, Prepare, Undo, StartRanks, AbortRanks, StopRanks,
                 PassSignal, TellNotice, LookAtRank, RunChecks, RunProbe,
                 RunGroupCheck, AnswerExchange, AnswerStore, FailRequests,
                 RunSetup, StopSetupCommand, Report, Exit>;

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_EVENTS_H_
