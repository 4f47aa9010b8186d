// NodeChecks: checks whether a node whose ranks failed can still run ranks.
// Runs between two generations.
//
// Runs trials and the doctor's checks. The trials find what makes a node
// useless although its agent still works: no process can be started, or the run
// folder is full or not writable. Of the doctor's findings only the fatal ones
// are reported: a node with warnings gets its seat back. NodeChecks repairs
// nothing and does not decide about the node.
//
// Thread rule: call Run from one thread. `done` is called on a thread of
// NodeChecks and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_CHECKS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_CHECKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/agent/core/agent_events.h"
#include "client/facts/facts.h"
#include "daemon/base/mutex.h"

namespace rollcall {

struct NodeChecksOptions {
  std::string run_folder;
  std::string log_dir;  // Empty: none.
  // The number of GPUs that the node had when its agent started.
  uint32_t gpus = 0;
  // How the node's facts were gathered at the start; its timeout is not used.
  NodeFactsOptions facts;
};

// Runs all checks now, and returns them with the facts they are based on.
// Blocks for as long as they take (the process trial: at most ten seconds).
// Returns one finding for each trial and the doctor's fatal findings. Never
// fails.
v1::CheckReport CheckNode(const NodeChecksOptions& options);
// Does the same with facts that were gathered before.
std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options,
                                        const v1::Facts& facts);

class NodeChecks {
 public:
  using Done = std::function<void(ChecksDone)>;

  NodeChecks(NodeChecksOptions options, Done done);
  // Waits until running checks have ended.
  ~NodeChecks();

  // Calls `done` with the result. If several requests wait, only the last is
  // answered.
  void Run(uint64_t request);

 private:
  void Loop();

  const NodeChecksOptions options_;
  const Done done_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<uint64_t> wanted_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_CHECKS_H_
