// What goes into Job::Step and what comes out of it.
//
// Events are facts that the shell has seen; actions are orders to the shell,
// carried out in the order given. Both are plain values: no I/O, no clock.
#ifndef ROLLCALL_DAEMON_CORE_EVENTS_H_
#define ROLLCALL_DAEMON_CORE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
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
  // What Welcome.node_credential shall say: made of this Hello's job, run, node
  // and incarnation.
  std::string credential;
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

// Time has passed. `late` is how much later than it asked the loop came round;
// all leases are extended by it.
struct Tick {
  absl::Duration late = absl::ZeroDuration();
};

using Event =
    std::variant<Attend, Said, StreamClosed, StopAsked, DrainAsked, Tick>;

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
};

// The job has ended and nobody is waited for any more: forget it.
struct Forget {};

using Action = std::variant<Send, CloseStream, Journal, Log, Forget>;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EVENTS_H_
