// GroupRequest: what a node's part in a round of the paired check is. The agent
// passes it to `rollcall-train --check-group` in the environment, because the
// command line is visible to all users of the machine.
//
// The text comes from another process, so nothing in it may reach a CHECK.
//
// Pure, except TakeGroupRequest.
#ifndef ROLLCALL_TRAINER_CHECK_GROUP_REQUEST_H_
#define ROLLCALL_TRAINER_CHECK_GROUP_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rollcall {

// "PLACE PORT LIMIT_MS SECRET ADDRESS ADDRESS [ADDRESS]", the secret in hex.
inline constexpr char kGroupCheckVariable[] = "ROLLCALL_GROUP_CHECK";

struct GroupRequest {
  static constexpr size_t kNodesMax = 3;
  static constexpr size_t kSecretBytes = 16;

  // The addresses of the group's nodes, as their peers reach them.
  std::vector<std::string> addresses;
  // This node's place in `addresses`. The first node listens.
  size_t place = 0;
  // Where the first node listens; not used by that node itself.
  uint16_t port = 0;
  std::string secret;
  absl::Duration limit;

  // INVALID_ARGUMENT: the message says what was expected, without the secret.
  static absl::StatusOr<GroupRequest> Parse(absl::string_view text);
};

// Reads the variable and overwrites it in this process's memory, so that it is
// not in /proc/PID/environ any more. FAILED_PRECONDITION: it is not set. Call
// it while the process has one thread.
absl::StatusOr<GroupRequest> TakeGroupRequest();

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_GROUP_REQUEST_H_
