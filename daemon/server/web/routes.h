// Routes: what a request of the HTTP port asks for, and who may ask it.
//
//   path            shows                          beyond loopback
//   /               the status page, without data  open
//   /healthz        whether the loop answers       open
//   /readyz         whether jobs can be served     open
//   /status.json    jobs                           a viewer's token
//   /metrics        the same as numbers            a viewer's token
//
// On loopback everything is open, but the Host header must name loopback:
// otherwise a page of another site, whose name an attacker resolves to
// 127.0.0.1, could read it through a browser of this machine.
//
// Pure; any thread. Every field of a request is what a stranger sent.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_
#define ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct WebRequest {
  std::string method;
  // As it stands in the first line: path and query.
  std::string target;
  // Headers; empty: absent.
  std::string host;
  std::string authorization;
  // The client's address, without port.
  std::string address;
};

struct WebAnswer {
  int status = 200;
  const char* content_type = "text/plain; charset=utf-8";
  // Shared: many clients may get the same bytes. Never null.
  std::shared_ptr<const std::string> body;
  // Further headers.
  std::vector<std::pair<const char*, std::string>> headers = {};
};

// An answer of one line of text.
WebAnswer TextAnswer(int status, std::string text);

// For an error of the daemon: its HTTP status, and its message as the text.
WebAnswer ErrorAnswer(const absl::Status& status);

enum class WebPath { kPage, kHealth, kReady, kStatus, kMetrics };

// A request that may be answered.
struct Route {
  WebPath path;
  // Empty: none was named.
  std::string job = {};
  bool pings = false;
  // What the client showed; empty: nothing is needed, or it was no token.
  v1::JoinToken token = {};
  // No token is needed.
  bool open = false;
};

// `loopback`: the port is on loopback only. The answer is a refusal.
std::variant<Route, WebAnswer> RouteOf(const WebRequest& request,
                                       bool loopback);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_
