#include "client/admin/addresses.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/join_endpoints.h"

namespace rollcall {

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  int port = -1;
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected HOST:PORT with a port of 0 to 65535, found '", text, "'"));
  }
  absl::string_view host = text.substr(0, colon);
  const bool brackets =
      host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.find_first_of("[]") != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected HOST:PORT, an IPv6 address between brackets as in "
        "[::1]:29400, found '",
        text, "'"));
  }
  if (!brackets && absl::StrContains(host, ":")) {
    return absl::InvalidArgumentError(
        absl::StrCat("an IPv6 address needs brackets: [", host, "]:", port));
  }
  parsed.host = std::string(host);
  parsed.port = port;
  return parsed;
}

std::string FormatHostPort(const HostPort& endpoint) {
  return absl::StrContains(endpoint.host, ":")
             ? absl::StrCat("[", endpoint.host, "]:", endpoint.port)
             : absl::StrCat(endpoint.host, ":", endpoint.port);
}

std::string LocalEndpoint(const HostPort& listen, int port) {
  return FormatHostPort(
      {IsWildcard(listen.host) ? "127.0.0.1" : listen.host, port});
}

}  // namespace rollcall
