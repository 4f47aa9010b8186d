#include "daemon/server/connections/listening_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/server/connections/served_socket.h"

namespace rollcall {
namespace {

// How often a free port is tried. A port that is free at one address may be in
// use at the next address, or another process may take it between bind and
// listen.
constexpr int kFreePortTries = 16;

struct HostPort {
  std::string host;
  int port = 0;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  bool ipv6() const { return storage.ss_family == AF_INET6; }
  in_port_t& port() {
    return ipv6() ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                  : reinterpret_cast<sockaddr_in*>(&storage)->sin_port;
  }
};

absl::StatusOr<HostPort> Parse(const std::string& listen) {
  HostPort parsed;
  const size_t colon = listen.rfind(':');
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(listen.substr(colon + 1), &parsed.port) &&
      parsed.port >= 0 && parsed.port <= 65535) {
    parsed.host = listen.substr(0, colon);
    const bool bracketed = parsed.host.size() > 2 &&
                           parsed.host.front() == '[' &&
                           parsed.host.back() == ']';
    if (bracketed) {
      parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
      if (AdmitAddress(parsed.host).ok()) return parsed;
    } else if (AdmitNodeName(parsed.host).ok()) {
      return parsed;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("listen: expected ADDRESS:PORT like 0.0.0.0:29400 or "
                   "[::]:29400, got \"",
                   Printable(listen, 256), "\""));
}

const char* WhatToTry(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another process uses the port; end it, or give another port with "
             "--listen ADDRESS:PORT, 0 for a free one";
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return "give an address of this machine with --listen ADDRESS:PORT, "
             "0.0.0.0 for all";
    case EACCES:
    case EPERM:
      return "give a port above 1023 with --listen ADDRESS:PORT";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "give another address with --listen ADDRESS:PORT";
  }
}

absl::Status CannotListen(const std::string& listen, int error) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": ",
                                             std::strerror(error), "; ",
                                             WhatToTry(error)));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(
    const HostPort& where, const ConnectionLimits& limits) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(where.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", where.host, ": ",
        error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error),
        "; give an address of this machine with --listen ADDRESS:PORT"));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    if (addresses.size() == limits.sockets_max) break;
    SocketAddress address;
    address.size = at->ai_addrlen;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    // A hosts file may name one address twice.
    const bool known = std::any_of(
        addresses.begin(), addresses.end(), [&](const SocketAddress& other) {
          return other.size == address.size &&
                 std::memcmp(&other.storage, &address.storage, other.size) == 0;
        });
    if (!known) addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

bool Allow(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

// Returns a listening socket, or minus the errno.
int OpenOne(const SocketAddress& address, const ConnectionLimits& limits) {
  const int fd = socket(address.storage.ss_family,
                        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  // Accepted sockets inherit TCP_NODELAY and the small window.
  SetReceiveBuffer(fd, limits.small_receive_buffer);
  if ((!address.ipv6() || Allow(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
      Allow(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
      Allow(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
      bind(fd, address.get(), address.size) == 0 &&
      listen(fd, limits.backlog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  return -error;
}

// Opens one port on all addresses that this machine has. Returns 0, or the
// errno.
int OpenAll(std::vector<SocketAddress> addresses, int port,
            const ConnectionLimits& limits,
            std::vector<ListeningSocket>& sockets) {
  int missing = EADDRNOTAVAIL;
  for (SocketAddress& address : addresses) {
    const int chosen = sockets.empty() ? port : sockets.front().port();
    address.port() = htons(static_cast<uint16_t>(chosen));
    const int fd = OpenOne(address, limits);
    if (fd >= 0) {
      sockets.emplace_back(fd);
    } else if (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT) {
      missing = -fd;
    } else {
      return -fd;
    }
  }
  return sockets.empty() ? missing : 0;
}

bool HasNoIpv6(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

}  // namespace

ListeningSocket::ListeningSocket(int fd) : fd_(fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  char host[INET6_ADDRSTRLEN] = "";
  if (getsockname(fd, address.get(), &address.size) != 0) return;
  port_ = ntohs(address.port());
  if (address.ipv6()) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr,
              host, sizeof host);
    address_ = absl::StrCat("[", host, "]:", port_);
  } else {
    inet_ntop(AF_INET,
              &reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr, host,
              sizeof host);
    address_ = absl::StrCat(host, ":", port_);
  }
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      port_(other.port_),
      address_(std::move(other.address_)) {}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::vector<ListeningSocket>> ListenOn(
    const std::string& listen, const ConnectionLimits& limits) {
  const absl::StatusOr<HostPort> where = Parse(listen);
  if (!where.ok()) return where.status();
  const absl::StatusOr<std::vector<SocketAddress>> addresses =
      Resolve(*where, limits);
  if (!addresses.ok()) return addresses.status();
  std::vector<ListeningSocket> sockets;
  int error = 0;
  for (int tries = 0; tries < kFreePortTries; ++tries) {
    sockets.clear();
    error = OpenAll(*addresses, where->port, limits, sockets);
    if (error == 0) return sockets;
    if (where->port != 0 || error != EADDRINUSE) break;
  }
  if (where->host == "::" && HasNoIpv6(error)) {
    return ListenOn(absl::StrCat("0.0.0.0:", where->port), limits);
  }
  return CannotListen(listen, error);
}

SourceAddress SourceAddressOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    std::array<uint8_t, 4> bytes;
    std::memcpy(bytes.data(),
                &reinterpret_cast<const sockaddr_in&>(peer).sin_addr,
                bytes.size());
    return SourceAddressOfIpv4(bytes);
  }
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(),
              &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr,
              bytes.size());
  return SourceAddressOfIpv6(bytes);
}

}  // namespace rollcall
