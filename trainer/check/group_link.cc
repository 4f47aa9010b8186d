#include "trainer/check/group_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/await_ready.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// A caller sends kMagic, its place and its nonce; the first node answers with
// its own nonce and its proof; the caller answers with its proof.
constexpr absl::string_view kMagic = "rcgroup1";
constexpr size_t kNonceBytes = 16;
constexpr size_t kProofBytes = 32;
constexpr size_t kHelloBytes = kMagic.size() + 1 + kNonceBytes;
constexpr int kGroupBacklog = 64;
constexpr size_t kGroupCallersMax = 64;
// How long a caller may take until its proof is there.
constexpr absl::Duration kGroupCallerPatience = absl::Seconds(5);
// The sizes of key and value, two bytes each.
constexpr size_t kFrameHeader = 4;

std::string SystemError(int error) { return std::strerror(error); }

// Fails only without the system's random numbers.
std::string Nonce() {
  std::string nonce(kNonceBytes, '\0');
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()),
                      static_cast<int>(nonce.size())),
           1);
  return nonce;
}

// `role`: 'f' for the first node's proof, 'c' for a caller's.
std::string Proof(const std::string& secret, char role, char place,
                  const std::string& callers_nonce,
                  const std::string& firsts_nonce) {
  const std::string text = absl::StrCat(kMagic, std::string{role, place},
                                        callers_nonce, firsts_nonce);
  std::string proof(kProofBytes, '\0');
  unsigned int bytes = 0;
  // Fails only without memory.
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(proof.data()),
             &bytes) != nullptr);
  CHECK_EQ(bytes, proof.size());
  return proof;
}

bool SameProof(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Status TooLate(const std::string& address, absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrCat(address, " ", what));
}

absl::Status HasLeft(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat(address, " ended its connection: ", why));
}

absl::Status SendAll(int fd, absl::string_view bytes, absl::Time until,
                     const std::string& address) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(sent);
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      return HasLeft(address, SystemError(errno));
    }
    if (!AwaitReady(fd, POLLOUT, until)) {
      return TooLate(address, "reads nothing");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveAll(int fd, size_t bytes, absl::Time until,
                                       const std::string& address) {
  std::string got(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t read = recv(fd, got.data() + at, bytes - at, 0);
    if (read > 0) {
      at += read;
      continue;
    }
    if (read == 0) return HasLeft(address, "it was closed");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return HasLeft(address, SystemError(errno));
    if (!AwaitReady(fd, POLLIN, until)) {
      return TooLate(address, "sends nothing");
    }
  }
  return got;
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

absl::StatusOr<Fd> Connect(const std::string& address, uint16_t port,
                           absl::Time until) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), absl::StrCat(port).c_str(), &hints,
                  &found) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected an IP address, got ", address));
  }
  Fd fd(
      socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = fd.open() ? 0 : errno;
  if (error == 0 && connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    error = errno;
  }
  freeaddrinfo(found);
  if (error == EINPROGRESS) {
    if (!AwaitReady(fd.get(), POLLOUT, until)) {
      return TooLate(absl::StrCat(address, ":", port), "does not answer");
    }
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        address, ":", port, " was not reached: ", SystemError(error)));
  }
  SetNoDelay(fd.get());
  return fd;
}

// A connection that has not proven itself yet.
struct GroupCaller {
  Fd fd;
  absl::Time until;
  std::string heard;
  std::string nonce;  // Ours, once it has said its own.
  bool over = false;
};

// Reads what has arrived. Returns the caller's place once it has proven itself.
size_t HearCaller(GroupCaller& caller, const GroupRequest& request) {
  const size_t most = kHelloBytes + (caller.nonce.empty() ? 0 : kProofBytes);
  char piece[kHelloBytes + kProofBytes];
  const ssize_t got =
      recv(caller.fd.get(), piece, most - caller.heard.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  caller.over = got <= 0;
  if (caller.over) return 0;
  caller.heard.append(piece, got);
  if (caller.heard.size() < kHelloBytes) return 0;
  const char place = caller.heard[kMagic.size()];
  const std::string theirs =
      caller.heard.substr(kMagic.size() + 1, kNonceBytes);
  if (caller.nonce.empty()) {
    const bool known = caller.heard.compare(0, kMagic.size(), kMagic.data(),
                                            kMagic.size()) == 0 &&
                       place >= 1 &&
                       static_cast<size_t>(place) < request.addresses.size();
    caller.over = !known;
    if (!known) return 0;
    caller.nonce = Nonce();
    const std::string answer = absl::StrCat(
        caller.nonce, Proof(request.secret, 'f', place, theirs, caller.nonce));
    // A fresh connection takes these few bytes at once.
    caller.over = send(caller.fd.get(), answer.data(), answer.size(),
                       MSG_NOSIGNAL) != static_cast<ssize_t>(answer.size());
    return 0;
  }
  if (caller.heard.size() < kHelloBytes + kProofBytes) return 0;
  caller.over =
      !SameProof(absl::string_view(caller.heard).substr(kHelloBytes),
                 Proof(request.secret, 'c', place, theirs, caller.nonce));
  return caller.over ? 0 : static_cast<size_t>(place);
}

void AcceptCallers(int listening, std::list<GroupCaller>& callers,
                   absl::Time now) {
  for (;;) {
    Fd fd(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.open()) return;
    SetNoDelay(fd.get());
    if (callers.size() >= kGroupCallersMax) callers.pop_front();
    callers.push_back(
        {std::move(fd), now + kGroupCallerPatience, "", "", false});
  }
}

}  // namespace

absl::StatusOr<GroupListener> GroupListener::Open() {
  for (const int family : {AF_INET6, AF_INET}) {
    GroupListener listener;
    listener.fd =
        Fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener.fd.open()) continue;
    const int off = 0;
    if (family == AF_INET6) {
      setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off,
                 sizeof(off));
    }
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t size =
        family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&any), size) != 0 ||
        listen(listener.fd.get(), kGroupBacklog) != 0) {
      continue;
    }
    size = sizeof(any);
    getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&any), &size);
    // The port is at the same place in both kinds of address.
    listener.port = ntohs(reinterpret_cast<const sockaddr_in*>(&any)->sin_port);
    return listener;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen for the other nodes: ", SystemError(errno)));
}

absl::StatusOr<std::unique_ptr<GroupLink>> GroupLink::Accept(
    const GroupListener& listener, const GroupRequest& request,
    absl::Time until) {
  std::unique_ptr<GroupLink> link(
      new GroupLink(request.addresses, request.place, until));
  std::list<GroupCaller> callers;
  size_t missing = request.addresses.size() - 1;
  while (missing > 0) {
    absl::Time next = until;
    std::vector<pollfd> polled{{listener.fd.get(), POLLIN, 0}};
    for (const GroupCaller& caller : callers) {
      next = std::min(next, caller.until);
      polled.push_back({caller.fd.get(), POLLIN, 0});
    }
    const absl::Duration left =
        std::max(next - MonotonicNow(), absl::ZeroDuration());
    const int ready = poll(polled.data(), polled.size(),
                           static_cast<int>(absl::ToInt64Milliseconds(
                               absl::Ceil(left, absl::Milliseconds(1)))));
    if (ready < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", SystemError(errno)));
    }
    const absl::Time now = MonotonicNow();
    size_t at = 0;
    for (GroupCaller& caller : callers) {
      if (ready > 0 && polled[++at].revents != 0) {
        const size_t place = HearCaller(caller, request);
        // A node that has a connection already keeps it.
        if (place != 0 && !link->peers_[place].open()) {
          link->peers_[place] = std::move(caller.fd);
          --missing;
        }
        caller.over = caller.over || place != 0;
      }
      caller.over = caller.over || now >= caller.until;
    }
    callers.remove_if([](const GroupCaller& caller) { return caller.over; });
    if (ready > 0 && polled[0].revents != 0) {
      AcceptCallers(listener.fd.get(), callers, now);
    }
    if (missing == 0) break;
    if (now < until) continue;
    for (size_t place = 1; place < request.addresses.size(); ++place) {
      if (link->peers_[place].open()) continue;
      return TooLate(request.addresses[place], "has not connected");
    }
  }
  return link;
}

absl::StatusOr<std::unique_ptr<GroupLink>> GroupLink::Dial(
    const GroupRequest& request, absl::Time until) {
  const std::string& address = request.addresses[0];
  absl::StatusOr<Fd> fd = Connect(address, request.port, until);
  if (!fd.ok()) return fd.status();
  const char place = static_cast<char>(request.place);
  const std::string mine = Nonce();
  if (absl::Status s =
          SendAll(fd->get(), absl::StrCat(kMagic, std::string(1, place), mine),
                  until, address);
      !s.ok()) {
    return s;
  }
  const absl::StatusOr<std::string> answer =
      ReceiveAll(fd->get(), kNonceBytes + kProofBytes, until, address);
  if (!answer.ok()) return answer.status();
  const std::string theirs = answer->substr(0, kNonceBytes);
  if (!SameProof(absl::string_view(*answer).substr(kNonceBytes),
                 Proof(request.secret, 'f', place, mine, theirs))) {
    return absl::PermissionDeniedError(
        absl::StrCat(address, ":", request.port,
                     " does not have the secret of this group: another program "
                     "answers there"));
  }
  if (absl::Status s =
          SendAll(fd->get(), Proof(request.secret, 'c', place, mine, theirs),
                  until, address);
      !s.ok()) {
    return s;
  }
  std::unique_ptr<GroupLink> link(
      new GroupLink(request.addresses, request.place, until));
  link->peers_[0] = *std::move(fd);
  return link;
}

// The value that this node sent for the key.
absl::StatusOr<std::string> GroupLink::Receive(size_t from,
                                               const std::string& key) {
  const int fd = peers_[from].get();
  const std::string& address = addresses_[from];
  const absl::StatusOr<std::string> header =
      ReceiveAll(fd, kFrameHeader, until_, address);
  if (!header.ok()) return header.status();
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>((*header)[i]));
  };
  const size_t key_bytes = byte(0) << 8 | byte(1);
  const size_t value_bytes = byte(2) << 8 | byte(3);
  if (key_bytes != key.size() ||
      value_bytes > Limits::exchange_value_bytes_max) {
    return absl::InternalError(
        absl::StrCat(address, " sent no value for \"", key,
                     "\"; give all nodes the same version of rollcall-train"));
  }
  absl::StatusOr<std::string> both =
      ReceiveAll(fd, key_bytes + value_bytes, until_, address);
  if (!both.ok()) return both;
  if (both->compare(0, key_bytes, key) != 0) {
    return absl::InternalError(
        absl::StrCat(address, " sent a value for another key than \"", key,
                     "\"; give all nodes the same version of rollcall-train"));
  }
  return both->substr(key_bytes);
}

absl::StatusOr<std::vector<std::string>> GroupLink::Exchange(
    const std::string& key, const std::string& value) {
  const auto frame = [&](const std::string& of) {
    return absl::StrCat(std::string{static_cast<char>(key.size() >> 8),
                                    static_cast<char>(key.size() & 0xff),
                                    static_cast<char>(of.size() >> 8),
                                    static_cast<char>(of.size() & 0xff)},
                        key, of);
  };
  if (key.size() > Limits::exchange_key_bytes_max ||
      value.size() > Limits::exchange_value_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "exchange of \"", key, "\": ", value.size(),
        " bytes, expected at most ", Limits::exchange_value_bytes_max));
  }
  std::vector<std::string> values(addresses_.size());
  values[place_] = value;
  if (place_ != 0) {
    if (absl::Status s =
            SendAll(peers_[0].get(), frame(value), until_, addresses_[0]);
        !s.ok()) {
      return s;
    }
    for (std::string& each : values) {
      absl::StatusOr<std::string> got = Receive(0, key);
      if (!got.ok()) return got.status();
      each = *std::move(got);
    }
    return values;
  }
  for (size_t place = 1; place < values.size(); ++place) {
    absl::StatusOr<std::string> got = Receive(place, key);
    if (!got.ok()) return got.status();
    values[place] = *std::move(got);
  }
  std::string all;
  for (const std::string& each : values) absl::StrAppend(&all, frame(each));
  for (size_t place = 1; place < values.size(); ++place) {
    if (absl::Status s =
            SendAll(peers_[place].get(), all, until_, addresses_[place]);
        !s.ok()) {
      return s;
    }
  }
  return values;
}

}  // namespace rollcall
