// What NCCL reports of a job whose ranks hang: how many collectives each rank
// of each communicator has begun. This shows which rank is behind.
//
// NCCL 2.24 and newer has a service for this in every process (RAS); it answers
// in JSON from 2.28.7 on. The service is not authenticated: any user of the
// machine can answer in its place. So an agent reports only the places of its
// own ranks, and the daemon judges them like all other reports of a node. But a
// place is a comparison with the counts of other nodes' ranks.
//
// NCCL counts the collectives that the host has launched, without
// point-to-point operations and CUDA graphs. A rank that waits for its GPU
// after each step has launched fewer collectives than a rank that does not
// wait, even if it does not hang.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_AGENT_NCCL_RAS_STATUS_H_
#define ROLLCALL_CLIENT_AGENT_NCCL_RAS_STATUS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A rank of a communicator.
struct RasRank {
  int64_t rank = 0;
  // Where its process runs: an IP address in NCCL's spelling, and the pid
  // there.
  std::string host;
  int64_t pid = 0;
  int64_t device = 0;
  // The number of collectives of all kinds that it has begun.
  uint64_t begun = 0;
};

struct RasCommunicator {
  std::string hash;
  uint64_t size = 0;
  std::vector<RasRank> ranks;
  // Ranks whose processes do not answer, without those that have left the
  // communicator. Their `begun` is not known.
  std::vector<RasRank> missing;
};

struct RasStatus {
  std::vector<RasCommunicator> communicators;
};

// The most communicators and ranks of an answer, together. NCCL needs about 500
// bytes for a rank, and an answer has at most 32 MiB.
inline constexpr size_t kRasPartsMax = 131'072;

// The answer to VERBOSE STATUS in JSON. Unknown members are ignored.
// INVALID_ARGUMENT: not JSON, or without communicators. RESOURCE_EXHAUSTED:
// more than kRasPartsMax parts.
absl::StatusOr<RasStatus> ParseRasStatus(absl::string_view json);

// The processes of a rank. Processes on other machines can have the same pids.
struct RasProcesses {
  std::set<int64_t> pids;
  // The addresses of this machine.
  std::set<std::string> hosts;
};

// The number of collectives that the rank with these processes has begun in
// this communicator. nullopt: the rank is not in it, or several ranks match
// (two containers that share an address and use the same pid).
std::optional<uint64_t> FindIn(const RasCommunicator& communicator,
                               const RasProcesses& processes);

struct RasPlace {
  v1::NcclPlace place = v1::NCCL_PLACE_UNSPECIFIED;
  // For the user: the communicators in which the rank is behind others or waits
  // for others. One line; empty: there are none.
  std::string text;
};

// Whether the rank with these processes is behind other ranks or waits for
// them.
RasPlace FindPlace(const RasStatus& status, const RasProcesses& processes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_RAS_STATUS_H_
