// FactsLimits: bounds on the parts of a node's facts.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_FACTS_LIMITS_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_FACTS_LIMITS_H_

#include <cstddef>

namespace rollcall {

// These bounds come in addition to facts_bytes_max, addresses_per_node_max and
// interfaces_per_node_max of limits.h. An empty part
// takes two bytes of a message but about a hundred bytes of the daemon's
// memory, so each kind of part has its own bound. The code that gathers facts
// keeps to these bounds.
struct FactsLimits {
  // RDMA ports of a node, GPUs of a node, and GIDs of one port; each has this
  // bound.
  static constexpr size_t devices_max = 256;
  // Entries of one GPU's `near_hcas`, and of its `throttle_reasons`; each list
  // has this bound.
  static constexpr size_t words_max = 256;
  // GIDs of all ports together; and the entries of both lists of all GPUs
  // together.
  static constexpr size_t gids_of_node_max = 1024;
  static constexpr size_t words_of_node_max = 1024;
  static constexpr size_t missing_max = 64;
  static constexpr size_t folders_max = 16;
  // Bytes of a name, a version or another short text; bytes of a reason or a
  // remedy; bytes of a path.
  static constexpr size_t short_text_bytes_max = 256;
  static constexpr size_t missing_text_bytes_max = 512;
  static constexpr size_t path_bytes_max = 4096;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_FACTS_LIMITS_H_
