// Input and output of Job::Step.
//
// Events are facts that the shell has observed. Actions are orders to the
// shell, which carries them out in the given order. Both are plain values: no
// I/O, no clock.
#ifndef ROLLCALL_DAEMON_CORE_EVENTS_H_
#define ROLLCALL_DAEMON_CORE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/session_id.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// --- Events -----------------------------------------------------------------

// A stream sent Hello. The shell has checked its token or its credential (see
// Job::CredentialStands), and daemon/core/admission has checked its grammar.
struct Attend {
  SessionId session;
  v1::Hello hello;
  // Source address of the stream, without port.
  std::string observed_address;
  // Set if the agent attends with a node credential, which the shell has
  // verified: the epoch of that credential.
  uint64_t epoch = 0;
  // The shell has verified held.proof: a daemon with the same shared secret has
  // committed this world of this job.
  bool commit_proven = false;
  // The node's clock minus the daemon's, minus the time that the Hello was on
  // its way. Unset: the agent reported no time.
  std::optional<absl::Duration> clock_offset;
  // The address of the daemon's machine to which the agent connected, without
  // port. Empty: not known.
  std::string arrived_at = {};
  // Earlier lives of the node's agent whose ranks are gone. The shell derives
  // them from hello.swept_nonces, which prove that.
  std::vector<uint64_t> swept = {};
};

// A stream that has attended sent a message other than Hello. The message has
// passed admission.
struct Said {
  SessionId session;
  v1::AgentMessage message;
};

// Either side has ended a stream. Reported once per session.
struct StreamClosed {
  SessionId session;
};

// An admin ends the job.
struct StopAsked {
  int exit_code;
  v1::ReasonCode code;
  std::string reason;
  // Ranks get no stop_grace. If the job is already ending, that applies to it
  // as well.
  bool now = false;
};

// An admin takes a node out of the job for good.
struct DrainAsked {
  std::string node;
  // The node's ranks are killed after this time. InfiniteDuration: as in
  // v1::Notice.
  absl::Duration deadline = absl::InfiniteDuration();
  std::string reason;
};

// An admin evicts nodes: their credentials become invalid and their seats
// become free. All nodes that are evicted together are in one event, so that
// one world is formed without them.
struct EvictAsked {
  std::vector<std::string> nodes;
  std::string reason;
  // True: evicts the former agents of these names, not the current ones. See
  // Job::EvictsFormer.
  bool former = false;
};

// Time has passed. `late`: how much later the loop runs than it asked for; all
// leases are extended by this time.
struct Tick {
  absl::Duration late = absl::ZeroDuration();
};

using Event = std::variant<Attend, Said, StreamClosed, StopAsked, DrainAsked,
                           EvictAsked, Tick>;

// --- Actions ----------------------------------------------------------------

// Sends one message to each of these streams; the message is encoded once.
// Sessions that have ended meanwhile are skipped.
struct Send {
  std::vector<SessionId> to;
  v1::DaemonMessage message;
};

// Ends a stream after everything that was sent to it. `refusal` is sent in the
// status's error details. If the node no longer uses the stream, the
// StreamClosed that follows is ignored; otherwise the node becomes suspect.
struct CloseStream {
  SessionId session;
  absl::StatusCode code;
  v1::Refusal refusal;
};

// The record must be durable before any later action is carried out.
struct Journal {
  enum class Kind {
    kRunStarted = 1,  // body: JobSettings; generation 0
    kProposed = 2,    // body: Proposal
    kCommitted = 3,   // body: WorldCommit
    kEnded = 4,       // body: Reform, why the generation ended
    kRunEnded = 5,    // body: End
    kLeaving = 6,     // body: Notice: nodes that leave, or: all ranks end
    kNodeEpochs = 7,  // body: NodeEpochs, those that changed
    kFinished = 8,    // body: FinishedNodes, of the open generation
    kFenceOpen = 9,   // no body: the next world need not wait for the last
  };
  Kind kind;
  uint64_t generation;
  std::string body;
};

// One line for the log: a state change and its reason, logged once.
struct Log {
  enum class Level { kInfo, kWarning, kError };
  Level level;
  std::string text;
  // Set if an agent's message causes the line, because that may happen often:
  // the agent's address and, if the agent was admitted, its job and node. See
  // LogQuota.
  std::string address = {};
  std::string node = {};
};

// The job has ended and waits for no agent: remove it.
struct Forget {};

using Action = std::variant<Send, CloseStream, Journal, Log, Forget>;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EVENTS_H_
