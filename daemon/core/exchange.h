// Exchanges: for each key, one value a rank; all in, then all out.
//
// The store that Gloo's and NCCL's bootstrap need, within one generation. Pure.
// Bounded by limits.h: open keys, kept answers, bytes in all.
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
  // Forgets all keys and begins a generation whose node i has ranks[i] ranks.
  void Begin(uint64_t generation, std::vector<uint32_t> ranks);

  struct Result {
    // Complete now: goes to all nodes.
    bool complete = false;
    // Was complete before: goes to the one who asked again.
    bool repeated = false;
    // Set in both cases; valid until the next call.
    const v1::ExchangeOut* out = nullptr;
  };

  // Takes a node's values. A repetition with the same values changes nothing.
  // INVALID_ARGUMENT: not one value per rank, or other values than before.
  // RESOURCE_EXHAUSTED: too many open keys or bytes. ABORTED: another
  // generation.
  absl::StatusOr<Result> In(uint32_t node_rank, const v1::ExchangeIn& in);

  size_t open() const { return open_.size(); }

 private:
  struct Open {
    v1::ExchangeOut out;
    std::vector<bool> nodes_in;
    size_t missing;
  };

  void Keep(const std::string& key, v1::ExchangeOut out);

  uint64_t generation_ = 0;
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> first_rank_;
  uint32_t world_size_ = 0;
  std::map<std::string, Open> open_;
  std::list<v1::ExchangeOut> kept_;  // The latest last.
  std::map<std::string, std::list<v1::ExchangeOut>::iterator> kept_by_key_;
  size_t bytes_ = 0;  // Of all values, open and kept.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EXCHANGE_H_
