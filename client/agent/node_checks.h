// NodeChecks: whether this node is fit to run ranks at all, asked between two
// generations of one that has failed here.
//
// A few quick checks of what most often makes a node useless while its agent
// still speaks: no process can be made, the run folder cannot be written or is
// full, a GPU that was there is gone. It mends nothing and decides nothing.
//
// Thread rule: Run from one thread; `done` comes from a thread of its own and
// must only post.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_CHECKS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_CHECKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/agent/agent.h"
#include "daemon/server/mutex.h"

namespace rollcall {

struct NodeChecksOptions {
  std::string run_folder;
  std::string log_dir;  // Empty: none.
  // What the node had when its agent started.
  uint32_t gpus = 0;
};

// All checks, now. Blocks for as long as the node needs (a process: ten seconds
// at most). One finding a check; never fails.
std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options);

class NodeChecks {
 public:
  using Done = std::function<void(ChecksDone)>;

  NodeChecks(NodeChecksOptions options, Done done);
  // Waits for checks that are under way.
  ~NodeChecks();

  // Answered through `done`. Of several that wait, only the last is.
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
