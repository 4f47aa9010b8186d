// MasterPort: the port on which rank 0 will listen, held until rank 0 starts.
//
// It is bound on the IPv4 and IPv6 wildcard addresses, but never listened on,
// so that no other program takes the port between the proposal and the start of
// rank 0. The port is outside the kernel's ephemeral range if possible, because
// outgoing connections (NCCL's too) take ports from that range at any time.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_MASTER_PORT_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_MASTER_PORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// First and last port, both included.
struct PortRange {
  uint32_t first;
  uint32_t last;
  bool operator==(const PortRange&) const = default;
};

// The kernel's ephemeral range, from the text of
// /proc/sys/net/ipv4/ip_local_port_range; the kernel's default if the text is
// invalid. Pure.
PortRange ParseEphemeralRange(absl::string_view text);
PortRange ReadEphemeralRange();

// The ranges to search, in order: from 20000 up to the ephemeral range, above
// it, unprivileged ports below it. If the ephemeral range covers everything:
// ports inside it. Pure.
std::vector<PortRange> MasterPortRanges(const PortRange& ephemeral);

class MasterPort {
 public:
  // Binds the first free port of `ranges`. `random` selects the port at which
  // the search in each range starts. RESOURCE_EXHAUSTED: no port is free.
  static absl::StatusOr<MasterPort> Hold(const std::vector<PortRange>& ranges,
                                         uint32_t random);

  // Closes the port.
  ~MasterPort();
  MasterPort(MasterPort&& other) noexcept;
  MasterPort& operator=(MasterPort&& other) noexcept;
  MasterPort(const MasterPort&) = delete;
  MasterPort& operator=(const MasterPort&) = delete;

  uint32_t port() const { return port_; }

 private:
  MasterPort(int ipv4, int ipv6, uint32_t port);

  // -1: the machine does not have that address family.
  int ipv4_;
  int ipv6_;
  uint32_t port_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_MASTER_PORT_H_
