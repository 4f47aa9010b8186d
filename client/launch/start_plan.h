// StartPlan: what a launcher does at its start, decided from what an earlier
// launcher has left in the same state folder.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_START_PLAN_H_
#define ROLLCALL_CLIENT_LAUNCH_START_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/launch_record.h"

namespace rollcall {

// What an earlier launcher has left.
struct LeftBehind {
  std::string folder;
  // Of the previous launcher; nullopt: there was none, or it ended in order.
  std::optional<LaunchRecord> record;
  // The processes in the record that still live.
  bool daemon_lives = false;
  std::vector<std::string> living_agents;
  // Why nothing of that launch is left.
  LaunchEnd ended = LaunchEnd::kUnknown;
  // What the journal says, if no other process holds it.
  enum class Run { kNone, kUnfinished, kEnded };
  Run run = Run::kNone;
};

struct NamedAgent {
  std::string name;
  bool own = false;
  // Where ssh finds its host; empty: on this machine.
  std::string target;
  // Its ranks; 0: as the agents' flags say.
  uint32_t slots = 0;
};

// The name, among agents, of the process that submits workers.
inline constexpr char kSubmitName[] = "the submit command";

struct StartPlan {
  enum class Kind {
    // A new run.
    kNew,
    // The daemon lives: replace the launcher that has ended.
    kAttach,
    // The daemon is dead and its run unfinished: restart it on the same port.
    kResume,
  };
  Kind kind = Kind::kNew;
  // The terms of the run that continues, or those of the command line.
  LaunchTerms terms;
  bool ephemeral = false;
  int port = 0;
  // Names of living agents to adopt.
  std::vector<std::string> adopted;
  // Names of agents that ended with their machine or container, together with
  // their ranks. The daemon cannot know that and would wait for them.
  std::vector<std::string> gone;
  // Agents that an earlier launcher started may still live where they cannot be
  // seen, under the names of agents to be started.
  bool others_may_live = false;
  // The agents to start, the launcher's own first. Those on other hosts are
  // started once: what became of one that an earlier launcher had started is
  // known to the daemon alone.
  std::vector<NamedAgent> started;
  // Workers are submitted.
  bool submits = false;
  // Remains of a run that does not continue: end them first.
  bool end_daemon = false;
  std::vector<std::string> ended;
};

// The name of local worker `index`; the first has index 1.
std::string LocalWorkerName(uint32_t index);

// `made_up`: no job was named, so any job in the folder is meant.
// INVALID_ARGUMENT: `wanted` contradicts the run that continues; the message
// names the flag, both values and the ways out.
absl::StatusOr<StartPlan> PlanStart(const LeftBehind& left,
                                    const LaunchTerms& wanted, bool made_up);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_START_PLAN_H_
