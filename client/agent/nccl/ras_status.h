// What NCCL says of a job whose ranks hang: how many collectives each rank of
// each communicator has begun, and so who is behind.
//
// NCCL 2.24 and newer has a service for this in every process (RAS); it answers
// in JSON from 2.28.7 on. The service is not authenticated: any user of the
// machine can answer in its place. So an agent reports only the places of its
// own ranks, and the daemon judges them like all other reports of a node. But a
// place is a comparison with the counts of other nodes' ranks.
//
// NCCL counts the collectives that the host has launched, without
// point-to-point operations and CUDA graphs. A rank that waits for its GPU
// after each step has launched fewer than one that does not, without being the
// one that hangs.
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
  // Where its process is: an IP address as NCCL writes it, and the pid there.
  std::string host;
  int64_t pid = 0;
  int64_t device = 0;
  // The collectives that it has begun, of all kinds.
  uint64_t begun = 0;
};

struct RasCommunicator {
  std::string hash;
  uint64_t size = 0;
  std::vector<RasRank> ranks;
  // Ranks whose processes do not answer; `begun` is not known. Without those
  // that have left the communicator.
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

// The processes of a rank. Those of other machines can have the same pids.
struct RasProcesses {
  std::set<int64_t> pids;
  // The addresses of their machine.
  std::set<std::string> hosts;
};

// The collectives that the rank with these processes has begun in this
// communicator; nullopt: it is not in it, or several ranks could be it (two
// containers that share an address and use the same pid).
std::optional<uint64_t> FindIn(const RasCommunicator& communicator,
                               const RasProcesses& processes);

struct RasPlace {
  v1::NcclPlace place = v1::NCCL_PLACE_UNSPECIFIED;
  // What a person would look for: the communicators in which the rank is behind
  // others, or waits for others. One line; empty: there is nothing to say.
  std::string text;
};

// Where the rank with these processes stands.
RasPlace FindPlace(const RasStatus& status, const RasProcesses& processes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_RAS_STATUS_H_
