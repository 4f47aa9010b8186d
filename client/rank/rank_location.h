// RankLocation: socket, local rank and generation of this process. The agent
// has set them in the environment or, under `join --attach`, the parent
// process.
//
// Pure except for getenv. Every error names the variable, its value and what
// was expected.
#ifndef ROLLCALL_CLIENT_RANK_RANK_LOCATION_H_
#define ROLLCALL_CLIENT_RANK_RANK_LOCATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace rollcall {

struct RankLocation {
  std::string socket;       // ROLLCALL_SOCKET: the agent's Unix socket.
  uint32_t local_rank = 0;  // LOCAL_RANK
  // ROLLCALL_GENERATION; 0: unset, as under `join --attach`.
  uint64_t generation = 0;

  // FAILED_PRECONDITION: ROLLCALL_SOCKET is not set, so no agent started this
  // process. INVALID_ARGUMENT: a variable has a value that no agent sets.
  static absl::StatusOr<RankLocation> FromEnvironment();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_RANK_LOCATION_H_
