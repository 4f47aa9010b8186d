#include "daemon/server/loop/state/session_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

// Messages of the store may be large. They come last, so that an Abort need not
// wait for them.
Stream::Order OrderOf(const v1::DaemonMessage& message) {
  return message.has_store() ? Stream::Order::kLast : Stream::Order::kFirst;
}

}  // namespace

void SessionTable::Open(SessionId id, std::shared_ptr<Stream> stream,
                        absl::Time now) {
  Session& session = sessions_[id];
  session.id = id;
  session.stream = std::move(stream);
  SetExpiry(session, now + limits_.hello_timeout);
  without_hello_.insert(id);
  if (without_hello_.size() <= limits_.streams_without_hello_max) return;
  Close(sessions_.at(*without_hello_.begin()),
        absl::UnavailableError(absl::StrCat(
            "more than ", limits_.streams_without_hello_max,
            " streams have not sent Hello yet, and this is the oldest of them; "
            "dial again")));
}

Session* SessionTable::Find(SessionId id) {
  const auto at = sessions_.find(id);
  return at == sessions_.end() ? nullptr : &at->second;
}

Session* SessionTable::FindOpen(SessionId id) {
  Session* session = Find(id);
  return session == nullptr || session->closed ? nullptr : session;
}

void SessionTable::Greet(Session& session) {
  session.greeted = true;
  without_hello_.erase(session.id);
  SetExpiry(session, absl::InfiniteFuture());
}

void SessionTable::Remove(Session& session) {
  const SessionId id = session.id;
  SetExpiry(session, absl::InfiniteFuture());
  without_hello_.erase(id);
  sessions_.erase(id);
}

void SessionTable::SetExpiry(Session& session, absl::Time expires) {
  expiries_.erase({session.expires, session.id});
  session.expires = expires;
  if (expires != absl::InfiniteFuture()) expiries_.emplace(expires, session.id);
}

absl::Time SessionTable::NextExpiry() const {
  return expiries_.empty() ? absl::InfiniteFuture() : expiries_.begin()->first;
}

void SessionTable::Expire(absl::Time now) {
  while (NextExpiry() <= now) {
    Session& session = sessions_.at(expiries_.begin()->second);
    SetExpiry(session, absl::InfiniteFuture());
    // UNAVAILABLE, because the agent's machine or network may only be busy.
    Close(session, session.greeted
                       ? absl::OkStatus()
                       : absl::UnavailableError(absl::StrCat(
                             "expected Hello within ",
                             absl::FormatDuration(limits_.hello_timeout),
                             " of opening the stream, got none; dial again")));
  }
}

void SessionTable::Close(Session& session, absl::StatusCode code,
                         const v1::Refusal& refusal) {
  if (session.closed) return;
  session.closed = true;
  session.connection.reset();
  without_hello_.erase(session.id);
  session.stream->Close(code, refusal);
}

void SessionTable::Close(Session& session, const absl::Status& status) {
  Close(session, status.code(), RefusalOf(status));
}

void SessionTable::Send(Session& session, const v1::DaemonMessage& message) {
  session.stream->Send(Encode(message, unread_), OrderOf(message));
}

void SessionTable::Send(const rollcall::Send& send) {
  const grpc::ByteBuffer bytes = Encode(send.message, unread_);
  for (const SessionId id : send.to) {
    if (Session* session = FindOpen(id)) {
      session->stream->Send(bytes, OrderOf(send.message));
    }
  }
  EndSlowStreams();
}

void SessionTable::EndSlowStreams() {
  // gRPC frees messages later, on its own threads. So the bytes of streams that
  // are ended here are subtracted from a copy.
  size_t unread = *unread_;
  while (unread > limits_.unread_bytes_max) {
    Session* slowest = nullptr;
    size_t most = 0;
    for (auto& [id, session] : sessions_) {
      // Closed sessions count too, because their streams end only after
      // everything is read.
      const size_t bytes = session.stream->UnreadBytes();
      if (bytes <= most) continue;
      most = bytes;
      slowest = &session;
    }
    if (slowest == nullptr) return;
    const absl::Status slow = absl::UnavailableError(
        absl::StrCat("more than ", limits_.unread_bytes_max,
                     " bytes wait for all agents, and most of them for this "
                     "agent, which reads too slowly; dial again"));
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat("job=", slowest->job, " event=slow node=", slowest->node,
                     " bytes=", most,
                     " reason=", Quoted(std::string(slow.message()))));
    v1::Refusal refusal = RefusalOf(slow);
    refusal.set_code(v1::REFUSAL_CODE_SLOW);
    slowest->stream->Cancel(slow.code(), refusal);
    Close(*slowest, slow.code(), refusal);
    unread -= std::min(unread, most);
  }
}

}  // namespace rollcall
