// Status words: the names of states and reasons that programs read; and the
// texts of a root cause and of a changed fact.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_STATUS_WORDS_H_
#define ROLLCALL_DAEMON_CORE_STATUS_WORDS_H_

#include <string>

#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The name that programs read, such as `lost_lease` for REASON_CODE_LOST_LEASE.
std::string Word(v1::ReasonCode code);
std::string Word(v1::JobState state);
std::string Word(v1::NodeState state);
std::string Word(v1::FactKind kind);

// One line: `interface eth1: up -> down (7 changes)`.
std::string ChangeText(const v1::FactChange& change);

// The end of a text about this cause: what changed at its node before. Empty:
// nothing.
std::string ChangesSuffix(const v1::RootCause& cause);

// One line: `rank 3 on b exited with code 1`.
std::string CauseText(const v1::RootCause& cause);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_STATUS_WORDS_H_
