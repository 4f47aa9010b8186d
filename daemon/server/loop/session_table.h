// SessionTable: the open streams of agents: which have not sent Hello yet, when
// each is to be ended, and how many bytes wait to be read.
//
// It checks no Hello and knows no jobs. It ends streams by its own rules alone:
//   1. Of more than streams_without_hello_max streams without Hello, the
//   oldest.
//   2. A stream whose expiry has passed.
//   3. If more than unread_bytes_max bytes wait for all agents, the streams for
//      which most of them wait.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_SESSION_TABLE_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_SESSION_TABLE_H_

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
#include "daemon/server/loop/agent_stream.h"
#include "daemon/server/loop/broadcast.h"
#include "daemon/server/loop/logger.h"
#include "daemon/server/loop/stream.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct Session {
  SessionId id;
  std::shared_ptr<Stream> stream;
  // Keeps its connection open and counts its messages; see
  // Loop::Options::attends.
  AgentStream connection;
  // Empty: it has not attended.
  std::string job;
  std::string node;
  // Source address of its Hello.
  std::string address;
  bool greeted = false;
  // The loop has ended it; later inputs are ignored.
  bool closed = false;
  // When it is ended unless something else happens first.
  absl::Time expires = absl::InfiniteFuture();
};

class SessionTable {
 public:
  // `logger` must outlive it.
  SessionTable(const Limits& limits, Logger& logger)
      : limits_(limits), logger_(logger) {}

  // Adds a stream, which has to send Hello within hello_timeout.
  void Open(SessionId id, std::shared_ptr<Stream> stream, absl::Time now);
  // Null: it has been removed. It may be closed.
  Session* Find(SessionId id);
  // Null also if it is closed.
  Session* FindOpen(SessionId id);
  // Its Hello was accepted.
  void Greet(Session& session);
  // The stream is gone.
  void Remove(Session& session);

  void SetExpiry(Session& session, absl::Time expires);
  absl::Time NextExpiry() const;
  // Ends the sessions that have expired: with OK if they were greeted, else
  // with UNAVAILABLE.
  void Expire(absl::Time now);

  // Ends the stream after everything that was sent. Does nothing if it is
  // closed.
  void Close(Session& session, absl::StatusCode code,
             const v1::Refusal& refusal);
  void Close(Session& session, const absl::Status& status);

  void Send(Session& session, const v1::DaemonMessage& message);
  // Encodes the message once; sessions that are closed or gone are skipped.
  void Send(const rollcall::Send& send);

  // Calls `visit` with each session; it must not add or remove any.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, session] : sessions_) visit(session);
  }
  // Only with those that attend this job.
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

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_SESSION_TABLE_H_
