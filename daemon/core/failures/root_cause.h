// Root cause: which of several failures was the first.
//
// Pure. The first report is seldom about the root cause: when one rank dies,
// its peers fail in their collectives, and often report first. So causes have
// weights. Among the causes that are reported within one lease, the heaviest
// one is the root cause.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_

#include <cstdint>
#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Classifies a rank's exit: the OOM killer, a signal, a GPU error, a
// communication error (its stderr has messages of NCCL, Gloo or the kernel), or
// a plain exit.
v1::ReasonCode Classify(const v1::RankExited& exited);

// 4: lost node; 3: the OOM killer, SIGKILL, SIGSEGV, SIGBUS, hang or GPU error;
// 2: another exit or signal; 1: a communication error.
int Weight(const v1::RootCause& cause);

v1::RootCause CauseOfRank(const std::string& node, uint32_t rank,
                          const v1::RankExited& exited);
v1::RootCause CauseOfLostNode(const std::string& node, v1::ReasonCode code,
                              const std::string& detail, uint64_t generation);

// For a set-up command that failed. `detail`: what happened, after the node's
// name; `value`: the exit code with which the job ends.
v1::RootCause CauseOfSetup(const std::string& node,
                           const v1::SetupEnded& ended);

// The exit code because of a set-up command that failed: its own code,
// 128+signal, or kExitTimedOut.
int ExitCodeOf(const v1::SetupEnded& ended);

// "exited with code 7 (3 tries)".
std::string Describe(const v1::SetupEnded& ended);

// For ranks that made no progress. `rank` is -1 and `node` is empty if no rank
// is to blame.
v1::RootCause CauseOfHang(const std::string& node, int32_t rank,
                          const std::string& detail, uint64_t generation);

// Whether a node was lost: it costs no restart, whatever else failed.
bool IsLostNode(const v1::RootCause& cause);

// The launcher's exit code: the rank's own code, 128+signal, 1 for a hang, or
// 69 if a node was lost.
int ExitCodeOf(const v1::RootCause& cause);

// "rank 3 on node2 exited with code 7", and what changed at the node before.
std::string Describe(const v1::RootCause& cause);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_
