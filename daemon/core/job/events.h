// What goes into Job::Step and what comes out of it.
//
// Events are facts that the shell has seen; actions are orders to the shell,
// carried out in the order given. Both are plain values: no I/O, no clock.
#ifndef ROLLCALL_DAEMON_CORE_JOB_EVENTS_H_
#define ROLLCALL_DAEMON_CORE_JOB_EVENTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/network_plan/probing.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Names one stream of one daemon life. Never 0, never used twice.
using SessionId = uint64_t;

// --- Events -----------------------------------------------------------------

// A stream said Hello. The shell has checked its token (or credential, see
// Job::CredentialStands) and daemon/core/admission its grammar.
struct Attend {
  SessionId session;
  v1::Hello hello;
  // Address that the stream comes from, without port.
  std::string observed_address;
  // With a node credential, which the shell has verified: the epoch that it was
  // made for.
  uint64_t epoch = 0;
  // The shell has verified held.proof: a daemon with the same shared secret
  // committed this world of this job.
  bool commit_proven = false;
  // The node's clock minus the daemon's, less the time that its Hello took;
  // unset: it did not say.
  std::optional<absl::Duration> clock_offset;
  // Address of the daemon's machine that its connection was made to, without
  // port; empty: not known.
  std::string arrived_at = {};
  // Earlier lives of its node whose ranks are gone, as it has proved to know:
  // what the shell has made of hello.swept_nonces.
  std::vector<uint64_t> swept = {};
};

// A stream that had attended said something else than Hello. Admission has
// passed it.
struct Said {
  SessionId session;
  v1::AgentMessage message;
};

// A stream has ended, whoever ended it. Told once a session.
struct StreamClosed {
  SessionId session;
};

// Somebody with an admin token ends the job.
struct StopAsked {
  int exit_code;
  v1::ReasonCode code;
  std::string reason;
  // Without the ranks' stop_grace; counts for a job that is ending as well.
  bool now = false;
};

// Somebody with an admin token takes a node out of the job for good.
struct DrainAsked {
  std::string node;
  // Until its ranks are killed; InfiniteDuration: as v1::Notice has it.
  absl::Duration deadline = absl::InfiniteDuration();
  std::string reason;
};

// An admin evicts nodes: their credentials become invalid and their seats free.
// One event for all nodes that are evicted together, so that one world is
// formed without them.
struct EvictAsked {
  std::vector<std::string> nodes;
  std::string reason;
  // Not the agents that have these names now, but those that had them before:
  // see Job::EvictsFormer.
  bool former = false;
};

// Time has passed. `late` is how much later than it asked the loop came round;
// all leases are extended by it.
struct Tick {
  absl::Duration late = absl::ZeroDuration();
};

using Event = std::variant<Attend, Said, StreamClosed, StopAsked, DrainAsked,
                           EvictAsked, Tick>;

// --- Actions ----------------------------------------------------------------

// Sends one message to each of these streams; encoded once. A session that is
// gone by then is passed over.
struct Send {
  std::vector<SessionId> to;
  v1::DaemonMessage message;
};

// Ends a stream after all that was sent to it. `refusal` travels in the
// status's error details. Its StreamClosed will follow, and is ignored.
struct CloseStream {
  SessionId session;
  absl::StatusCode code;
  v1::Refusal refusal;
};

// Must be durable before any later action is carried out.
struct Journal {
  enum class Kind {
    kRunStarted = 1,  // body: JobSettings; generation 0
    kProposed = 2,    // body: Proposal
    kCommitted = 3,   // body: Seal
    kEnded = 4,       // body: Reform, why the generation ended
    kRunEnded = 5,    // body: End
    kLeaving = 6,     // body: Notice, who is to leave or that all are to end
    kNodeEpochs = 7,  // body: NodeEpochs, those that changed
    kFinished = 8,    // body: FinishedNodes, of the open generation
    kFenceOpen = 9,   // no body: no world need wait for the last one
  };
  Kind kind;
  uint64_t generation;
  std::string body;
};

// One line for the log: a state change and its reason, once.
struct Log {
  enum class Level { kInfo, kWarning, kError };
  Level level;
  std::string text;
  // Set where what one agent says causes the line, which may be often: where it
  // comes from, and its job and node, where it was let in. See LogQuota.
  std::string address = {};
  std::string node = {};
};

// The job has ended and nobody is waited for any more: forget it.
struct Forget {};

using Action = std::variant<Send, CloseStream, Journal, Log, Forget>;

// --- Keys -------------------------------------------------------------------

// What the shell's keys make, without any state.
struct JobKeys {
  // What Welcome.node_credential says to the agent that said this Hello: valid
  // for Limits::credential_ttl from this call on.
  std::function<std::string(const std::string& run, const v1::Hello& hello,
                            uint64_t epoch)>
      credential;
  // What Commit.proof says: the same for the same arguments, in every life of
  // the daemon. Empty: the daemon has no shared secret, and no
  // other daemon adopts its runs.
  std::function<std::string(const std::string& run, uint64_t generation,
                            const std::string& world_bytes,
                            const std::string& seal_bytes)>
      commit_proof;
  // Secrets of a round of probes: 16 bytes, the same for the same arguments in
  // one life of the daemon alone. Empty: no address is proven by probes.
  Probing::Draw probe_secret;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_EVENTS_H_
