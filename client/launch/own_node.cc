#include "client/launch/own_node.h"

#include "daemon/core/exit_codes.h"

namespace rollcall {

OwnNode OwnNodeAfter(int exit_code, bool ran, const std::string& node,
                     const absl::StatusOr<v1::JobStatus>& status) {
  if (exit_code != kExitRefused && exit_code != kExitRendezvous) {
    return OwnNode::kUnserved;
  }
  if (!status.ok()) return OwnNode::kUnknown;
  if (!ran) return OwnNode::kUnserved;
  for (const v1::NodeStatus& row : status->nodes()) {
    if (row.node() != node) continue;
    return row.state() == v1::NODE_STATE_SUSPECT ? OwnNode::kUnknown
           : row.state() == v1::NODE_STATE_LOST  ? OwnNode::kUnserved
                                                 : OwnNode::kServed;
  }
  return OwnNode::kUnserved;
}

}  // namespace rollcall
