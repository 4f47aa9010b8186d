#include "client/agent/probe/prober.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/probe/probe_call.h"
#include "daemon/base/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/address_text.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/probing/probing.h"

namespace rollcall {
namespace {

constexpr int kProbeBacklog = 1024;
// How long to keep a caller that sends no question, or that asks for a round
// which this node does not know yet.
constexpr absl::Duration kCallerPatience = absl::Seconds(5);
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
constexpr absl::Duration kTimeoutMax = absl::Minutes(1);
// Limits the accepts in one turn of the loop, so that many callers do not delay
// the dials.
constexpr size_t kAcceptsARound = 64;
// A round of a world of up to probe_all_pairs_max nodes dials every address of
// every other node at once.
constexpr size_t kAllPairs =
    (Limits::probe_all_pairs_max - 1) * Limits::probe_addresses_max;
static_assert(Prober::kDialsMax >= kAllPairs);
static_assert(Prober::kCallersMax >= kAllPairs);

std::string ErrorText(int error) { return std::strerror(error); }

// Listens on all addresses of both families, or of IPv4 only if the machine has
// no IPv6.
absl::StatusOr<Fd> Listen() {
  for (const int family : {AF_INET6, AF_INET}) {
    Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.open()) continue;
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    const int off = 0;
    if (family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    const socklen_t size =
        family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&any), size) == 0 &&
        listen(fd.get(), kProbeBacklog) == 0) {
      return fd;
    }
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen for probes: ", ErrorText(errno)));
}

uint32_t PortOf(const Fd& fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return 0;
  }
  return ntohs(name.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                   : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

// Only for a few bytes, which always fit into the socket's buffer.
bool SendAll(const Fd& fd, const std::string& bytes) {
  return send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Prober>> Prober::Start(
    std::function<void()> begins, Done done) {
  absl::StatusOr<Fd> listening = Listen();
  if (!listening.ok()) return listening.status();
  const uint32_t port = PortOf(*listening);
  std::unique_ptr<Prober> prober(new Prober(
      *std::move(listening), port, std::move(begins), std::move(done)));
  if (!prober->wake_.open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot answer probes: ", ErrorText(errno)));
  }
  prober->thread_ = std::thread([raw = prober.get()] { raw->Loop(); });
  return prober;
}

Prober::Prober(Fd listening, uint32_t port, std::function<void()> begins,
               Done done)
    : begins_(std::move(begins)),
      done_(std::move(done)),
      listening_(std::move(listening)),
      port_(port),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Prober::~Prober() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Prober::Run(v1::Probe probe) {
  {
    MutexLock lock(mutex_);
    next_ = std::move(probe);
  }
  eventfd_write(wake_.get(), 1);
}

void Prober::Loop() {
  for (;;) {
    std::optional<v1::Probe> next;
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      next.swap(next_);
    }
    if (next.has_value()) Begin(*std::move(next));
    FillDials();
    std::vector<pollfd> fds = {
        {wake_.get(), POLLIN, 0},
        {accept_paused_ ? -1 : listening_.get(), POLLIN, 0}};
    for (const Caller& caller : callers_) {
      fds.push_back({caller.fd.get(), POLLIN, 0});
    }
    for (const Dial& dial : dials_) {
      const short wanted = dial.connected ? POLLIN : POLLOUT;
      fds.push_back({dial.fd.get(), wanted, 0});
    }
    const absl::Duration wait =
        absl::Ceil(UntilNext(MonotonicNow()), absl::Milliseconds(1));
    poll(fds.data(), fds.size(),
         static_cast<int>(absl::ToInt64Milliseconds(wait)));
    eventfd_t count = 0;
    if (fds[0].revents != 0) eventfd_read(wake_.get(), &count);
    size_t at = 2;
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const bool over = fds[at++].revents != 0 && Hear(*caller);
      caller = over ? Close(caller) : std::next(caller);
    }
    for (auto dial = dials_.begin(); dial != dials_.end();) {
      const bool over = fds[at++].revents != 0 && Advance(*dial);
      dial = over ? dials_.erase(dial) : std::next(dial);
    }
    accept_paused_ = false;
    if (fds[1].revents != 0) {
      for (size_t i = 0; i < kAcceptsARound && Accept(); ++i) {
      }
    }
    Expire(MonotonicNow());
  }
}

void Prober::Begin(v1::Probe probe) {
  begins_();
  probe_ = std::move(probe);
  probed_.Clear();
  probed_.set_probe(probe_.probe());
  dials_.clear();
  waiting_.clear();
  until_ = MonotonicNow() + std::clamp(FromProto(probe_.timeout()),
                                       absl::ZeroDuration(), kTimeoutMax);
  open_ = probe_.targets_size() > 0;
  const int targets = std::min<int>(
      probe_.targets_size(), static_cast<int>(Limits::probe_targets_max));
  // The best address of each target comes first, so that addresses that do not
  // answer do not keep other targets from being tried.
  for (int i = 0; i < static_cast<int>(Limits::probe_addresses_max); ++i) {
    for (int t = 0; t < targets; ++t) {
      const v1::ProbeTarget& target = probe_.targets(t);
      if (i >= target.addresses_size()) continue;
      Dial dial;
      dial.node = target.node();
      dial.address = target.addresses(i);
      dial.port = target.port();
      waiting_.push_back(std::move(dial));
    }
  }
  // Answers callers that asked before this node knew the round.
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    caller = Answer(*caller) ? Close(caller) : std::next(caller);
  }
}

void Prober::FillDials() {
  while (!waiting_.empty() && dials_.size() < kDialsMax) {
    Dial dial = std::move(waiting_.front());
    waiting_.pop_front();
    if (Open(dial)) continue;
    if (!dial.fd.open()) {
      waiting_.push_front(std::move(dial));
      break;
    }
    dials_.push_back(std::move(dial));
  }
  if (open_ && waiting_.empty() && dials_.empty()) EndRound();
}

bool Prober::Open(Dial& dial) {
  sockaddr_storage to;
  const socklen_t size = ParseProbeAddress(dial.address, dial.port, to);
  if (size == 0) {
    Finish(dial, "", "not an address");
    return true;
  }
  dial.since = MonotonicNow();
  dial.fd =
      Fd(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool none_left = errno == EMFILE || errno == ENFILE;
  if (!dial.fd.open() && none_left && !dials_.empty()) return false;
  if (!dial.fd.open() ||
      (connect(dial.fd.get(), reinterpret_cast<sockaddr*>(&to), size) != 0 &&
       errno != EINPROGRESS)) {
    Finish(dial, "", ErrorText(errno));
    return true;
  }
  return false;
}

bool Prober::Advance(Dial& dial) {
  std::string error;
  if (!dial.connected) {
    int failed = 0;
    socklen_t size = sizeof(failed);
    getsockopt(dial.fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) {
      Finish(dial, "", ErrorText(failed));
      return true;
    }
    dial.connected = true;
    dial.took = MonotonicNow() - dial.since;
    if (SendAll(dial.fd, ProbeQuestion(probe_))) return false;
    Finish(dial, "", ErrorText(errno));
    return true;
  }
  const bool open =
      ReceiveUpTo(dial.fd.get(), Limits::probe_bytes, dial.heard, error);
  if (dial.heard.size() == Limits::probe_bytes) {
    Finish(dial, dial.heard, "");
    return true;
  }
  if (!open) Finish(dial, "", error);
  return !open;
}

void Prober::Finish(const Dial& dial, const std::string& answer,
                    const std::string& error) {
  v1::ProbeResult& result = *probed_.add_results();
  result.set_node(dial.node);
  result.set_address(dial.address);
  result.set_answer(answer);
  result.set_error(error.substr(0, Limits::probe_error_bytes_max));
  if (!answer.empty()) {
    ToProto(dial.took, result.mutable_round_trip());
  }
}

void Prober::EndRound() {
  open_ = false;
  for (const std::list<Dial>* rest : {&dials_, &waiting_}) {
    for (const Dial& dial : *rest) {
      Finish(dial, "",
             dial.connected   ? "connected, but no answer in time"
             : dial.fd.open() ? "no answer in time"
                              : "not tried in time");
    }
  }
  dials_.clear();
  waiting_.clear();
  done_(std::exchange(probed_, {}));
}

// Accepts one connection. Returns whether another one may be waiting.
bool Prober::Accept() {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  Fd fd(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.open()) {
    if (errno == EMFILE || errno == ENFILE) {
      accept_paused_ = callers_.empty();
      if (!accept_paused_) CloseCallerOfBusiest();
      return !accept_paused_;
    }
    return errno == EINTR || errno == ECONNABORTED;
  }
  Caller caller{std::move(fd), MonotonicNow() + kCallerPatience,
                AddressText(from), ""};
  // The question has often arrived already, so it is read at once.
  if (Hear(caller)) return true;
  if (callers_.size() >= kCallersMax) CloseCallerOfBusiest();
  ++callers_from_[caller.from];
  callers_.push_back(std::move(caller));
  return true;
}

// Closes the oldest caller of the address with the most callers.
void Prober::CloseCallerOfBusiest() {
  const auto busiest = std::max_element(
      callers_from_.begin(), callers_from_.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  Close(std::find_if(callers_.begin(), callers_.end(), [&](const Caller& each) {
    return each.from == busiest->first;
  }));
}

std::list<Prober::Caller>::iterator Prober::Close(
    std::list<Caller>::iterator caller) {
  const auto from = callers_from_.find(caller->from);
  if (--from->second == 0) callers_from_.erase(from);
  return callers_.erase(caller);
}

bool Prober::Hear(Caller& caller) {
  std::string error;
  // Reads one byte more than a question, to notice a caller that sends more or
  // has closed the connection.
  const bool open = ReceiveUpTo(caller.fd.get(), kProbeQuestionBytes + 1,
                                caller.heard, error);
  return Answer(caller) || !open || caller.heard.size() > kProbeQuestionBytes;
}

bool Prober::Answer(const Caller& caller) const {
  if (!IsProbeQuestion(probe_, caller.heard)) return false;
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  getsockname(caller.fd.get(), reinterpret_cast<sockaddr*>(&at), &size);
  SendAll(caller.fd, AnswerAt(probe_, AddressText(at)));
  return true;
}

absl::Duration Prober::UntilNext(absl::Time now) const {
  absl::Time next = now + absl::Hours(1);
  if (open_) next = std::min(next, until_);
  // Callers are in order of arrival, and each is kept for the same time.
  if (!callers_.empty()) next = std::min(next, callers_.front().until);
  if (accept_paused_) next = std::min(next, now + kAcceptPause);
  return std::max(next - now, absl::ZeroDuration());
}

void Prober::Expire(absl::Time now) {
  if (open_ && now >= until_) EndRound();
  while (!callers_.empty() && callers_.front().until <= now) {
    Close(callers_.begin());
  }
}

}  // namespace rollcall
