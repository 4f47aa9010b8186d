// LoopOptions: what a Loop is given at its start.
//
// Thread rule: a value. Its functions are called by the thread that makes and
// starts the Loop, then by the loop's thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OPTIONS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OPTIONS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/machine.h"
#include "daemon/core/limits.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token_table.h"
#include "daemon/server/events/event_log.h"
#include "daemon/server/loop/state/access.h"
#include "daemon/server/loop/state/loop_observer.h"
#include "daemon/server/loop/streams/agent_stream.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct LoopOptions {
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
  // As in ServerOptions; see the thread rule.
  KeepToken keep_token;
  // Returns counts of connections that ended before they authenticated; may
  // be empty.
  std::function<v1::UnauthenticatedCounts()> unauthenticated;
  // A connection has authenticated; `viewer`: see
  // UnauthenticatedConnections::Know. May be empty.
  std::function<void(const std::string& peer, const std::string& viewer)> known;
  // A connection has shown a valid credential, and its Hello follows. May be
  // empty.
  std::function<void(const std::string& peer)> introduced;
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
  // Called on the loop's thread every Loop::kBeatEvery while the loop makes
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

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OPTIONS_H_
