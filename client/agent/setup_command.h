// SetupCommand: the processes of the set-up command (--setup), and what is read
// once it has succeeded.
//
// Thread rule: Start and Stop are called by the session's thread, TakeEnded and
// TakeGone by the thread of Processes.
#ifndef ROLLCALL_CLIENT_AGENT_SETUP_COMMAND_H_
#define ROLLCALL_CLIENT_AGENT_SETUP_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/processes/processes.h"
#include "client/facts/later_same_files.h"

namespace rollcall {

class SetupCommand {
 public:
  using Post = std::function<void(AgentEvent event)>;

  // `command`: for /bin/sh. `files`: read after the command has succeeded;
  // null: none. `post` gets SetupShellEnded and SetupGone for each Start, from
  // several threads.
  SetupCommand(std::string command, std::shared_ptr<LaterSameFiles> files,
               Post post);

  void Start(Processes& processes, std::vector<std::string> environment);
  void Stop(Processes& processes, absl::Duration grace);

  // Whether this is the end of the command's shell.
  bool TakeEnded(RankEnded& ended);
  // Removes the command from those that are gone.
  void TakeGone(RanksGone& gone);

 private:
  const std::string command_;
  const Post post_;
  // For the thread of Processes.
  bool succeeded_ = false;
  bool reads_ = false;
  // Declared last: its thread uses `post_`.
  const std::shared_ptr<LaterSameFiles> files_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SETUP_COMMAND_H_
