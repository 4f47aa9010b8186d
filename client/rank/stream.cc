#include "client/rank/stream.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// How long Close waits for the agent to end the connection.
constexpr absl::Duration kGoodbye = absl::Milliseconds(200);
constexpr size_t kPieceBytes = 64 << 10;

absl::Status StatusOf(const v1::RankEnd& end) {
  const auto code = static_cast<absl::StatusCode>(end.code());
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return absl::Status(code, end.message());
    default:
      return absl::UnavailableError(end.message());
  }
}

bool IsTransient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

RankStream::RankStream(const std::string& path, const v1::RankHello& hello,
                       absl::Duration timeout, int cancel_fd)
    : cancel_fd_(cancel_fd), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (absl::Status connected = Connect(path, timeout); !connected.ok()) {
    Finish(connected);
    return;
  }
  {
    MutexLock lock(mutex_);
    *first_.emplace_back().mutable_hello() = hello;
  }
  // The new thread inherits a mask that blocks all signals, so that the
  // training process's handlers run on its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankStream::~RankStream() {
  if (thread_.joinable()) Close();
}

absl::Status RankStream::Connect(const std::string& path,
                                 absl::Duration timeout) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket's path has ", path.size(), " bytes; expected at most ",
        sizeof(address.sun_path) - 1));
  }
  path.copy(address.sun_path, path.size());
  socket_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_.open() || !wake_fd_.open()) {
    return absl::UnavailableError(absl::StrCat("no socket: ", strerror(errno)));
  }
  // At least 1 ms, because zero means no limit.
  const timeval wait = absl::ToTimeval(
      std::clamp(timeout, absl::Milliseconds(1), absl::Hours(1)));
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    if (errno == EAGAIN) {
      return absl::DeadlineExceededError(
          absl::StrCat("the agent did not accept the connection within ",
                       absl::FormatDuration(timeout)));
    }
    return absl::UnavailableError(
        absl::StrCat("the agent is gone: ", strerror(errno)));
  }
  return absl::OkStatus();
}

void RankStream::WaitUntil(absl::Time until) {
  if (until == absl::InfiniteFuture()) {
    changed_.Wait(mutex_);
  } else {
    changed_.WaitFor(mutex_, until - MonotonicNow());
  }
}

absl::Status RankStream::Ended() const {
  MutexLock lock(mutex_);
  return status_;
}

absl::StatusOr<v1::RankWorld> RankStream::AwaitWorld(uint64_t after,
                                                     absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (true) {
    if (latest_.world.has_value() &&
        latest_.world->world().generation() > after) {
      return *latest_.world;
    }
    if (done_) return status_;
    if (worlds_cancelled_) {
      return absl::CancelledError("the wait for a world was cancelled");
    }
    if (MonotonicNow() >= until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no world from the agent within ", absl::FormatDuration(timeout)));
    }
    WaitUntil(until);
  }
}

void RankStream::CancelWorlds() {
  MutexLock lock(mutex_);
  worlds_cancelled_ = true;
  changed_.NotifyAll();
}

absl::Status RankStream::AwaitAbort(uint64_t generation,
                                    absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (aborted() < generation) {
    if (done_) return status_;
    if (MonotonicNow() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat("generation ", generation, " has not ended within ",
                       absl::FormatDuration(timeout)));
    }
    WaitUntil(until);
  }
  return absl::OkStatus();
}

absl::Status RankStream::AwaitNotice(uint64_t generation) {
  MutexLock lock(mutex_);
  while (noticed() != generation) {
    if (aborted() >= generation) {
      return absl::AbortedError(
          absl::StrCat("generation ", generation, " has ended"));
    }
    if (done_) return status_;
    WaitUntil(absl::InfiniteFuture());
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AgentReply> RankStream::Ask(v1::RankMessage request,
                                               absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  const bool of_store = request.has_store();
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    if (done_) return status_;
    number = ++last_request_;
    if (request.has_exchange()) {
      request.mutable_exchange()->set_request(number);
    } else {
      request.mutable_store()->set_request(number);
    }
    answers_[number];
    first_.push_back(std::move(request));
  }
  WakeThread();
  MutexLock lock(mutex_);
  const auto at = answers_.find(number);
  while (!at->second.has_value() && !done_ && MonotonicNow() < until) {
    WaitUntil(until);
  }
  Answer answer = std::move(at->second);
  answers_.erase(at);
  if (answer.has_value()) return *std::move(answer);
  if (done_) return status_;
  Cancel(number, of_store);
  return absl::DeadlineExceededError(
      absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
}

void RankStream::Cancel(uint64_t request, bool of_store) {
  // Removes the request if it is unsent, so that requests do not accumulate for
  // an agent that does not read.
  const size_t unsent = std::erase_if(first_, [=](const v1::RankMessage& m) {
    return (m.has_exchange() && m.exchange().request() == request) ||
           (m.has_store() && m.store().request() == request);
  });
  if (unsent > 0 || !of_store) return;
  first_.emplace_back().mutable_store_cancel()->set_request(request);
  WakeThread();
}

void RankStream::TakeAnswer(uint64_t request, const v1::AgentReply& reply) {
  const auto at = answers_.find(request);
  if (at != answers_.end()) at->second = reply;
}

void RankStream::WhenOver(uint64_t generation, std::function<void()> wake) {
  {
    MutexLock lock(mutex_);
    when_over_.wake = std::move(wake);
    when_over_.generation = generation;
    wake = TakeWake();
  }
  if (wake) wake();
}

std::function<void()> RankStream::TakeWake() {
  if (!when_over_.wake || !Over(when_over_.generation)) return nullptr;
  return std::exchange(when_over_.wake, nullptr);
}

void RankStream::WhenAsked(std::function<void(v1::RankHere&)> where) {
  MutexLock lock(mutex_);
  while (answering_) changed_.Wait(mutex_);
  where_ = std::move(where);
}

void RankStream::AnswerWhere(const v1::RankWhere& asked) {
  std::function<void(v1::RankHere&)> where;
  {
    MutexLock lock(mutex_);
    where = where_;
    answering_ = true;
  }
  v1::RankMessage message;
  message.mutable_here()->set_generation(asked.generation());
  if (where) where(*message.mutable_here());
  {
    MutexLock lock(mutex_);
    answering_ = false;
    changed_.NotifyAll();
  }
  Send(std::move(message));
}

void RankStream::Send(v1::RankMessage message) {
  {
    MutexLock lock(mutex_);
    if (done_ || closing_.has_value()) return;
    const v1::RankMessage::KindCase kind = message.kind_case();
    waiting_[kind] = std::move(message);
  }
  WakeThread();
}

void RankStream::Close() {
  {
    MutexLock lock(mutex_);
    closing_ = MonotonicNow() + kGoodbye;
  }
  WakeThread();
  if (thread_.joinable()) thread_.join();
}

void RankStream::WakeThread() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote =
      write(wake_fd_.get(), &one, sizeof(one));
}

std::optional<v1::RankNotice> RankStream::notice() const {
  MutexLock lock(mutex_);
  return latest_.notice;
}

std::optional<v1::RankAbort> RankStream::abort() const {
  MutexLock lock(mutex_);
  return latest_.abort;
}

// --- The thread --------------------------------------------------------------

void RankStream::Run() {
  absl::Status status;
  for (bool lives = true; lives;) {
    std::optional<absl::Time> closing;
    {
      MutexLock lock(mutex_);
      closing = closing_;
    }
    if (outgoing_.written == outgoing_.bytes.size()) {
      outgoing_.bytes = NextFrame();
      outgoing_.written = 0;
    }
    const bool writes = !outgoing_.bytes.empty();
    if (closing.has_value() && !writes && !std::exchange(half_closed_, true)) {
      shutdown(socket_.get(), SHUT_WR);
    }
    int wait_ms = -1;
    if (closing.has_value()) {
      const absl::Duration left = *closing - MonotonicNow();
      if (left <= absl::ZeroDuration()) break;
      wait_ms = static_cast<int>(
          absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
    }
    pollfd fds[] = {
        {socket_.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0},
        {wake_fd_.get(), POLLIN, 0},
        {cancel_fd_, POLLIN, 0}};
    if (poll(fds, 3, wait_ms) <= 0) continue;
    uint64_t count = 0;
    if (fds[1].revents != 0) {
      [[maybe_unused]] const ssize_t got =
          read(wake_fd_.get(), &count, sizeof(count));
    }
    if (fds[2].revents != 0) CancelFirstWorld();
    if (fds[0].revents == 0) continue;
    lives = Read(status);
    if (lives && writes) Write();
  }
  socket_.Close();
  Finish(status);
}

void RankStream::CancelFirstWorld() {
  cancel_fd_ = -1;
  MutexLock lock(mutex_);
  if (latest_.world.has_value()) return;
  worlds_cancelled_ = true;
  changed_.NotifyAll();
}

std::string RankStream::NextFrame() {
  v1::RankMessage next;
  {
    MutexLock lock(mutex_);
    if (!first_.empty()) {
      next = std::move(first_.front());
      first_.pop_front();
    } else if (!waiting_.empty()) {
      next = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    } else {
      return "";
    }
  }
  return FrameOf(next);
}

void RankStream::Write() {
  const ssize_t sent = send(
      socket_.get(), outgoing_.bytes.data() + outgoing_.written,
      outgoing_.bytes.size() - outgoing_.written, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) {
    outgoing_.written += static_cast<size_t>(sent);
  } else if (!IsTransient(errno)) {
    // The agent no longer reads. Its earlier messages are still read, and then
    // the end of the stream.
    outgoing_.bytes.clear();
    outgoing_.written = 0;
  }
}

bool RankStream::Read(absl::Status& status) {
  char piece[kPieceBytes];
  const ssize_t got = recv(socket_.get(), piece, sizeof(piece), MSG_DONTWAIT);
  if (got < 0 && IsTransient(errno)) return true;
  if (got <= 0) return false;
  reader_.Add(absl::string_view(piece, static_cast<size_t>(got)));
  for (;;) {
    const auto bytes = reader_.Next();
    v1::AgentReply reply;
    if (bytes.ok() && !bytes->has_value()) return true;
    status = bytes.ok() ? ParseFrame(**bytes, reply) : bytes.status();
    if (!status.ok()) {
      status = absl::InternalError(
          absl::StrCat("from the agent: ", status.message()));
      return false;
    }
    if (!Take(reply, status)) return false;
  }
}

bool RankStream::Take(const v1::AgentReply& reply, absl::Status& status) {
  if (reply.has_where()) {
    AnswerWhere(reply.where());
    return true;
  }
  if (reply.has_end()) {
    status = StatusOf(reply.end());
    return false;
  }
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    switch (reply.kind_case()) {
      case v1::AgentReply::kWorld:
        latest_.world = reply.world();
        break;
      case v1::AgentReply::kAbort:
        latest_.abort = reply.abort();
        aborted_.store(reply.abort().generation(), std::memory_order_release);
        break;
      case v1::AgentReply::kNotice:
        latest_.notice = reply.notice();
        noticed_.store(reply.notice().generation(), std::memory_order_release);
        break;
      case v1::AgentReply::kExchanged:
        TakeAnswer(reply.exchanged().request(), reply);
        break;
      case v1::AgentReply::kStored:
        TakeAnswer(reply.stored().request(), reply);
        break;
      default:
        break;  // From a newer agent: a kind that this rank can ignore.
    }
    wake = TakeWake();
    changed_.NotifyAll();
  }
  if (wake) wake();
  return true;
}

void RankStream::Finish(const absl::Status& status) {
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    status_ = status.ok()
                  ? absl::UnavailableError("the agent ended the connection")
                  : status;
    done_ = true;
    if (!closing_.has_value()) lost_.store(true, std::memory_order_release);
    wake = TakeWake();
    changed_.NotifyAll();
  }
  if (wake) wake();
}

}  // namespace rollcall
