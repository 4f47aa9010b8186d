// WebPort: the HTTP port of a daemon: where it listens, and how it is
// protected.
//
// On loopback: plain HTTP, without a token. Beyond it: TLS with the daemon's
// certificate, and a viewer's token for everything that shows a job; plain HTTP
// only if the user asked for it (--http-insecure).
//
// Thread rule: the owner's thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_WEB_PORT_H_
#define ROLLCALL_DAEMON_SERVER_WEB_WEB_PORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/limits.h"
#include "daemon/server/connections/listening_socket.h"
#include "daemon/server/leader/current_loop.h"
#include "daemon/server/web/http_server.h"
#include "daemon/server/web/web_site.h"

namespace rollcall {

struct WebPortOptions {
  // ADDRESS:PORT, as for ListenOn.
  std::string listen;
  // Plain HTTP beyond loopback.
  bool insecure = false;
  // The daemon's certificate; empty: it has none.
  HttpServer::Certificate certificate;
  ConnectionLimits limits;
};

class WebPort {
 public:
  // INVALID_ARGUMENT, UNAVAILABLE: as ListenOn. INVALID_ARGUMENT: beyond
  // loopback without a certificate, and plain HTTP was not asked for.
  static absl::StatusOr<std::unique_ptr<WebPort>> Open(WebPortOptions options);

  // Begins to serve. `loop` must outlive this. Errors: those of HttpServer.
  absl::Status Start(CurrentLoop& loop);
  void Stop();

  int port() const { return sockets_port_; }
  // Where a browser finds it.
  const std::string& url() const { return url_; }

 private:
  WebPort(WebPortOptions options, std::vector<ListeningSocket> sockets,
          bool loopback);

  WebPortOptions options_;
  std::vector<ListeningSocket> sockets_;
  const bool loopback_;
  const int sockets_port_;
  std::string url_;
  // Used by server_, so declared before it.
  std::unique_ptr<WebSite> site_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_WEB_PORT_H_
