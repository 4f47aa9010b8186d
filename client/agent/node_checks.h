// NodeChecks: whether this node is fit to run ranks at all, asked between two
// generations of one that has failed here.
//
// The doctor's checks, after trying what makes a node useless while its agent
// still speaks: no process can be made, the run folder cannot be written or is
// full. Of the doctor's findings only the fatal ones are reported: a node with
// warnings gets its seat back. It mends nothing and decides nothing.
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

#include "client/agent/core/agent.h"
#include "client/facts/facts.h"
#include "daemon/base/mutex.h"

namespace rollcall {

struct NodeChecksOptions {
  std::string run_folder;
  std::string log_dir;  // Empty: none.
  // What the node had when its agent started.
  uint32_t gpus = 0;
  // How its facts were gathered then; its timeout is not used.
  NodeFactsOptions facts;
};

// All checks, now, and the facts that they were made of. Blocks for as long as
// the node needs (a process: ten seconds at most). One finding for each trial,
// and the doctor's fatal ones; never fails.
v1::CheckReport CheckNode(const NodeChecksOptions& options);
// The findings by facts that were gathered before.
std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options,
                                        const v1::Facts& facts);

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
