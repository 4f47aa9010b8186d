#include "client/agent/node_files/master_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system/system.h"

namespace rollcall {
namespace {

constexpr PortRange kDefaultEphemeral = {32768, 60999};
constexpr uint32_t kPreferred = 20000;
constexpr uint32_t kUnprivileged = 1024;
constexpr uint32_t kPortMax = 65535;

// Returns a bound socket, or -1 with errno set.
int BindWildcard(int family, uint32_t port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage address{};
  socklen_t size = 0;
  if (family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&address);
    in->sin_family = AF_INET;
    in->sin_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*in);
  } else {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address);
    in6->sin6_family = AF_INET6;
    in6->sin6_addr = in6addr_any;
    in6->sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*in6);
    // Both families are bound separately, so that a port taken in one of them
    // is noticed.
    const int on = 1;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  // No SO_REUSEADDR: a port with connections of an earlier process is skipped.
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

bool NoSuchFamily(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL ||
         error == EPROTONOSUPPORT;
}

}  // namespace

PortRange ParseEphemeralRange(absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  PortRange range{};
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &range.first) ||
      !absl::SimpleAtoi(words[1], &range.last) || range.first == 0 ||
      range.first > range.last || range.last > kPortMax) {
    return kDefaultEphemeral;
  }
  return range;
}

PortRange ReadEphemeralRange() {
  return ParseEphemeralRange(
      ReadSmallFile("/proc/sys/net/ipv4/ip_local_port_range", 64));
}

std::vector<PortRange> MasterPortRanges(const PortRange& ephemeral) {
  std::vector<PortRange> ranges;
  if (ephemeral.first > kPreferred) {
    ranges.push_back({kPreferred, ephemeral.first - 1});
  }
  if (ephemeral.last < kPortMax) {
    ranges.push_back({std::max(ephemeral.last + 1, kUnprivileged), kPortMax});
  }
  const uint32_t below = std::min(ephemeral.first, kPreferred);
  if (below > kUnprivileged) ranges.push_back({kUnprivileged, below - 1});
  if (ranges.empty()) ranges.push_back({kPreferred, kPortMax});
  return ranges;
}

absl::StatusOr<MasterPort> MasterPort::Hold(
    const std::vector<PortRange>& ranges, uint32_t random) {
  int error = EADDRINUSE;
  for (const PortRange& range : ranges) {
    const uint32_t count = range.last - range.first + 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t port = range.first + (random % count + i) % count;
      const int ipv4 = BindWildcard(AF_INET, port);
      if (ipv4 < 0 && !NoSuchFamily(errno)) {
        error = errno;
        continue;
      }
      const int ipv6 = BindWildcard(AF_INET6, port);
      if (ipv6 >= 0 || (ipv4 >= 0 && NoSuchFamily(errno))) {
        return MasterPort(ipv4, ipv6, port);
      }
      error = errno;
      if (ipv4 >= 0) close(ipv4);
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "MASTER_PORT: no port outside the ephemeral range could be bound: ",
      std::strerror(error),
      "; free one, or make the range in "
      "/proc/sys/net/ipv4/ip_local_port_range smaller"));
}

MasterPort::MasterPort(int ipv4, int ipv6, uint32_t port)
    : ipv4_(ipv4), ipv6_(ipv6), port_(port) {}

MasterPort::MasterPort(MasterPort&& other) noexcept
    : ipv4_(std::exchange(other.ipv4_, -1)),
      ipv6_(std::exchange(other.ipv6_, -1)),
      port_(other.port_) {}

MasterPort& MasterPort::operator=(MasterPort&& other) noexcept {
  std::swap(ipv4_, other.ipv4_);
  std::swap(ipv6_, other.ipv6_);
  std::swap(port_, other.port_);
  return *this;
}

MasterPort::~MasterPort() {
  if (ipv4_ >= 0) close(ipv4_);
  if (ipv6_ >= 0) close(ipv6_);
}

}  // namespace rollcall
