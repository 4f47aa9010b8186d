// HttpServer: serves GET and HEAD over HTTP/1.1, with or without TLS, and asks
// a handler for each answer. It knows no path and no job.
//
// Boost.Beast does the protocol. It is header-only, so nothing is added to the
// one static binary; it is event-driven, so a slow client costs a socket and no
// thread; its TLS is the OpenSSL that gRPC uses; and its timeouts are those of
// a whole operation, so a client that sends a byte now and then gains nothing.
// Debian's cpp-httplib is a shared library with a thread for each connection,
// its civetweb has no archive with TLS linked in, libevent's timeouts are those
// of a single read, and libmicrohttpd would bring GnuTLS.
//
// What a client may cost is bounded: connections in all and of one network, TLS
// handshakes per second, the size of a request's header, and the time of each
// operation. At the bound of connections the one that has waited longest is
// closed, of the same network if that has too many; a handshake over the budget
// is refused. So a network's clients can crowd out each other, but no other's.
//
// Thread rule: Start, Stop and the destructor from the owner's thread; the
// handler is called on the server's own thread, which it must not block; its
// reply may be given on any thread.
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
#include "daemon/security/authority.h"
#include "daemon/server/connections/listening_socket.h"
#include "daemon/server/web/handshake_budget.h"
#include "daemon/server/web/routes.h"

namespace rollcall {

struct HttpLimits {
  size_t connections_max = 128;
  // Of one IPv4 address or IPv6 /64; on loopback all are of one.
  size_t connections_per_network_max = 32;
  // TLS handshakes, which cost a processor's time: in a second and in one
  // burst, of all together and of one network. More are closed at once.
  HandshakeRate handshakes = {100, 64};
  HandshakeRate handshakes_per_network = {50, 32};
  // Two requests of one connection begin at least this far apart.
  absl::Duration request_interval = absl::Milliseconds(20);
  size_t header_bytes_max = 8 << 10;
  // Of a TLS handshake; of a whole header, the pause before it included; of the
  // handler; of sending the answer.
  absl::Duration handshake_patience = absl::Seconds(5);
  absl::Duration request_patience = absl::Seconds(15);
  absl::Duration answer_patience = absl::Seconds(10);
  absl::Duration send_patience = absl::Seconds(30);
};

class HttpServer {
 public:
  // Makes the answer; runs on the server's thread.
  using Work = std::function<WebAnswer()>;
  // To be called once. Calls after answer_patience have no effect.
  using Reply = std::function<void(Work)>;
  using Handler = std::function<void(const WebRequest&, Reply)>;
  // The certificate with its key; called again and again, so that a renewed one
  // is used. Empty: no TLS.
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

  // Closes all connections; after it the handler is not called. The second call
  // does nothing.
  void Stop();

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_HTTP_SERVER_H_
