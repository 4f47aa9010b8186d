#include "client/agent/rank_service/rank_socket.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/node_files/run_folder.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// Poller tokens: the listener, the bell, then the connections.
constexpr uint64_t kListener = 1;
constexpr uint64_t kBell = 2;
// The token that stops the thread.
constexpr uint64_t kStop = 0;

constexpr size_t kPieceBytes = 64 << 10;
constexpr int kAcceptsAtOnce = 16;
constexpr int kBacklog = 128;
constexpr size_t kReasonBytesMax = 4 << 10;

bool IsTransient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

std::string EndFrame(const absl::Status& status) {
  v1::AgentReply reply;
  reply.mutable_end()->set_code(static_cast<uint32_t>(status.code()));
  reply.mutable_end()->set_message(
      Printable(std::string(status.message()), kReasonBytesMax));
  return FrameOf(reply);
}

absl::Status SocketFailed(const char* what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(
      "cannot ", what, " the Unix socket ", path, ": ", strerror(errno)));
}

absl::Status GiveTo(const SystemUser& user, const std::string& path) {
  if (chmod(path.c_str(), 0600) == 0 &&
      lchown(path.c_str(), user.uid, user.gid) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("cannot give the Unix socket ",
                                             path, " to ", UserText(user), ": ",
                                             strerror(errno)));
}

}  // namespace

// --- The bell ----------------------------------------------------------------

RankSocketBell::RankSocketBell()
    : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void RankSocketBell::Ring(uint64_t token) {
  {
    MutexLock lock(mutex_);
    rung_.push_back(token);
    if (rung_.size() > 1) return;  // The descriptor is readable already.
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(fd_.get(), &one, sizeof(one));
}

std::vector<uint64_t> RankSocketBell::Take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof(count));
  std::vector<uint64_t> taken;
  MutexLock lock(mutex_);
  taken.swap(rung_);
  return taken;
}

// --- One connection ----------------------------------------------------------

RankConnection::RankConnection(Fd fd, uint64_t token,
                               const RankSocketLimits& limits,
                               std::shared_ptr<RankSocketBell> bell)
    : token_(token),
      limits_(limits),
      bell_(std::move(bell)),
      fd_(std::move(fd)) {}

void RankConnection::Send(const v1::AgentReply& reply) {
  std::string frame = FrameOf(reply);
  {
    MutexLock lock(mutex_);
    if (ended_.has_value()) return;
    if (queue_.size() + store_queue_.size() >= limits_.replies_queued_max ||
        queued_bytes_ + frame.size() > limits_.bytes_queued_max) {
      queue_.clear();
      store_queue_.clear();
      queued_bytes_ = 0;
      EndLocked(absl::ResourceExhaustedError(
          absl::StrCat("the rank does not read what its agent sends: over ",
                       limits_.replies_queued_max, " messages or ",
                       limits_.bytes_queued_max, " bytes wait")));
    } else {
      Queue(std::move(frame), reply.has_stored());
    }
  }
  bell_->Ring(token_);
}

void RankConnection::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (ended_.has_value()) return;
    EndLocked(status);
  }
  bell_->Ring(token_);
}

absl::Status RankConnection::ended() const {
  MutexLock lock(mutex_);
  return ended_.value_or(absl::OkStatus());
}

void RankConnection::Queue(std::string frame, bool last) {
  queued_bytes_ += frame.size();
  (last ? store_queue_ : queue_).push_back(std::move(frame));
}

void RankConnection::EndLocked(const absl::Status& status) {
  ended_ = status;
  // RankEnd is the last message.
  if (!status.ok()) Queue(EndFrame(status), /*last=*/true);
}

bool RankConnection::TakeFrame(std::string& frame) {
  MutexLock lock(mutex_);
  std::deque<std::string>& next = queue_.empty() ? store_queue_ : queue_;
  if (next.empty()) return false;
  frame = std::move(next.front());
  next.pop_front();
  queued_bytes_ -= frame.size();
  return true;
}

// --- The socket --------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RankSocket>> RankSocket::Listen(
    const std::string& path, Events events, const SystemUser* user,
    const RankSocketLimits& limits) {
  if (path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path of ", path.size(), " bytes: ", path,
                     "; at most ", kSocketPathBytesMax));
  }
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat there;
  if (lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) {
    unlink(path.c_str());
  }
  if (!listener.open() ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SocketFailed("bind", path);
  }
  if (user != nullptr) {
    if (absl::Status given = GiveTo(*user, path); !given.ok()) {
      unlink(path.c_str());
      return given;
    }
  }
  if (listen(listener.get(), kBacklog) != 0) {
    return SocketFailed("listen on", path);
  }
  return std::unique_ptr<RankSocket>(
      new RankSocket(path, std::move(listener), std::move(events), limits));
}

RankSocket::RankSocket(std::string path, Fd listener, Events events,
                       const RankSocketLimits& limits)
    : path_(std::move(path)),
      events_(std::move(events)),
      limits_(limits),
      listener_(std::move(listener)),
      last_token_(kBell) {
  poller_.Add(listener_.get(), kListener);
  poller_.Add(bell_->fd(), kBell);
  // The new thread blocks all signals: other threads of the agent handle them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankSocket::~RankSocket() {
  bell_->Ring(kStop);
  thread_.join();
  unlink(path_.c_str());
}

void RankSocket::Run() {
  while (!stopping_) {
    for (const uint64_t token : poller_.Wait(NextDeadline() - MonotonicNow())) {
      if (token == kListener) {
        Accept();
      } else if (const auto at = connections_.find(token);
                 at != connections_.end()) {
        const RankConnectionRef connection = at->second;
        if (connection->reads_) Read(connection);
        if (connection->fd_.open()) Write(connection);
      }
    }
    // Includes messages that this turn of the loop has queued.
    for (const uint64_t token : bell_->Take()) {
      if (token == kStop) stopping_ = true;
      const auto at = connections_.find(token);
      if (at != connections_.end()) Write(RankConnectionRef(at->second));
    }
    Expire(MonotonicNow());
  }
  while (!connections_.empty()) {
    const RankConnectionRef connection = connections_.begin()->second;
    connection->End(absl::UnavailableError("the agent ends"));
    Write(connection);
    if (connection->fd_.open()) Close(connection);
  }
}

absl::Time RankSocket::NextDeadline() const {
  absl::Time next = accepts_again_;
  for (const auto& [token, connection] : connections_) {
    next = std::min(next, connection->deadline_);
  }
  return next;
}

void RankSocket::Expire(absl::Time now) {
  if (accepts_again_ <= now) {
    accepts_again_ = absl::InfiniteFuture();
    poller_.Add(listener_.get(), kListener);
  }
  std::vector<RankConnectionRef> late;
  for (const auto& [token, connection] : connections_) {
    if (connection->deadline_ <= now) late.push_back(connection);
  }
  for (const RankConnectionRef& connection : late) {
    if (!connection->reads_) {
      Close(connection);  // It does not read the reason.
      continue;
    }
    connection->End(absl::FailedPreconditionError(absl::StrCat(
        "expected a RankHello within ",
        absl::FormatDuration(limits_.hello_timeout), ", got none")));
    Write(connection);
  }
}

void RankSocket::Accept() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr,
                  SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.open()) {
      Admit(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      // No event reports that descriptors are free again, so retry after a
      // pause.
      poller_.Remove(listener_.get());
      accepts_again_ = MonotonicNow() + Limits().connections.descriptor_pause;
    }
    if (errno != ECONNABORTED && errno != EINTR) return;
  }
}

void RankSocket::Admit(Fd fd) {
  const uint64_t token = ++last_token_;
  const bool full = connections_.size() >= limits_.connections_max;
  if (full || !poller_.Add(fd.get(), token)) {
    // The frame always fits into the buffer of a new socket.
    const std::string why = EndFrame(absl::ResourceExhaustedError(
        full ? absl::StrCat("the agent has ", limits_.connections_max,
                            " connections already")
             : std::string("the agent cannot watch another connection")));
    [[maybe_unused]] const ssize_t sent =
        send(fd.get(), why.data(), why.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  auto connection =
      std::make_shared<RankConnection>(std::move(fd), token, limits_, bell_);
  connection->deadline_ = MonotonicNow() + limits_.hello_timeout;
  connections_.emplace(token, connection);
  events_.came(connection);
}

void RankSocket::Read(const RankConnectionRef& connection) {
  char piece[kPieceBytes];
  const ssize_t got = recv(connection->fd_.get(), piece, sizeof(piece), 0);
  if (got < 0 && IsTransient(errno)) return;
  if (got <= 0) return connection->End(absl::OkStatus());
  connection->reader_.Add(absl::string_view(piece, static_cast<size_t>(got)));
  // Another thread may end the connection at any time.
  while (connection->ended().ok()) {
    const auto bytes = connection->reader_.Next();
    if (bytes.ok() && !bytes->has_value()) return;
    v1::RankMessage message;
    absl::Status status =
        bytes.ok() ? ParseFrame(**bytes, message) : bytes.status();
    if (status.ok()) {
      connection->deadline_ = absl::InfiniteFuture();
      status = events_.heard(*connection, message);
    }
    if (!status.ok()) return connection->End(status);
    // Writes after each message, so that the queue of a rank that reads does
    // not overflow when the rank sends many messages at once.
    Write(connection);
    if (!connection->fd_.open()) return;
  }
}

void RankSocket::Write(const RankConnectionRef& connection) {
  RankConnection& c = *connection;
  // Read before the queue, so that all messages queued before the end are sent.
  bool ended = false;
  {
    MutexLock lock(c.mutex_);
    ended = c.ended_.has_value();
  }
  bool writes = false;
  while (!writes) {
    if (c.written_ == c.outgoing_.size()) {
      c.outgoing_.clear();
      c.written_ = 0;
      if (!c.TakeFrame(c.outgoing_)) break;
    }
    const ssize_t sent =
        send(c.fd_.get(), c.outgoing_.data() + c.written_,
             c.outgoing_.size() - c.written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      c.written_ += static_cast<size_t>(sent);
    } else if (IsTransient(errno)) {
      writes = true;
    } else {
      // The rank has closed the connection. Messages that it sent before must
      // still be read.
      if (ended) return Close(connection);
      c.written_ = c.outgoing_.size();
    }
  }
  if (ended && !writes) return Close(connection);
  if (ended && c.reads_) c.deadline_ = MonotonicNow() + limits_.end_patience;
  if (c.reads_ == !ended && c.writes_ == writes) return;
  c.reads_ = !ended;
  c.writes_ = writes;
  poller_.Change(c.fd_.get(), c.token_, c.reads_, c.writes_);
}

void RankSocket::Close(const RankConnectionRef& connection) {
  poller_.Remove(connection->fd_.get());
  // Needed because a child that is about to execute may have a copy of the
  // descriptor.
  shutdown(connection->fd_.get(), SHUT_RDWR);
  connection->fd_.Close();
  connections_.erase(connection->token_);
  connection->End(absl::OkStatus());
  events_.gone(*connection);
}

}  // namespace rollcall
