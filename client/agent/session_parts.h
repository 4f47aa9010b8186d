// The parts of a Session, made from the agent's options.
//
// Pure, except StartProber; Warn, which calls the agent's `report`; and
// RemoveDeadHosts, which writes the hosts file. Thread rule: that of the
// caller.
#ifndef ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_
#define ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/agent/group_checks.h"
#include "client/agent/node_checks.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/preparation.h"
#include "client/agent/probe/prober.h"
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

// The commands of the ranks that are to be started.
std::vector<RankCommand> RankCommandsFor(const AgentOptions& options,
                                         const RankFiles& files,
                                         const StartRanks& start);

// Sets the job's variables in the options, and returns a warning for each that
// replaces another value of this node.
std::vector<std::string> SetJobVariables(const v1::JobSettings& settings,
                                         AgentOptions& options);

// Also sets the prober's port in the facts. Null: it could not be started or
// --insecure is set.
std::unique_ptr<Prober> StartProber(AgentOptions& options,
                                    std::function<void(AgentEvent)> post);
// Null: there is no rollcall-train beside this program.
std::unique_ptr<GroupChecks> MakeGroupChecks(
    const AgentOptions& options, std::function<void(AgentEvent)> post);

void Warn(const AgentOptions& options, std::string text);

// Removes the hosts entries of agents of this machine that were killed together
// with their guards. This node may be a spare and never write the file itself.
void RemoveDeadHosts(const AgentOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SESSION_PARTS_H_
