// GroupChecks: this node's part in the paired check of nodes (--node-check).
//
// It runs `rollcall-train --check-group`, the program beside this one, with
// fixed arguments, passes on what the program reports, and ends the program and
// all processes of its session: when the round's time is over, when another
// round begins, and when the agent ends. If the agent is killed, the kernel
// kills the program (PR_SET_PDEATHSIG).
//
// The group's secret is passed in the environment, which only the user of the
// program can read, and which the program overwrites.
//
// Thread rule: call Run and End from one thread; they do not block. `said` is
// called on a thread of GroupChecks and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_GROUP_CHECKS_H_
#define ROLLCALL_CLIENT_AGENT_GROUP_CHECKS_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The path of the rollcall-train beside this program; empty: there is none, so
// this node cannot be checked.
std::string GroupCheckProgram();

// What the program reported with one line of its stdout, as a message of this
// round: GroupListening or GroupChecked. nullopt: the line is none of these.
// The line comes from another process, so its values are checked. Pure.
std::optional<v1::AgentMessage> ReadGroupLine(absl::string_view line,
                                              uint64_t round);

class GroupChecks {
 public:
  struct Options {
    // Not empty.
    std::string program;
    // The user as which ranks run; nullopt: this process's user.
    std::optional<SystemUser> user;
  };
  using Said = std::function<void(v1::AgentMessage)>;

  GroupChecks(Options options, Said said);
  // Ends what runs.
  ~GroupChecks();

  // Begins this round instead of the one that runs. `environment`: that of the
  // program, "NAME=value". If it does not end in another way, the round ends
  // with GroupChecked.
  void Run(v1::GroupCheck check, std::vector<std::string> environment);
  // Ends the round that runs, without an answer.
  void End();

 private:
  struct Wanted {
    v1::GroupCheck check;
    std::vector<std::string> environment;
  };

  void Loop();
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when the round is over, or another one or the end is wanted.
  void RunOnce(const Wanted& wanted);
  enum class Ended {
    kAnswered,  // The program has reported GroupChecked.
    kWoken,     // Another round or the end is wanted.
    kSilent,    // It closed its stdout, wrote too much, or its time is over.
  };
  // Passes on what the program reports until one of these. Appends its stderr
  // to `errors`.
  Ended Follow(ForkedRank& program, const v1::GroupCheck& check,
               std::string& errors);
  void Fail(uint64_t round, const std::string& why);

  const Options options_;
  const Said said_;
  const Fd wake_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<Wanted> wanted_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Started by the first Run.
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_GROUP_CHECKS_H_
