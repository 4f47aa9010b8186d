// ListeningSocket: one listening TCP socket; closed by its destructor.
//
// ListenOn opens the sockets of ADDRESS:PORT. Nothing here accepts connections.
// Thread rule: that of an int.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENING_SOCKET_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENING_SOCKET_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/handshake_limiter.h"
#include "daemon/core/limits.h"

namespace rollcall {

class ListeningSocket {
 public:
  // Takes ownership of `fd`, which listens.
  explicit ListeningSocket(int fd);
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) = delete;
  ~ListeningSocket();

  int fd() const { return fd_; }
  int port() const { return port_; }
  // "127.0.0.1:29400" or "[::1]:29400".
  const std::string& address() const { return address_; }

 private:
  int fd_;
  int port_ = 0;
  std::string address_;
};

// Listens on ADDRESS:PORT. ADDRESS is an IPv4 address, an IPv6 address in
// brackets, or a name. A name stands for every address that it resolves to and
// this machine has, all with the same port. Port 0: a free port. "[::]" also
// accepts IPv4, and means 0.0.0.0 if the machine has no IPv6. The sockets are
// non-blocking, close-on-exec, and never share their port with another process.
//
// INVALID_ARGUMENT: not ADDRESS:PORT. UNAVAILABLE: the name does not resolve,
// or the system refuses; the message says why and what to try, and the call may
// be repeated. Blocks while a name is resolved.
absl::StatusOr<std::vector<ListeningSocket>> ListenOn(
    const std::string& listen, const ConnectionLimits& limits);

// The address of an IPv4 or IPv6 peer as the HandshakeLimiter uses it.
SourceAddress SourceAddressOf(const sockaddr_storage& peer);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENING_SOCKET_H_
