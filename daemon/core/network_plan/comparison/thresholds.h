// Minimum values of a node's resources. The doctor (one node) and the
// comparison of nodes both use them.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_THRESHOLDS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_THRESHOLDS_H_

#include <cstdint>

namespace rollcall {

// The kernel's default of RLIMIT_MEMLOCK, in bytes: 8 MiB since Linux 5.16
// (MLOCK_LIMIT in linux/resource.h), 64 KiB before. Too little for RDMA.
inline constexpr uint64_t kMemlockDefault = 8 << 20;

// Bytes of /dev/shm. NCCL's user guide ("Shared memory") recommends
// `docker run --shm-size=1g`.
inline constexpr uint64_t kShmMin = uint64_t{1} << 30;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_THRESHOLDS_H_
