// FactWatcher: the process that watches this node's facts (`rollcall facts
// --watch`, client/facts/watch), as its agent sees it.
//
// It passes each change on. If the process ends by itself, the facts are not
// watched any more; nothing else depends on them.
//
// Thread rule: `changed` and `ended` are called on a thread of FactWatcher and
// must only post.
#ifndef ROLLCALL_CLIENT_AGENT_FACT_WATCHER_H_
#define ROLLCALL_CLIENT_AGENT_FACT_WATCHER_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "client/facts/facts.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/child_process.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class FactWatcher {
 public:
  using Changed = std::function<void(v1::FactChange)>;
  // Called with what is not watched any more, and why: once if the process
  // cannot be started, ends by itself or writes what is no change; and if one
  // of its sources ends, which the others do not notice.
  using Ended = std::function<void(std::string)>;

  FactWatcher(const NodeFactsOptions& options, Changed changed, Ended ended);
  // Ends the process.
  ~FactWatcher();

 private:
  void Run(NodeFactsOptions options);
  absl::Status Follow(ChildProcess& child);

  const Changed changed_;
  const Ended ended_;
  const Fd stop_;
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_FACT_WATCHER_H_
