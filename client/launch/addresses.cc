#include "client/launch/addresses.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/security/server_certificate.h"

namespace rollcall {
namespace {

// Beyond this a join line does not fit a terminal, and nobody tries them all.
constexpr size_t kEndpointsMax = 8;

bool IsWildcard(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "*";
}

bool IsLinkLocal(const std::string& address) {
  return absl::StartsWith(address, "169.254.") ||
         absl::StartsWithIgnoreCase(address, "fe80:");
}

}  // namespace

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

std::vector<std::string> JoinEndpoints(const HostPort& listen, int port,
                                       const v1::Facts& facts) {
  if (!IsWildcard(listen.host)) return {FormatHostPort({listen.host, port})};
  std::vector<std::string> first, others, inner;
  for (const v1::Interface& interface : facts.interfaces()) {
    if (interface.loopback() || !interface.up()) continue;
    for (const v1::InterfaceAddress& address : interface.addresses()) {
      if (IsLinkLocal(address.address())) continue;
      auto& to = IsInnerInterface(interface.name()) ? inner
                 : interface.default_route()        ? first
                                                    : others;
      to.push_back(FormatHostPort({address.address(), port}));
    }
  }
  first.insert(first.end(), others.begin(), others.end());
  // Only where there is nothing better: other machines have the same ones.
  if (first.empty()) first = inner;
  if (first.size() > kEndpointsMax) first.resize(kEndpointsMax);
  // On another machine this would be somebody else's daemon.
  if (first.empty()) first.push_back(FormatHostPort({"127.0.0.1", port}));
  return first;
}

std::string LocalEndpoint(const HostPort& listen, int port) {
  return FormatHostPort(
      {IsWildcard(listen.host) ? "127.0.0.1" : listen.host, port});
}

}  // namespace rollcall
