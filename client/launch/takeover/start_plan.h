// StartPlan: what a launcher does at its start, decided from what an earlier
// launcher has left in the same state folder.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_START_PLAN_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_START_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/takeover/launch_record.h"

namespace rollcall {

// What an earlier launcher has left.
struct LeftBehind {
  std::string folder;
  // The record of the previous launcher; nullopt: there was none, or it ended
  // in order.
  std::optional<LaunchRecord> record;
  // Which processes in the record still run.
  bool daemon_lives = false;
  std::vector<std::string> living_agents;
  // Why none of that launch's processes can still run.
  LaunchEnd ended = LaunchEnd::kUnknown;
  // The state of the run in the journal, if no other process holds the journal.
  enum class Run { kNone, kUnfinished, kEnded };
  Run run = Run::kNone;
};

struct NamedAgent {
  std::string name;
  bool own = false;
  // The ssh destination; empty: the agent runs on this machine.
  std::string target;
  // The number of its ranks; 0: the agents' flags decide.
  uint32_t slots = 0;
};

// LocalAgents holds the process that submits workers under this name.
inline constexpr char kSubmitName[] = "the submit command";

struct StartPlan {
  enum class Kind {
    // A new run.
    kNew,
    // The daemon runs: replace the launcher that has ended.
    kAttach,
    // The daemon is dead and its run unfinished: restart it on the same port.
    kResume,
  };
  Kind kind = Kind::kNew;
  // The terms of the run that continues, or of the command line for a new run.
  LaunchTerms terms;
  bool ephemeral = false;
  int port = 0;
  // Names of running agents to adopt.
  std::vector<std::string> adopted;
  // Names of agents that ended with their machine or container, together with
  // their ranks. The daemon cannot know that and would wait for them.
  std::vector<std::string> gone;
  // Agents of an earlier launcher may still run where this launcher cannot see
  // them, under the names of agents to be started.
  bool others_may_live = false;
  // The agents to start, the launcher's own first. Agents on other hosts are
  // started only for a new run: only the daemon knows what became of those that
  // an earlier launcher started.
  std::vector<NamedAgent> started;
  // Workers are submitted.
  bool submits = false;
  // Processes of a run that does not continue. They are ended first.
  bool end_daemon = false;
  std::vector<std::string> ended;
};

// The name of local worker `index`; the first has index 1.
std::string LocalWorkerName(uint32_t index);

// `made_up`: the user named no job, so any job in the folder is meant.
// INVALID_ARGUMENT: `wanted` contradicts the run that continues; the message
// names the flag, both values and the ways out.
absl::StatusOr<StartPlan> PlanStart(const LeftBehind& left,
                                    const LaunchTerms& wanted, bool made_up);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_START_PLAN_H_
