#include "client/launch/own_node.h"

#include <gtest/gtest.h>

#include <optional>

namespace rollcall {
namespace {

TEST(OwnNode, AnEarlierAgentServesItOnlyWhereOursWasRefused) {
  constexpr auto kNone = std::nullopt;
  const struct {
    int exit_code;
    bool ran;
    bool answers;
    std::optional<v1::NodeState> state;  // nullopt: no row.
    OwnNode expect;
  } kRows[] = {
      {77, true, true, v1::NODE_STATE_RUNNING, OwnNode::kServed},
      {69, true, true, v1::NODE_STATE_RUNNING, OwnNode::kServed},
      {77, true, true, v1::NODE_STATE_ATTENDING, OwnNode::kServed},
      {77, true, true, v1::NODE_STATE_LOST, OwnNode::kUnserved},
      {77, true, true, kNone, OwnNode::kUnserved},
      // Neither says that the node is served or that it is not.
      {77, true, true, v1::NODE_STATE_SUSPECT, OwnNode::kUnknown},
      {77, false, false, kNone, OwnNode::kUnknown},
      // A new run: the row is a worker's that has taken the name.
      {77, false, true, v1::NODE_STATE_ATTENDING, OwnNode::kUnserved},
      // The agent failed for another reason: a signal, usage, no resources.
      {137, true, true, v1::NODE_STATE_RUNNING, OwnNode::kUnserved},
      {2, true, true, v1::NODE_STATE_RUNNING, OwnNode::kUnserved},
      {71, true, false, kNone, OwnNode::kUnserved},
  };
  for (const auto& row : kRows) {
    absl::StatusOr<v1::JobStatus> status = v1::JobStatus();
    if (!row.answers) status = absl::DeadlineExceededError("no answer");
    if (row.state.has_value()) {
      v1::NodeStatus& other = *status->add_nodes();
      other.set_node("w1");
      other.set_state(v1::NODE_STATE_RUNNING);
      v1::NodeStatus& own = *status->add_nodes();
      own.set_node("n0");
      own.set_state(*row.state);
    }
    EXPECT_EQ(OwnNodeAfter(row.exit_code, row.ran, "n0", status), row.expect)
        << row.exit_code << " " << row.ran << " " << row.answers;
  }
}

}  // namespace
}  // namespace rollcall
