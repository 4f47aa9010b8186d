// CheckGroup: `rollcall-train --check-group`, one node's part in a round of the
// paired check (rollcall launch --node-check).
//
// The node's agent starts it with a GroupRequest and reads JSON lines from its
// stdout: {"listening": PORT} from the first node of the group, and finally
// either {"product_s": T, "all_reduce_s": T}, or {"error": TEXT, "peer": BOOL}
// ("peer": another node of the group failed). A group of one neither listens
// nor has "all_reduce_s".
//
// `product_s` is the time of a fixed amount of matrix products on the node's
// slowest GPU, or on each core of its CPUs. It is the mean over at least one
// second, so that a CPU quota or a throttled device shows. `all_reduce_s` is
// the least time of an all-reduce of a few MiB among the nodes of the group, by
// NCCL if each has a GPU of its own, otherwise by Gloo: a slow link is slow
// each time, and a busy core is not. The results of both are verified.
//
// It compares nothing: the daemon does (daemon/core/node_check).
//
// Thread rule: the main thread, before any other thread starts.
#ifndef ROLLCALL_TRAINER_CHECK_GROUP_H_
#define ROLLCALL_TRAINER_CHECK_GROUP_H_

namespace rollcall {

// Returns the exit code: 0 if the check was completed.
int CheckGroup();

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_GROUP_H_
