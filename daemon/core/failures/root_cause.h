// Root cause: which of several failures began it.
//
// Pure. The loudest is seldom the first: when one rank dies, its peers fail in
// their collectives, and often report sooner. So causes have a rank order, and
// what arrives within one lease is settled by it.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_

#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What a rank's exit says: a signal, a GPU error, a communication error
// (by words in its stderr that NCCL, Gloo and the kernel use), or plain exit.
v1::ReasonCode Classify(const v1::RankExited& exited);

// 4: lost node; 3: SIGKILL, SIGSEGV, SIGBUS, hang or GPU error; 2: another
// exit or signal; 1: a communication error.
int Weight(const v1::RootCause& cause);

v1::RootCause CauseOfRank(const std::string& node, uint32_t rank,
                          const v1::RankExited& exited);
v1::RootCause CauseOfLostNode(const std::string& node, v1::ReasonCode code,
                              const std::string& detail, uint64_t generation);

// Of ranks that made no progress; `rank` -1 and no node where nobody is to
// blame.
v1::RootCause CauseOfHang(const std::string& node, int32_t rank,
                          const std::string& detail, uint64_t generation);

// Whether a node was lost: it costs no restart, whoever else is to blame.
bool IsLostNode(const v1::RootCause& cause);

// What the launcher exits with: the rank's own code, 128+signal, 1 for a hang,
// or 69 where a node was lost.
int ExitCodeOf(const v1::RootCause& cause);

// "rank 3 on node2 exited with code 7".
std::string Describe(const v1::RootCause& cause);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_ROOT_CAUSE_H_
