#include "daemon/core/network_plan/join_endpoints.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {
namespace {

struct Choice {
  bool bridge = false;
  bool default_route = false;
  bool ipv6 = false;
  std::string endpoint;
};

std::string Endpoint(const std::string& host, int port) {
  return host.find(':') == std::string::npos
             ? absl::StrCat(host, ":", port)
             : absl::StrCat("[", host, "]:", port);
}

}  // namespace

bool IsWildcard(std::string_view host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "*";
}

std::vector<std::string> JoinEndpoints(
    const std::string& host, int port,
    const google::protobuf::RepeatedPtrField<v1::Interface>& interfaces) {
  if (!IsWildcard(host)) return {Endpoint(host, port)};
  std::vector<Choice> choices;
  for (const v1::Interface& interface : interfaces) {
    if (!interface.up() || interface.loopback()) continue;
    for (const v1::InterfaceAddress& address : interface.addresses()) {
      const std::string& text = address.address();
      const bool ipv6 = text.find(':') != std::string::npos;
      if (IsUnusable(text) || (ipv6 && host == "0.0.0.0")) continue;
      choices.push_back({IsLocalBridge(interface.name()),
                         interface.default_route(), ipv6,
                         Endpoint(text, port)});
    }
  }
  const auto rank = [](const Choice& choice) {
    return std::make_tuple(choice.bridge, !choice.default_route, choice.ipv6);
  };
  std::stable_sort(
      choices.begin(), choices.end(),
      [&](const Choice& a, const Choice& b) { return rank(a) < rank(b); });
  std::vector<std::string> endpoints;
  for (const Choice& choice : choices) {
    if (choice.bridge && !choices.front().bridge) break;
    if (endpoints.size() == kJoinEndpointsMax) break;
    endpoints.push_back(choice.endpoint);
  }
  if (endpoints.empty()) endpoints.push_back(Endpoint("127.0.0.1", port));
  return endpoints;
}

}  // namespace rollcall
