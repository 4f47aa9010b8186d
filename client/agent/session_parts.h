// The options of the parts of a Session, taken from the agent's options.
//
// Pure, except Warn, which calls the agent's `report`, and RemoveDeadHosts,
// which writes the hosts file. Thread rule: that of the caller.
#ifndef ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_
#define ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_

#include <string>

#include "client/agent/node_checks.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/preparation.h"
#include "client/agent/processes/processes.h"
#include "client/agent/session.h"

namespace rollcall {

NodeChecksOptions ForChecks(const AgentOptions& options,
                            const RunFolder& folder);
// The devices of the node checks, and the folders of the node's facts.
NodeFactsOptions ForFactWatch(const AgentOptions& options);
PreparationOptions ForPreparation(const AgentOptions& options);
ProcessesOptions ForProcesses(const AgentOptions& options,
                              const RunFolder& folder);

void Warn(const AgentOptions& options, std::string text);

// Removes the hosts entries of agents of this machine that were killed together
// with their guards. This node may be a spare and never write the file itself.
void RemoveDeadHosts(const AgentOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_
