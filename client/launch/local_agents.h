// LocalAgents: the agents of a launcher: its children, and agents that it
// adopted from an earlier launcher.
//
// The launcher sees that an adopted agent has ended, but not its exit status.
//
// Thread rule: the launcher's loop thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_LOCAL_AGENTS_H_
#define ROLLCALL_CLIENT_LAUNCH_LOCAL_AGENTS_H_

#include <poll.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/takeover/known_process.h"
#include "client/launch/takeover/launch_record.h"

namespace rollcall {

class LocalAgents {
 public:
  struct Ended {
    std::string name;
    bool own = false;
    // As from waitpid; nullopt: the agent was not our child.
    std::optional<int> wait_status;
  };

  // Starts an agent, held back until Release; it gets the join string through
  // PassSecret. UNAVAILABLE: no process could be made.
  absl::Status Start(const std::string& name, bool own, SpawnOptions options,
                     const std::string& join_string);
  void Release() { gate_.Open(); }
  void Adopt(const std::string& name, bool own, KnownProcess process);

  bool empty() const { return agents_.empty(); }
  // The number of agents. The submit command, kSubmitName, is not counted.
  size_t size() const;
  std::vector<AgentRecord> Records() const;

  // Adds the descriptors that signal the end of adopted agents.
  void AddTo(std::vector<pollfd>& fds) const;
  // The adopted agents that have ended; each is returned once.
  std::vector<Ended> TakeEnded();
  // A child was reaped; nullopt: it was not one of the agents.
  std::optional<Ended> Reaped(pid_t pid, int wait_status);

  void Kill(int signal) const;
  // Does not signal the submit command.
  void KillAgents(int signal) const;
  // Does nothing if there is none of this name.
  void KillNamed(const std::string& name, int signal) const;

 private:
  struct Agent {
    AgentRecord record;
    // nullopt: the agent is our child, so its pid stays valid until we reap it.
    std::optional<KnownProcess> adopted;
  };

  static void Kill(pid_t pid, const Agent& agent, int signal);

  StartGate gate_;
  std::map<pid_t, Agent> agents_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LOCAL_AGENTS_H_
