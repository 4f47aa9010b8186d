#include "client/agent/hosts/hosts_names.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

bool IsLoopbackKey(const std::string& key) {
  if (key.size() == 4) return key[0] == 127;
  return key == std::string(15, '\0') + '\1';
}

bool IsLocalhost(const std::string& name) {
  if (absl::EndsWith(name, ".localhost")) return true;
  for (const char* other : {"localhost", "localhost4", "localhost6",
                            "ip6-localhost", "ip6-loopback"}) {
    if (name == other || absl::StartsWith(name, absl::StrCat(other, "."))) {
      return true;
    }
  }
  return false;
}

// Whether there are addresses and they belong to a machine other than the node.
bool Elsewhere(const std::set<std::string>& addresses, const NameCase& one) {
  if (addresses.empty()) return false;
  const std::string node = AddressKey(one.address);
  bool loopback = true;
  for (const std::string& address : addresses) {
    const std::string key = AddressKey(address);
    if (key == node) return false;
    loopback = loopback && IsLoopbackKey(key);
  }
  return !(one.own && loopback);
}

}  // namespace

std::string AddressKey(absl::string_view text) {
  // inet_pton would stop at a zero byte and accept the text before it.
  if (absl::StrContains(text, '\0')) return "";
  const std::string address(text.substr(0, text.find('%')));
  unsigned char bytes[16];
  if (inet_pton(AF_INET, address.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 4);
  }
  if (inet_pton(AF_INET6, address.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 16);
  }
  return "";
}

NameVerdict DecideName(const NameCase& one) {
  if (IsLocalhost(one.name)) return NameVerdict::kLocalhost;
  if (!AddressKey(one.name).empty()) return NameVerdict::kIsAddress;
  if (one.taken) return NameVerdict::kTaken;
  if (one.listed) return NameVerdict::kWrite;
  if (absl::StrContains(one.name, '.')) return NameVerdict::kDotted;
  if (Elsewhere(one.in_file, one)) return NameVerdict::kFileElsewhere;
  if (one.our_hostname) return NameVerdict::kOurHostname;
  if (one.nodes > kAskedNodesMax) return NameVerdict::kLargeWorld;
  switch (one.answer.kind) {
    case NameAnswer::Kind::kUnclear:
      return NameVerdict::kUnclear;
    case NameAnswer::Kind::kNotFound:
      return NameVerdict::kWrite;
    case NameAnswer::Kind::kFound:
      break;
  }
  // The name exists but has no address.
  if (one.answer.addresses.empty()) return NameVerdict::kUnclear;
  return Elsewhere(one.answer.addresses, one) ? NameVerdict::kResolverElsewhere
                                              : NameVerdict::kWrite;
}

std::vector<std::string> NamesToAsk(const v1::World& world,
                                    const std::set<std::string>& listed) {
  if (static_cast<size_t>(world.members_size()) > kAskedNodesMax) return {};
  std::set<std::string> names;
  for (const v1::Member& member : world.members()) {
    std::string name = absl::AsciiStrToLower(member.node());
    if (!AdmitNodeName(name).ok() || absl::StrContains(name, '.') ||
        IsLocalhost(name) || listed.contains(name)) {
      continue;
    }
    names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

}  // namespace rollcall
