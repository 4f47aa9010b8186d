// LeftProcesses: processes of ranks that a sweep found and could not end,
// recorded in their agent's run folder.
//
// Once a process's parent has ended, nothing else may show which rank the
// process belonged to: a process that is not root cannot read another user's
// environment.
//
// Thread rule: one thread per folder. Errors are ignored; the next sweep then
// finds fewer processes.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_LEFT_PROCESSES_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_LEFT_PROCESSES_H_

#include <string>
#include <vector>

#include "client/agent/processes/process_tree/sweep.h"

namespace rollcall {

// The file of these records in the run folder.
inline constexpr char kLeftName[] = "/left";

// The scope in which a pid and a start time are unique: this boot and pid
// namespace. A run folder may outlive both, and another container may see it.
std::string PidScope();

// Reads the processes that were recorded in this folder and scope. They may
// have ended since.
std::vector<FoundProcess> ReadLeft(const std::string& folder);

// Records the processes in `result` in place of the previous record; does
// nothing if there are none, or if the folder belongs to another user or is a
// link.
void RecordLeft(const std::string& folder, const SweepResult& result);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_LEFT_PROCESSES_H_
