// LeftProcesses: processes of ranks that a sweep found and could not end,
// recorded in their agent's run folder.
//
// Once a process's parent has ended, there may be no other sign whose rank it
// was: a process that is not root cannot read another user's environment.
//
// Thread rule: one thread per folder. Errors are ignored: the next sweep finds
// fewer processes.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_

#include <string>
#include <vector>

#include "client/agent/processes/sweep.h"

namespace rollcall {

// Their file in the run folder.
inline constexpr char kLeftName[] = "/left";

// The scope in which a pid and a start time are unique: this boot and pid
// namespace. A run folder may outlive both, and another container may see it.
std::string PidScope();

// What a process of this scope recorded in this folder; it may have ended
// since.
std::vector<FoundProcess> ReadLeft(const std::string& folder);

// Records what is left, if anything, and replaces the previous record; does
// nothing in a folder of another user or behind a link.
void RecordLeft(const std::string& folder, const SweepResult& result);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_
