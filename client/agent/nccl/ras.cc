#include "client/agent/nccl/ras.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/text/address_text.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

constexpr char kDefaultAddress[] = "localhost:28028";
// How long NCCL itself waits for the processes of the job, in whole seconds.
constexpr int kJobsPatienceS = 1;
// A stopped process does not answer, and the answer may come from another job's
// process.
constexpr int kAttemptsMax = 16;
// The time for one attempt, until the service greets.
constexpr absl::Duration kGreetingPatience = absl::Milliseconds(500);
// For this long, one answer is given to all callers.
constexpr absl::Duration kAnswerLasts = absl::Seconds(2);
// Enough for several communicators of the largest worlds.
constexpr size_t kAnswerBytesMax = 32 << 20;
constexpr size_t kLineBytesMax = 1024;

absl::Status Closed(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL's RAS service: ", what));
}

// One connection, with a deadline.
class Connection {
 public:
  Connection(absl::Time until, int quit) : until_(until), quit_(quit) {}

  absl::Status Connect(const sockaddr* address, socklen_t size) {
    socket_ = Fd(socket(address->sa_family,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_.open()) return Failed("socket");
    if (connect(socket_.get(), address, size) == 0) return absl::OkStatus();
    if (errno != EINPROGRESS) return Failed("connect");
    if (absl::Status status = Await(POLLOUT); !status.ok()) return status;
    int error = 0;
    socklen_t error_size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
    errno = error;
    return error == 0 ? absl::OkStatus() : Failed("connect");
  }

  absl::Status Send(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t sent =
          send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        if (absl::Status status = Await(POLLOUT); !status.ok()) return status;
      } else if (errno != EINTR) {
        return Failed("send");
      }
    }
    return absl::OkStatus();
  }

  void SetUntil(absl::Time until) { until_ = until; }

  // Reads up to the next newline, which is left out.
  absl::StatusOr<std::string> Line() {
    size_t end;
    while ((end = read_.find('\n')) == std::string::npos) {
      if (read_.size() > kLineBytesMax) return Closed("sent no end of line");
      absl::StatusOr<bool> more = Read();
      if (!more.ok()) return more.status();
      if (!*more) return Closed("closed the connection");
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  // Reads to the end of the connection.
  absl::StatusOr<std::string> Rest() {
    for (;;) {
      absl::StatusOr<bool> more = Read();
      if (!more.ok()) return more.status();
      if (!*more) return std::move(read_);
      if (read_.size() > kAnswerBytesMax) return Closed("sent over 32 MiB");
    }
  }

 private:
  // Returns false if the connection has ended.
  absl::StatusOr<bool> Read() {
    char piece[64 << 10];
    for (;;) {
      const ssize_t got = recv(socket_.get(), piece, sizeof piece, 0);
      if (got == 0) return false;
      if (got > 0) {
        read_.append(piece, static_cast<size_t>(got));
        return true;
      }
      if (errno == EAGAIN) {
        if (absl::Status status = Await(POLLIN); !status.ok()) return status;
      } else if (errno != EINTR) {
        return Failed("recv");
      }
    }
  }

  absl::Status Await(short events) {
    for (;;) {
      const absl::Duration left = until_ - MonotonicNow();
      pollfd polled[2] = {{socket_.get(), events, 0}, {quit_, POLLIN, 0}};
      const int ready = poll(polled, 2,
                             static_cast<int>(std::max<int64_t>(
                                 absl::ToInt64Milliseconds(
                                     absl::Ceil(left, absl::Milliseconds(1))),
                                 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return Failed("poll");
      if (polled[1].revents != 0) return absl::CancelledError("the agent ends");
      if (ready == 0) {
        return absl::DeadlineExceededError(
            "NCCL's RAS service: no answer in time");
      }
      return absl::OkStatus();
    }
  }

  static absl::Status Failed(const char* call) {
    const std::string text =
        absl::StrCat("NCCL's RAS service: ", call, ": ", strerror(errno));
    // The last three errors: ::1 on a machine without IPv6.
    const bool nobody = errno == ECONNREFUSED || errno == EADDRNOTAVAIL ||
                        errno == EAFNOSUPPORT || errno == ENETUNREACH;
    return nobody ? absl::UnavailableError(text)
                  : absl::FailedPreconditionError(text);
  }

  absl::Time until_;
  const int quit_;
  Fd socket_;
  std::string read_;
};

absl::Status Order(Connection& to, absl::string_view order) {
  if (absl::Status status = to.Send(order); !status.ok()) return status;
  absl::StatusOr<std::string> line = to.Line();
  if (!line.ok()) return line.status();
  if (*line == "OK") return absl::OkStatus();
  return Closed(absl::StrCat(
      "expected OK to \"", absl::StripSuffix(order, "\n"),
      "\" (NCCL 2.28.7 or newer), got \"", Printable(*line, 80), "\""));
}

absl::StatusOr<RasStatus> Ask(Connection& service, absl::Time until) {
  // Protocol versions are not compared, because NCCL's own client does not
  // require equal versions.
  absl::Status status = service.Send("CLIENT PROTOCOL 2\n");
  if (!status.ok()) return status;
  absl::StatusOr<std::string> line = service.Line();
  if (!line.ok()) return line.status();
  if (!absl::StartsWithIgnoreCase(*line, "SERVER PROTOCOL ")) {
    return Closed(absl::StrCat("expected SERVER PROTOCOL, got \"",
                               Printable(*line, 80), "\""));
  }
  service.SetUntil(until);
  status = Order(service, absl::StrCat("TIMEOUT ", kJobsPatienceS, "\n"));
  if (status.ok()) status = Order(service, "SET FORMAT json\n");
  if (status.ok()) status = service.Send("VERBOSE STATUS\n");
  if (!status.ok()) return status;
  absl::StatusOr<std::string> answer = service.Rest();
  if (!answer.ok()) return answer.status();
  return ParseRasStatus(*answer);
}

// The addresses of this machine, as text.
std::set<std::string> OwnAddresses() {
  std::set<std::string> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr != nullptr) own.insert(AddressText(at->ifa_addr));
  }
  freeifaddrs(list);
  return own;
}

bool HasAny(const RasStatus& status, const RasProcesses& processes) {
  return std::any_of(status.communicators.begin(), status.communicators.end(),
                     [&](const RasCommunicator& communicator) {
                       return FindIn(communicator, processes).has_value();
                     });
}

absl::Status TookAllTime() {
  return absl::DeadlineExceededError(
      "NCCL's RAS service: the questions of other ranks took all the time");
}

// The value of a variable; empty: not set.
std::string Variable(const std::vector<std::string>& environment,
                     absl::string_view name) {
  for (const std::string& entry : environment) {
    absl::string_view rest = entry;
    if (absl::ConsumePrefix(&rest, name) && absl::ConsumePrefix(&rest, "=")) {
      return std::string(rest);
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<RasStatus> AskRas(absl::string_view address,
                                 absl::Duration patience, int quit) {
  const absl::Time until = MonotonicNow() + patience;
  const size_t colon = address.rfind(':');
  std::string host(address.substr(0, colon));
  int port = 0;
  const bool is_port = colon != address.npos &&
                       absl::SimpleAtoi(address.substr(colon + 1), &port) &&
                       port > 0 && port <= 65535;
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  // Only numeric addresses, because a name server that does not answer would
  // delay the agent.
  std::vector<std::string> hosts{host};
  if (host == "localhost") hosts = {"127.0.0.1", "::1"};
  absl::Status last;
  for (const std::string& one : hosts) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (!is_port || getaddrinfo(one.c_str(), absl::StrCat(port).c_str(), &hints,
                                &found) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "NCCL_RAS_ADDR: expected localhost:PORT or an IP address and a port, "
          "got \"",
          Printable(std::string(address), 80), "\""));
    }
    Connection service(std::min(until, MonotonicNow() + kGreetingPatience),
                       quit);
    last = service.Connect(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (last.ok()) return Ask(service, until);
    if (last.code() != absl::StatusCode::kUnavailable) return last;
  }
  return last;
}

Ras::Ras(const std::vector<std::string>& environment, absl::Duration patience)
    : address_(Variable(environment, "NCCL_RAS_ADDR")), patience_(patience) {
  if (address_.empty()) address_ = kDefaultAddress;
  if (Variable(environment, "NCCL_RAS_ENABLE") == "0") address_.clear();
}

// Asks until these processes are in the answer. Otherwise returns the last
// answer that another rank of this node may be in, or else the last error.
Ras::Answer Ras::AskFor(const RasProcesses& processes, absl::Time until,
                        int quit) const {
  Answer best = TookAllTime();
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    Answer answer = AskRas(address_, left, quit);
    if (answer.ok() && HasAny(*answer, processes)) return answer;
    const bool again = answer.ok() ||
                       absl::IsFailedPrecondition(answer.status()) ||
                       absl::IsDeadlineExceeded(answer.status());
    if (answer.ok() || !best.ok()) best = std::move(answer);
    if (!again) break;
  }
  return best;
}

absl::StatusOr<RasPlace> Ras::Find(const std::vector<pid_t>& pids, int quit) {
  if (address_.empty()) return absl::UnavailableError("NCCL_RAS_ENABLE=0");
  const RasProcesses processes{{pids.begin(), pids.end()}, OwnAddresses()};
  const absl::Time until = MonotonicNow() + patience_;
  std::shared_ptr<const Answer> answer;
  {
    const MutexLock lock(mutex_);
    while (asking_ && MonotonicNow() < until) {
      asked_.WaitFor(mutex_, until - MonotonicNow());
    }
    const absl::Time now = MonotonicNow();
    // An answer without these processes may be of another job, to a rank
    // without NCCL.
    if (now < answered_at_ + kAnswerLasts &&
        (!answer_->ok() || HasAny(**answer_, processes))) {
      answer = answer_;
    } else if (asking_ || now >= until) {
      return TookAllTime();
    } else {
      asking_ = true;
    }
  }
  if (answer == nullptr) {
    // Half of the time: the next rank can ask as well.
    answer = std::make_shared<const Answer>(AskFor(
        processes, std::min(until, MonotonicNow() + patience_ / 2), quit));
    const MutexLock lock(mutex_);
    answer_ = answer;
    answered_at_ = MonotonicNow();
    asking_ = false;
    asked_.NotifyAll();
  }
  if (!answer->ok()) return answer->status();
  return FindPlace(**answer, processes);
}

}  // namespace rollcall
