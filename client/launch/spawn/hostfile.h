// Hostfile: the hosts of `rollcall launch --hostfile FILE`, in the syntax that
// mpirun and DeepSpeed share.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTFILE_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct Host {
  // The node name: HOST, unless `name=` gives another.
  std::string name;
  // The ssh destination: HOST or USER@HOST.
  std::string target;
  // The number of ranks on this host; 0: --nproc-per-node decides.
  uint32_t slots = 0;
};

// One host per line: `[USER@]HOST [slots=N] [name=NODE]`. Empty lines and text
// after `#` are ignored. INVALID_ARGUMENT: the message names the line and what
// was expected; also for a host that occurs twice, and for a file without
// hosts.
absl::StatusOr<std::vector<Host>> ParseHostfile(absl::string_view text);

// One line of such a file.
std::string FormatHost(const Host& host);

// Whether `host` is the machine with this hostname: the hostname, its first
// label, or localhost.
bool IsThisMachine(const Host& host, const std::string& hostname);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTFILE_H_
