// RankPlace: where this process stands, as its agent told it in the
// environment.
//
// Pure but for getenv. Every error names the variable, what it holds and what
// was expected.
#ifndef ROLLCALL_CLIENT_RANK_PLACE_H_
#define ROLLCALL_CLIENT_RANK_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace rollcall {

struct RankPlace {
  std::string socket;       // ROLLCALL_SOCKET: the agent's Unix socket.
  uint32_t local_rank = 0;  // LOCAL_RANK
  uint64_t generation = 0;  // ROLLCALL_GENERATION

  // FAILED_PRECONDITION: ROLLCALL_SOCKET is not set; no agent started this
  // process. INVALID_ARGUMENT: a variable cannot be what an agent has set.
  static absl::StatusOr<RankPlace> FromEnvironment();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_PLACE_H_
