// NodeChecks: checks whether a node whose ranks failed can still run ranks.
// Runs between two generations.
//
// Runs the doctor's checks, after trials for what makes a node useless although
// its agent still works: no process can be made, the run folder is full or not
// writable. Only the doctor's fatal findings are reported: a node with warnings
// gets its seat back. It repairs nothing and takes no decision about the node.
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

#include "client/agent/core/agent_events.h"
#include "client/facts/facts.h"
#include "daemon/base/mutex.h"

namespace rollcall {

struct NodeChecksOptions {
  std::string run_folder;
  std::string log_dir;  // Empty: none.
  // The number that the node had when its agent started.
  uint32_t gpus = 0;
  // How its facts were gathered at start; the timeout in it is not used.
  NodeFactsOptions facts;
};

// Runs all checks now, and returns them with the facts they are based on.
// Blocks as long as the node needs (a process: ten seconds at most). One
// finding for each trial, plus the doctor's fatal ones. Never fails.
v1::CheckReport CheckNode(const NodeChecksOptions& options);
// The same for facts that were gathered before.
std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options,
                                        const v1::Facts& facts);

class NodeChecks {
 public:
  using Done = std::function<void(ChecksDone)>;

  NodeChecks(NodeChecksOptions options, Done done);
  // Waits for checks that are under way.
  ~NodeChecks();

  // The answer comes through `done`. If several requests wait, only the last is
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
