// UsedPorts: which of a node's RDMA ports NCCL may use in a process.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CHECK_USED_PORTS_H_
#define ROLLCALL_TRAINER_CHECK_USED_PORTS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "trainer/check/verdict.h"

namespace rollcall {

// `list`: the value of NCCL_IB_HCA in the process; empty: it is not set, and
// NCCL may use every active port. Bit i of the result: it may use ports[i].
// The bits of all other ports are set too.
uint64_t UsedPorts(const std::vector<CheckedPort>& ports,
                   absl::string_view list);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_USED_PORTS_H_
