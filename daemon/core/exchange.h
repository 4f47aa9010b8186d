// Exchanges: for each key, each rank gives one value. When all ranks have given
// theirs, all values are returned.
//
// The store that the bootstrap of Gloo and NCCL needs, within one generation.
// Pure. limits.h bounds the open keys of each node, the kept answers and the
// total bytes. A key counts against the node that first gave a value for it, so
// that no node can use up the room of the others.
#ifndef ROLLCALL_DAEMON_CORE_EXCHANGE_H_
#define ROLLCALL_DAEMON_CORE_EXCHANGE_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Exchanges {
 public:
  // Removes all keys and begins a generation whose node i has ranks[i] ranks.
  void Begin(uint64_t generation, std::vector<uint32_t> ranks);

  struct Result {
    // True: this value completed the key, and `out` goes to all nodes. False:
    // the key was complete before, and `out` goes only to the node that asked
    // again.
    bool complete = false;
    // Not set while values are missing; valid until the next call.
    const v1::ExchangeOut* out = nullptr;
  };

  // Takes a node's values. A repetition with the same values changes nothing.
  // INVALID_ARGUMENT: not one value for each rank, or other values than before.
  // RESOURCE_EXHAUSTED: this node has too many open keys, or all keys together
  // have too many bytes. ABORTED: the values are for another generation.
  absl::StatusOr<Result> In(uint32_t node_rank, const v1::ExchangeIn& in);

  size_t open() const { return open_.size(); }

 private:
  // The values of one node, one value for each of its ranks.
  using Values = std::vector<std::string>;
  struct Open {
    uint32_t opened_by;  // The node rank that opened the key.
    std::map<uint32_t, Values> by_node;
  };

  absl::Status TakeRoom(uint32_t node_rank, const v1::ExchangeIn& in,
                        bool opens);
  v1::ExchangeOut Complete(const std::string& key, Open open);
  void Keep(const std::string& key, v1::ExchangeOut out);

  uint64_t generation_ = 0;
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> first_rank_;
  uint32_t world_size_ = 0;
  std::map<std::string, Open> open_;
  std::vector<uint32_t> open_by_node_;  // Open keys of each node.
  std::list<v1::ExchangeOut> kept_;     // Latest last.
  std::map<std::string, std::list<v1::ExchangeOut>::iterator> kept_by_key_;
  size_t bytes_ = 0;  // Of all keys and values, open and kept.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EXCHANGE_H_
