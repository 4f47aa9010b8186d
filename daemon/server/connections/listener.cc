#include "daemon/server/connections/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// An epoll event's data is a connection's Id, kWake, or kSocket with a socket's
// index.
constexpr uint64_t kWake = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSocket = uint64_t{1} << 63;

constexpr std::string_view kHttp2 = "PRI * HTTP/2.0";
// The header of a TLS record and the first byte of its message.
constexpr size_t kTlsBytes = 6;

enum class FirstBytes { kTooFew, kBegun, kGarbage, kGone };

FirstBytes JudgePlain(std::string_view said) {
  if (said != kHttp2.substr(0, said.size())) return FirstBytes::kGarbage;
  return said.size() < kHttp2.size() ? FirstBytes::kTooFew : FirstBytes::kBegun;
}

// Expects a handshake record of SSL 3 or any TLS version with a ClientHello.
FirstBytes JudgeTls(std::string_view said) {
  constexpr char kHandshake = 0x16, kMajor = 0x03, kClientHello = 0x01;
  const auto differs = [&](size_t at, char expected) {
    return said.size() > at && said[at] != expected;
  };
  if (differs(0, kHandshake) || differs(1, kMajor) ||
      differs(kTlsBytes - 1, kClientHello)) {
    return FirstBytes::kGarbage;
  }
  return said.size() < kTlsBytes ? FirstBytes::kTooFew : FirstBytes::kBegun;
}

FirstBytes Peek(int fd, bool plain) {
  char bytes[std::max(kHttp2.size(), kTlsBytes)];
  ssize_t size;
  do {
    size = recv(fd, bytes, plain ? kHttp2.size() : kTlsBytes, MSG_PEEK);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return FirstBytes::kTooFew;
  }
  if (size <= 0) return FirstBytes::kGone;
  const std::string_view said(bytes, static_cast<size_t>(size));
  return plain ? JudgePlain(said) : JudgeTls(said);
}

// With unread data, the kernel closes the connection by a reset, and the peer
// may then lose data that it has not read. One call discards the data that has
// arrived; that is enough in practice.
void CloseQuietly(int fd) {
  constexpr size_t kBytesMax = 1 << 20;
  (void)!recv(fd, nullptr, kBytesMax, MSG_TRUNC | MSG_DONTWAIT);
  close(fd);
}

// Returns how many descriptors the process may open.
size_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return static_cast<size_t>(limit.rlim_cur);
}

bool WantsDescriptor(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS ||
         error == ENOMEM;
}

bool HasWaiting(int listener_fd) {
  pollfd socket = {listener_fd, POLLIN, 0};
  return poll(&socket, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(Options options) {
  const ConnectionLimits limits =
      FittedTo(options.limits, RaiseDescriptorLimit());
  absl::StatusOr<std::vector<ListeningSocket>> sockets =
      ListenOn(options.listen, limits);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<Listener> listener(
      new Listener(options.plain, limits, *std::move(sockets)));
  if (absl::Status opened = listener->OpenPoller(); !opened.ok()) return opened;
  return listener;
}

Listener::Listener(bool plain, const ConnectionLimits& limits,
                   std::vector<ListeningSocket> sockets)
    : plain_(plain),
      limits_(limits),
      sockets_(std::move(sockets)),
      limiter_(limits) {
  port_ = sockets_.front().port();
  for (const ListeningSocket& socket : sockets_) {
    addresses_.push_back(socket.address());
  }
}

Listener::~Listener() {
  Stop();
  if (epoll_ >= 0) close(epoll_);
  if (wake_ >= 0) close(wake_);
}

absl::Status Listener::OpenPoller() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ >= 0) wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  bool opened =
      wake_ >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0;
  for (size_t i = 0; opened && i < sockets_.size(); ++i) {
    event.data.u64 = kSocket | i;
    opened = epoll_ctl(epoll_, EPOLL_CTL_ADD, sockets_[i].fd(), &event) == 0;
  }
  if (opened) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot watch ", addresses_.front(), ": ", std::strerror(errno),
      "; raise the limit of open files (ulimit -n)"));
}

void Listener::Start(HandOn hand_on, Displace displace, Agents agents) {
  CHECK(!thread_.joinable());
  CHECK(!sockets_.empty());
  hand_on_ = std::move(hand_on);
  displace_ = std::move(displace);
  agents_ = std::move(agents);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    WakeUp();
    thread_.join();
  }
  sockets_.clear();
  for (const auto& [id, connection] : waiting_) CloseQuietly(connection.fd);
  waiting_.clear();
}

void Listener::Release(HandshakeLimiter::Id id) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    released_.push_back(id);
    if (released_.size() > 1) return;  // The thread is woken already.
  }
  WakeUp();
}

void Listener::Introduce(HandshakeLimiter::Id id) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    introduced_.push_back(id);
    if (introduced_.size() > 1) return;
  }
  WakeUp();
}

void Listener::Charge(const SourceAddress& from, uint64_t bytes) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    first = charged_.empty();
    charged_.emplace_back(from, bytes);
  }
  if (first) WakeUp();
}

void Listener::WakeUp() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

bool Listener::TakeWake() {
  uint64_t count = 0;
  (void)!read(wake_, &count, sizeof count);
  std::vector<HandshakeLimiter::Id> released;
  std::vector<HandshakeLimiter::Id> introduced;
  std::vector<std::pair<SourceAddress, uint64_t>> charged;
  {
    MutexLock lock(mutex_);
    if (stopping_) return false;
    introduced.swap(introduced_);
    released.swap(released_);
    charged.swap(charged_);
  }
  for (const auto& [from, bytes] : charged) {
    limiter_.Charge(from, bytes, MonotonicNow());
  }
  for (const HandshakeLimiter::Id id : introduced) {
    CarryOut(limiter_.Introduce(id, MonotonicNow()));
  }
  for (const HandshakeLimiter::Id id : released) {
    CarryOut(limiter_.Release(id, MonotonicNow()));
  }
  return true;
}

HandshakeCounts Listener::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void Listener::Run() {
  // Large enough for all events at once, so that data that has arrived is
  // examined before a connection counts as silent or is closed to make room.
  std::vector<epoll_event> events(limits_.waiting_max + sockets_.size() + 1);
  while (true) {
    const int ready = epoll_wait(epoll_, events.data(),
                                 static_cast<int>(events.size()), TimeoutMs());
    CHECK(ready >= 0 || errno == EINTR);
    const auto end = events.begin() + std::max(ready, 0);
    for (auto event = events.begin(); event != end; ++event) {
      if (event->data.u64 == kWake && !TakeWake()) return;
      if (event->data.u64 < kSocket) Look(event->data.u64, event->events);
    }
    LimitWaiting();
    for (auto event = events.begin(); event != end; ++event) {
      if (event->data.u64 < kSocket || event->data.u64 == kWake) continue;
      Accept(sockets_[event->data.u64 & ~kSocket]);
    }
    CarryOut(limiter_.Tick(MonotonicNow()));
    if (paused_until_ <= MonotonicNow()) ResumeAccepting();
    PublishCounts();
  }
}

int Listener::TimeoutMs() const {
  const absl::Time next = std::min(limiter_.NextDeadline(), paused_until_);
  if (next == absl::InfiniteFuture()) return -1;
  // The time is rounded up, so that the deadline has passed when the thread
  // wakes. It is bounded to a minute, because waking once a minute costs
  // little.
  const absl::Duration left =
      std::clamp(next - MonotonicNow(), absl::ZeroDuration(), absl::Minutes(1));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

void Listener::Accept(const ListeningSocket& socket) {
  bool won = false;
  for (int i = 0; i < limits_.accepts_per_round; ++i) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof peer;
    const int fd = accept4(socket.fd(), reinterpret_cast<sockaddr*>(&peer),
                           &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      won = false;
      Admit(socket, fd, SourceAddressOf(peer));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (WantsDescriptor(errno)) {
      // accept4 allocates a descriptor before it looks for a connection.
      if (!HasWaiting(socket.fd())) return;
      // Closes one waiting connection to make room for the new one. If accept4
      // still fails, other code uses the descriptors, and closing more would
      // not help.
      won = !won && WinDescriptor();
      if (!won) return PauseAccepting();
    }
    // Any other error (for example ECONNABORTED) affects only that one
    // connection.
  }
}

void Listener::Admit(const ListeningSocket& socket, int fd,
                     const SourceAddress& from) {
  const HandshakeLimiter::Id id = ++newest_;
  CarryOut(limiter_.Arrive(id, from, MonotonicNow()));
  waiting_.emplace(id, Connection{fd, socket.fd()});
  // Edge-triggered, so that a client that sends one byte and stops causes no
  // more wakeups.
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    Leave(id, Fate::kCrowded);
  }
}

void Listener::LimitWaiting() {
  const size_t both = limits_.waiting_and_agents_max;
  CarryOut(limiter_.Limit(both - std::min(both, agents_())));
}

bool Listener::WinDescriptor() {
  const HandshakeLimiter::Verdicts verdicts = limiter_.MakeRoom();
  CarryOut(verdicts);
  return !verdicts.empty();
}

void Listener::PauseAccepting() {
  paused_until_ = MonotonicNow() + limits_.descriptor_pause;
  Watch(0);
}

void Listener::ResumeAccepting() {
  paused_until_ = absl::InfiniteFuture();
  Watch(EPOLLIN);
}

void Listener::Watch(uint32_t events) {
  for (size_t i = 0; i < sockets_.size(); ++i) {
    epoll_event event = {};
    event.events = events;
    event.data.u64 = kSocket | i;
    CHECK(epoll_ctl(epoll_, EPOLL_CTL_MOD, sockets_[i].fd(), &event) == 0);
  }
}

void Listener::Look(HandshakeLimiter::Id id, uint32_t events) {
  const auto found = waiting_.find(id);
  // An earlier event of this round may have closed the connection.
  if (found == waiting_.end()) return;
  const FirstBytes said = Peek(found->second.fd, plain_);
  if (said == FirstBytes::kGarbage) {
    Leave(id, Fate::kGarbage);
  } else if (said == FirstBytes::kGone ||
             (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    Leave(id, Fate::kHungUp);
  } else if (said == FirstBytes::kBegun) {
    CarryOut(limiter_.Ask(id, MonotonicNow()));
  }
}

void Listener::Leave(HandshakeLimiter::Id id, Fate why) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  CloseQuietly(found->second.fd);
  waiting_.erase(found);
  limiter_.Leave(id, why);
}

void Listener::CarryOut(const HandshakeLimiter::Verdicts& verdicts) {
  if (verdicts.empty()) return;
  PublishCounts();
  for (const HandshakeLimiter::Verdict& verdict : verdicts) {
    if (verdict.fate == Fate::kDisplaced) {
      displace_(verdict.id);
      continue;
    }
    const auto found = waiting_.find(verdict.id);
    CHECK(found != waiting_.end());
    const Connection connection = found->second;
    waiting_.erase(found);
    if (verdict.fate == Fate::kHandedOn) {
      epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd, nullptr);
      hand_on_(connection.fd, connection.listener_fd, verdict.id);
    } else {
      CloseQuietly(connection.fd);
    }
  }
}

void Listener::PublishCounts() {
  MutexLock lock(mutex_);
  counts_ = limiter_.counts();
}

}  // namespace rollcall
