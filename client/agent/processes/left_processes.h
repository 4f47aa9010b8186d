// LeftProcesses: the processes of ranks that a sweep found and could not end,
// as they are recorded in the run folder of their agent.
//
// Once its parent has ended, nothing else may tell whose rank a process was:
// the environment of another user's process cannot be read.
//
// Thread rule: one thread a folder. Errors are passed over: the next sweep
// finds less.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_

#include <string>
#include <vector>

#include "client/agent/processes/sweep.h"

namespace rollcall {

// Their file in the run folder.
inline constexpr char kLeftName[] = "/left";

// What a process's number and start time are unique in: this boot and pid
// namespace. A run folder may outlive both, and may lie where another container
// sees it.
std::string PidScope();

// What was recorded in this folder by a process of this scope; it may have
// ended since.
std::vector<FoundProcess> ReadLeft(const std::string& folder);

// Records what is left, if anything is, in place of what was recorded before.
void RecordLeft(const std::string& folder, const SweepResult& result);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_LEFT_PROCESSES_H_
