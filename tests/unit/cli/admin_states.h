// Job states that several tests of the texts use.
#ifndef ROLLCALL_TESTS_UNIT_CLI_ADMIN_STATES_H_
#define ROLLCALL_TESTS_UNIT_CLI_ADMIN_STATES_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

inline absl::Time AtSecond(double seconds) {
  return absl::FromUnixSeconds(1000) + absl::Seconds(seconds);
}

inline v1::NodeStatus& AddNode(v1::JobStatus& status, const std::string& name,
                               v1::NodeState state, int node_rank) {
  v1::NodeStatus& node = *status.add_nodes();
  node.set_node(name);
  node.set_state(state);
  node.set_node_rank(node_rank);
  node.set_lease_ms(4200);
  return node;
}

// A running job; it has no nodes.
inline v1::JobStatus Training(uint64_t step, uint64_t steps,
                              uint64_t generation = 1) {
  v1::JobStatus status;
  status.set_job("demo");
  status.set_state(v1::JOB_STATE_RUNNING);
  status.set_generation(generation);
  status.mutable_last_reform()->set_generation(generation);
  status.set_step(step);
  status.mutable_pace()->set_loss(3.21);
  status.mutable_pace()->set_tokens_per_second(6688);
  status.mutable_pace()->set_steps(steps);
  return status;
}

// The same job with three of four nodes, after `local-3` was lost.
inline v1::JobStatus TrainingWithoutOne(uint64_t step, uint64_t steps) {
  v1::JobStatus status = Training(step, steps, 2);
  status.set_nodes_min(3);
  status.set_nodes_max(4);
  status.set_world_size(3);
  AddNode(status, "main", v1::NODE_STATE_RUNNING, 0);
  AddNode(status, "local-1", v1::NODE_STATE_RUNNING, 1);
  AddNode(status, "local-2", v1::NODE_STATE_RUNNING, 2);
  v1::Reform& reform = *status.mutable_last_reform();
  reform.set_code(v1::REASON_CODE_LOST_STREAM);
  reform.set_node("local-3");
  reform.set_reason("lost local-3 (its stream broke)");
  return status;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CLI_ADMIN_STATES_H_
