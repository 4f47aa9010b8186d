// HttpServer: serves GET and HEAD over HTTP/1.1, with or without TLS, and calls
// a handler for each answer. It knows no path and no job.
//
// Boost.Beast implements the protocol. It is header-only, so the one static
// binary needs no further library. It is event-driven, so a slow client costs a
// socket and no thread. It uses OpenSSL for TLS, as gRPC does. Its timeouts
// apply to a whole operation, so a client that sends a byte now and then does
// not extend them. The alternatives: Debian's cpp-httplib is a shared library
// with a thread for each connection; Debian's civetweb has no static library
// with TLS; libevent's timeouts apply to a single read; libmicrohttpd needs
// GnuTLS.
//
// The resources of clients are bounded: connections in total and per network,
// TLS handshakes per second, the size of a request's header, and the time of
// each operation. When there are too many connections, the one that has waited
// longest is closed: of the new client's network if that has too many, else of
// the network with the most connections. A handshake over the budget is
// refused. So clients of one network can displace each other, but not clients
// of a network with fewer connections.
//
// Thread rule: Start, Stop and the destructor from the owner's thread; the
// handler is called on the server's own thread, which it must not block. The
// handler's reply may be called on any thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_HTTP_SERVER_H_
#define ROLLCALL_DAEMON_SERVER_WEB_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/server/connections/listening_socket.h"
#include "daemon/server/web/handshake_budget.h"
#include "daemon/server/web/routes.h"

namespace rollcall {

struct HttpLimits {
  size_t connections_max = 128;
  // Per IPv4 address or IPv6 /64. On loopback, where all clients share one
  // network, WebPort sets connections_max here.
  size_t connections_per_network_max = 32;
  // Bounds on TLS handshakes, which cost CPU time: {per second, in one burst},
  // for all networks together and per network. Connections beyond them are
  // closed at once.
  HandshakeRate handshakes = {100, 64};
  HandshakeRate handshakes_per_network = {50, 32};
  // Two requests of one connection begin at least this far apart.
  absl::Duration request_interval = absl::Milliseconds(20);
  size_t header_bytes_max = 8 << 10;
  // Timeouts of a TLS handshake; of receiving a whole header, including the
  // pause before it; of the handler; of sending the answer.
  absl::Duration handshake_patience = absl::Seconds(5);
  absl::Duration request_patience = absl::Seconds(15);
  absl::Duration answer_patience = absl::Seconds(10);
  absl::Duration send_patience = absl::Seconds(30);
};

class HttpServer {
 public:
  // Makes the answer; runs on the server's thread.
  using Work = std::function<WebAnswer()>;
  // The handler calls it once. A call after answer_patience has no effect.
  using Reply = std::function<void(Work)>;
  using Handler = std::function<void(const WebRequest&, Reply)>;
  // Returns the certificate with its key. It is called repeatedly, so that a
  // renewed certificate is used. Empty: no TLS.
  using Certificate = std::function<absl::StatusOr<IssuedCertificate>()>;

  struct Options {
    std::vector<ListeningSocket> sockets;
    Certificate certificate;
    HttpLimits limits;
  };

  // UNAVAILABLE: no descriptor or thread is left. FAILED_PRECONDITION: the
  // certificate is not valid.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options,
                                                           Handler handler);
  // As Stop.
  ~HttpServer();

  // Closes all connections. The handler is not called after Stop has returned.
  // The second call does nothing.
  void Stop();

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_HTTP_SERVER_H_
