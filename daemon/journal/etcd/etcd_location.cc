#include "daemon/journal/etcd/etcd_location.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr int kPort = 2379;
constexpr size_t kHostBytesMax = 255;

absl::Status Unfit(std::string_view url, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--state ", Printable(url, 256), ": ", what,
                   "; expected etcd://HOST:PORT,HOST:PORT,... or the same "
                   "with /NAME behind it"));
}

bool IsHost(std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  for (const char c : host) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      c == '-' || c == '.' || c == '_' || c == ':';
    if (!fits) return false;
  }
  return true;
}

// Returns `text` as HOST:PORT, with the default port if it has none; empty:
// `text` is not valid.
std::string Endpoint(const std::string& text) {
  const bool six = !text.empty() && text.front() == '[';
  const size_t bracket = six ? text.find(']') : 0;
  if (bracket == std::string::npos) return "";
  const size_t colon = text.find(':', bracket);
  const std::string host = text.substr(0, six ? bracket + 1 : colon);
  const std::string bare = six ? text.substr(1, bracket - 1) : host;
  if (!IsHost(bare) || (!six && bare.find(':') != std::string::npos)) return "";
  if (six && colon != bracket + 1 && bracket + 1 != text.size()) return "";
  int port = kPort;
  if (colon != std::string::npos &&
      (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 ||
       port > 65535)) {
    return "";
  }
  return absl::StrCat(host, ":", port);
}

}  // namespace

bool EtcdLocation::Means(std::string_view state) {
  return state.substr(0, kScheme.size()) == kScheme;
}

absl::StatusOr<EtcdLocation> EtcdLocation::Parse(std::string_view url) {
  if (!Means(url)) return Unfit(url, "it does not begin with etcd://");
  const std::string rest(url.substr(kScheme.size()));
  const size_t slash = rest.find('/');
  EtcdLocation place;
  if (slash != std::string::npos && slash + 1 < rest.size()) {
    place.name = rest.substr(slash + 1);
  }
  if (!AdmitJobId(place.name).ok()) {
    return Unfit(url, "its name is not 1 to 63 of a-z, 0-9 and -");
  }
  const std::vector<std::string> given =
      absl::StrSplit(rest.substr(0, slash), ',');
  for (const std::string& text : given) {
    const std::string endpoint = Endpoint(text);
    if (endpoint.empty()) {
      return Unfit(
          url, absl::StrCat("'", Printable(text, 64), "' is not HOST:PORT"));
    }
    place.endpoints.push_back(endpoint);
  }
  if (place.endpoints.size() > kEndpointsMax) {
    return Unfit(url, absl::StrCat("it names ", place.endpoints.size(),
                                   " endpoints, at most ", kEndpointsMax,
                                   " are of use"));
  }
  return place;
}

std::string EtcdLocation::Prefix() const {
  return absl::StrCat("/rollcall/", name, "/");
}

std::string EtcdLocation::Text() const {
  return absl::StrCat("etcd://", absl::StrJoin(endpoints, ","), "/", name);
}

}  // namespace rollcall
