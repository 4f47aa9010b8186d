// SessionTable: the open streams of agents. It knows which have not sent Hello
// yet, when each stream expires, and how many sent bytes the agents have not
// read yet.
//
// It checks no Hello and knows no jobs. By its own rules it ends these streams:
//   1. The oldest stream without Hello, if there are more than
//      streams_without_hello_max of them.
//   2. A stream whose expiry has passed.
//   3. If more than unread_bytes_max bytes wait for all agents, the streams for
//      which most of them wait.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_SESSION_TABLE_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_SESSION_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/server/loop/state/logger.h"
#include "daemon/server/loop/streams/agent_stream.h"
#include "daemon/server/loop/streams/broadcast.h"
#include "daemon/server/loop/streams/stream.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct Session {
  SessionId id;
  std::shared_ptr<Stream> stream;
  // Keeps the agent's connection open and counts its messages; see
  // LoopOptions::attends.
  AgentStream connection;
  // The job that the stream attends; empty: none yet.
  std::string job;
  std::string node;
  // Source address of the Hello.
  std::string address;
  bool greeted = false;
  // The loop has ended the stream; later inputs are ignored.
  bool closed = false;
  // When the stream is ended, unless this time is changed before.
  absl::Time expires = absl::InfiniteFuture();
};

class SessionTable {
 public:
  // `logger` must outlive the table.
  SessionTable(const Limits& limits, Logger& logger)
      : limits_(limits), logger_(logger) {}

  // Adds a stream, which has to send Hello within hello_timeout.
  void Open(SessionId id, std::shared_ptr<Stream> stream, absl::Time now);
  // Null: the session was removed. The result may be closed.
  Session* Find(SessionId id);
  // As Find, but null also if the session is closed.
  Session* FindOpen(SessionId id);
  // The session's Hello was accepted.
  void Greet(Session& session);
  // The stream is gone: removes the session.
  void Remove(Session& session);

  void SetExpiry(Session& session, absl::Time expires);
  absl::Time NextExpiry() const;
  // Ends the sessions that have expired: with OK if they were greeted, else
  // with UNAVAILABLE.
  void Expire(absl::Time now);

  // Ends the stream after all messages that were sent. Does nothing if the
  // session is closed.
  void Close(Session& session, absl::StatusCode code,
             const v1::Refusal& refusal);
  void Close(Session& session, const absl::Status& status);

  void Send(Session& session, const v1::DaemonMessage& message);
  // Encodes the message once; sessions that are closed or gone are skipped.
  void Send(const rollcall::Send& send);

  // Calls `visit` with each session; `visit` must not add or remove sessions.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, session] : sessions_) visit(session);
  }
  // As ForEach, but only with the sessions that attend this job.
  template <typename Visit>
  void ForEachOf(const std::string& job, Visit visit) {
    for (auto& [id, session] : sessions_) {
      if (session.job == job) visit(session);
    }
  }

 private:
  void EndSlowStreams();

  const Limits limits_;
  Logger& logger_;
  absl::flat_hash_map<SessionId, Session> sessions_;
  // Sessions that are not greeted yet, oldest first.
  std::set<SessionId> without_hello_;
  // Sessions with a finite expiry.
  std::set<std::pair<absl::Time, SessionId>> expiries_;
  const UnreadBytes unread_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_SESSION_TABLE_H_
