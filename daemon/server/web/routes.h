// Routes: what a request to the HTTP port wants, and whether it is allowed.
//
//   path            shows                          beyond loopback
//   /               the status page, without data  open
//   /healthz        whether the loop answers       open
//   /readyz         whether jobs can be served     open
//   /status.json    jobs                           a viewer's token
//   /events.json    the newest events of a job     a viewer's token
//   /metrics        the same as numbers            a viewer's token
//
// On loopback everything is open, but for jobs the Host header must name
// loopback. Otherwise an attacker could let a site's name resolve to 127.0.0.1,
// and a page of that site could read the jobs through a browser of this
// machine.
//
// Pure; any thread. Every field of a request may come from an unauthenticated
// client.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_
#define ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_

#include <cstdint>
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
  // Path and query, as in the first line of the request.
  std::string target;
  // Values of the headers; empty: the header is absent.
  std::string host;
  std::string authorization;
  // The client's address, without port.
  std::string address;
};

struct WebAnswer {
  int status = 200;
  const char* content_type = "text/plain; charset=utf-8";
  // Shared, because many clients may get the same bytes. Never null.
  std::shared_ptr<const std::string> body;
  // Further headers.
  std::vector<std::pair<const char*, std::string>> headers = {};
};

// An answer with one line of text.
WebAnswer TextAnswer(int status, std::string text);

// The answer for an error of the daemon: the HTTP status for its code, and its
// message as the text.
WebAnswer ErrorAnswer(const absl::Status& status);

enum class WebPath { kPage, kHealth, kReady, kStatus, kEvents, kMetrics };

// A request that may be answered.
struct Route {
  WebPath path;
  // Empty: the request names no job.
  std::string job = {};
  bool pings = false;
  // Only events with a higher id.
  uint64_t after = 0;
  // The client's token; empty: none is needed, or the client sent no valid text
  // of a token.
  v1::JoinToken token = {};
  // No token is needed.
  bool open = false;
};

// `loopback`: the port is on loopback only. A WebAnswer is a refusal.
std::variant<Route, WebAnswer> RouteOf(const WebRequest& request,
                                       bool loopback);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_ROUTES_H_
