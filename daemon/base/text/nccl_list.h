// NcclListSelects: reads the lists of devices in NCCL's variables, such as
// NCCL_IB_HCA and NCCL_SOCKET_IFNAME.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_NCCL_LIST_H_
#define ROLLCALL_DAEMON_BASE_TEXT_NCCL_LIST_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rollcall {

// Whether a list in NCCL's syntax ("mlx5", "=mlx5_0:1,mlx5_1", "^docker")
// selects a device. `port`: 0 for interfaces.
bool NcclListSelects(absl::string_view list, absl::string_view device,
                     uint32_t port);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_NCCL_LIST_H_
