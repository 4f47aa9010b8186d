// StartPlan: what a launcher does at its start, decided from what an earlier
// one has left in the same state folder.
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

// What was found.
struct LeftBehind {
  std::string folder;
  // Of the launcher before this one; nothing: there was none, or it came to
  // an orderly end.
  std::optional<LaunchRecord> record;
  // Of those in the record.
  bool daemon_lives = false;
  std::vector<std::string> living_agents;
  // Why nothing of that launch is left.
  LaunchEnd ended = LaunchEnd::kUnknown;
  // What the journal says, as far as nobody else holds it.
  enum class Run { kNone, kUnfinished, kEnded };
  Run run = Run::kNone;
};

struct NamedAgent {
  std::string name;
  bool own = false;
};

struct StartPlan {
  enum class Kind {
    // A new run.
    kNew,
    // The daemon lives: take its place beside it.
    kAttach,
    // The daemon is dead and its run unfinished: start it on the same port.
    kResume,
  };
  Kind kind = Kind::kNew;
  // Of the run that goes on, or as given.
  LaunchTerms terms;
  bool ephemeral = false;
  int port = 0;
  // Names of living agents that are taken back.
  std::vector<std::string> adopted;
  // Names of agents that ended with their machine or container, and their ranks
  // with them: no daemon can know that, and it would wait for their world.
  std::vector<std::string> gone;
  // Agents of the run that an earlier launcher has started may live where they
  // cannot be seen, with the names of those to be started.
  bool others_may_live = false;
  // Those to be started, the launcher's own first.
  std::vector<NamedAgent> started;
  // Left over from what does not go on: to be ended first.
  bool end_daemon = false;
  std::vector<std::string> ended;
};

// The name of local worker `index`, from 1.
std::string LocalWorkerName(uint32_t index);

// `made_up`: no job was named, so that whatever job the folder holds is meant.
// INVALID_ARGUMENT: `wanted` contradicts what goes on; names the flag, both
// values and the way out.
absl::StatusOr<StartPlan> PlanStart(const LeftBehind& left,
                                    const LaunchTerms& wanted, bool made_up);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_START_PLAN_H_
