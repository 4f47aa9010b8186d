#include "daemon/server/guests.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/core/check.h"
#include "daemon/server/clock.h"
#include "daemon/server/membership_service.h"

namespace rollcall {
namespace {

constexpr uint64_t kWake = std::numeric_limits<uint64_t>::max();
constexpr int kReceiveBytes = 64 << 10;
constexpr size_t kEventsARound = 256;

// As PeerKey writes it; empty: the peer is gone.
std::string KeyOf(int fd) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return "";
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return absl::StrCat(text, ":", ntohs(four.sin_port));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  }
  return absl::StrCat(text, ":", ntohs(six.sin6_port));
}

// By the kernel's count, so that nobody's reading is in the way.
uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

// Each takes two descriptors, and others need some too.
DoorLimits Fitted(DoorLimits limits) {
  rlimit descriptors = {};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    limits.guests_max = std::clamp<size_t>(
        static_cast<size_t>(descriptors.rlim_cur) / 8, 1, limits.guests_max);
  }
  return limits;
}

}  // namespace

std::string PeerKey(std::string_view peer) {
  const std::string address = AddressOfPeer(peer);
  if (address.empty()) return "";
  return absl::StrCat(address, std::string(peer.substr(peer.rfind(':'))));
}

absl::StatusOr<std::unique_ptr<Guests>> Guests::Make(const DoorLimits& limits) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  if (epoll >= 0 && wake >= 0 &&
      epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) == 0) {
    return std::unique_ptr<Guests>(new Guests(Fitted(limits), epoll, wake));
  }
  const int error = errno;
  if (epoll >= 0) close(epoll);
  if (wake >= 0) close(wake);
  return absl::UnavailableError(
      absl::StrCat("cannot watch connections: ", std::strerror(error),
                   "; raise the limit of open files (ulimit -n)"));
}

Guests::Guests(const DoorLimits& limits, int epoll, int wake)
    : limits_(limits), epoll_(epoll), wake_(wake) {
  thread_ = std::thread([this] { Run(); });
}

Guests::~Guests() {
  Stop();
  close(epoll_);
  close(wake_);
}

void Guests::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
  thread_.join();
  MutexLock lock(mutex_);
  while (!guests_.empty()) Forget(guests_.begin()->first);
}

bool Guests::Arrive(int fd) {
  Guest guest;
  guest.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  guest.key = KeyOf(fd);
  guest.address = guest.key.substr(0, guest.key.rfind(':'));
  guest.until = MonotonicNow() + limits_.guest_patience;
  if (guest.fd < 0) return false;
  // An agent says little; what waits unread must not be much either.
  const int received = kReceiveBytes;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof received);
  bool first = false;
  {
    MutexLock lock(mutex_);
    const Id id = ++newest_;
    epoll_event event = {};
    // Edge-triggered: told once of each arrival, whoever reads it.
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    event.data.u64 = id;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, guest.fd, &event) != 0) {
      close(guest.fd);
      return false;
    }
    first = guests_.empty();
    by_key_[guest.key] = id;
    by_address_[guest.address].insert(id);
    guests_.emplace(id, std::move(guest));
    MakeRoom();
  }
  // Nobody's time was running until now.
  const uint64_t one = 1;
  if (first) (void)!write(wake_, &one, sizeof one);
  return true;
}

void Guests::Called(const std::string& key) {
  MutexLock lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return;
  if (++guests_.at(at->second).calls > limits_.guest_calls_max) {
    ShowOut(at->second);
  }
}

void Guests::Know(const std::string& key) {
  MutexLock lock(mutex_);
  const auto at = by_key_.find(key);
  if (at != by_key_.end()) Forget(at->second);
}

uint64_t Guests::shown_out() const {
  MutexLock lock(mutex_);
  return shown_out_;
}

size_t Guests::size() const {
  MutexLock lock(mutex_);
  return guests_.size();
}

void Guests::Run() {
  std::array<epoll_event, kEventsARound> events;
  for (;;) {
    const int ready = epoll_wait(epoll_, events.data(),
                                 static_cast<int>(events.size()), TimeoutMs());
    CHECK(ready >= 0 || errno == EINTR);
    uint64_t woken = 0;
    (void)!read(wake_, &woken, sizeof woken);
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      for (int i = 0; i < ready; ++i) {
        if (events[i].data.u64 != kWake) {
          Look(events[i].data.u64, events[i].events);
        }
      }
    }
    ShowOutLate(MonotonicNow());
  }
}

int Guests::TimeoutMs() const {
  MutexLock lock(mutex_);
  if (guests_.empty()) return -1;
  const absl::Duration left =
      std::clamp(guests_.begin()->second.until - MonotonicNow(),
                 absl::ZeroDuration(), absl::Minutes(1));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

void Guests::Look(Id id, uint32_t events) {
  const auto at = guests_.find(id);
  if (at == guests_.end()) return;
  // It has hung up, or gRPC has.
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) return Forget(id);
  Guest& guest = at->second;
  bytes_ -= guest.bytes;
  guest.bytes = BytesReceived(guest.fd);
  bytes_ += guest.bytes;
  const size_t most = guest.calls == 0 ? limits_.guest_bytes_before_call
                                       : limits_.guest_bytes_max;
  if (guest.bytes > most) return ShowOut(id);
  MakeRoom();
}

void Guests::ShowOutLate(absl::Time now) {
  MutexLock lock(mutex_);
  while (!guests_.empty() && guests_.begin()->second.until <= now) {
    ShowOut(guests_.begin()->first);
  }
}

void Guests::ShowOut(Id id) {
  // Resets the connection, whoever holds its socket, and throws away what it
  // has received: after a shutdown that could still be read, and the peer would
  // wait for as long as gRPC does not look.
  const sockaddr nobody = {AF_UNSPEC, {}};
  connect(guests_.at(id).fd, &nobody, sizeof nobody);
  ++shown_out_;
  Forget(id);
}

void Guests::MakeRoom() {
  while (guests_.size() > limits_.guests_max) {
    const auto crowd =
        std::max_element(by_address_.begin(), by_address_.end(),
                         [](const auto& a, const auto& b) {
                           return a.second.size() < b.second.size();
                         });
    ShowOut(*crowd->second.begin());
  }
  while (bytes_ > limits_.guests_bytes_max && !guests_.empty()) {
    const auto loudest = std::max_element(
        guests_.begin(), guests_.end(), [](const auto& a, const auto& b) {
          return a.second.bytes < b.second.bytes;
        });
    ShowOut(loudest->first);
  }
}

void Guests::Forget(Id id) {
  const auto at = guests_.find(id);
  if (at == guests_.end()) return;
  const auto named = by_key_.find(at->second.key);
  if (named != by_key_.end() && named->second == id) by_key_.erase(named);
  const auto place = by_address_.find(at->second.address);
  place->second.erase(id);
  if (place->second.empty()) by_address_.erase(place);
  bytes_ -= at->second.bytes;
  // The socket lives on elsewhere: closing ours would not end the watch.
  epoll_ctl(epoll_, EPOLL_CTL_DEL, at->second.fd, nullptr);
  close(at->second.fd);
  guests_.erase(at);
}

}  // namespace rollcall
