// LocalAgents: the agents that a launcher answers for: its children, and those
// that it has taken back from an earlier launcher.
//
// Of the latter only that they have ended can be seen, not how.
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
#include "client/launch/known_process.h"
#include "client/launch/launch_record.h"
#include "client/launch/spawn.h"

namespace rollcall {

class LocalAgents {
 public:
  struct Ended {
    std::string name;
    bool own = false;
    // As waitpid gives it; nothing: it was not our child.
    std::optional<int> wait_status;
  };

  // Starts one, held back until Release; it is given the join string as
  // PassSecret has it. UNAVAILABLE: no process could be made.
  absl::Status Start(const std::string& name, bool own, SpawnOptions options,
                     const std::string& join_string);
  void Release() { gate_.Open(); }
  void Adopt(const std::string& name, bool own, KnownProcess process);

  bool empty() const { return agents_.empty(); }
  size_t size() const { return agents_.size(); }
  std::vector<AgentRecord> Records() const;

  // To be polled for the ends of those that are not our children.
  void AddTo(std::vector<pollfd>& fds) const;
  // Those of them that have ended; each is told once.
  std::vector<Ended> TakeEnded();
  // A child was reaped; nothing: it is none of the agents.
  std::optional<Ended> Reaped(pid_t pid, int wait_status);

  void Kill(int signal) const;

 private:
  struct Agent {
    AgentRecord record;
    // Nothing: it is our child, and its number its own until we reap it.
    std::optional<KnownProcess> adopted;
  };

  StartGate gate_;
  std::map<pid_t, Agent> agents_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LOCAL_AGENTS_H_
