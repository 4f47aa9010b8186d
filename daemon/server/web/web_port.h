// WebPort: the HTTP port of a daemon: where it listens, and how it is
// protected.
//
// On loopback the port uses plain HTTP and needs no token. Beyond loopback it
// uses TLS with the daemon's certificate, and needs a viewer's token for
// everything that shows a job. Plain HTTP beyond loopback is used only with
// --http-insecure.
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
  // Allows plain HTTP beyond loopback.
  bool insecure = false;
  // The daemon's certificate; empty: the daemon has none.
  HttpServer::Certificate certificate;
  ConnectionLimits limits;
};

class WebPort {
 public:
  // INVALID_ARGUMENT, UNAVAILABLE: as ListenOn. INVALID_ARGUMENT also: the
  // address is beyond loopback, there is no certificate, and `insecure` is
  // false.
  static absl::StatusOr<std::unique_ptr<WebPort>> Open(WebPortOptions options);

  // Begins to serve. `loop` must outlive this. Errors: those of HttpServer.
  absl::Status Start(CurrentLoop& loop);
  void Stop();

  int port() const { return sockets_port_; }
  // The URL for a browser.
  const std::string& url() const { return url_; }

 private:
  WebPort(WebPortOptions options, std::vector<ListeningSocket> sockets,
          bool loopback);

  WebPortOptions options_;
  std::vector<ListeningSocket> sockets_;
  const bool loopback_;
  const int sockets_port_;
  std::string url_;
  // Declared before server_, which uses it.
  std::unique_ptr<WebSite> site_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_WEB_PORT_H_
