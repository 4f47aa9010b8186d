// Node trials: what only an attempt can tell of a node, for the doctor: whether
// a process can be made, whether a folder can be written.
//
// None of them fails; what went wrong is in its result.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_

#include <string>

#include "client/doctor/doctor.h"

namespace rollcall {

// Starts `true` and waits for its end, ten seconds at most.
Trial TryProcess();

enum class MadeFolders { kStay, kGo };

// TryFolder's result before anything was tried: without an error.
Trial FolderTrial(const std::string& check, const std::string& folder,
                  Severity severity);

// Makes the folder where it is not there, writes a small file into it, syncs
// and removes it. `severity` is that of a failure; `made`: whether folders that
// it has made stay. Blocks for as long as the file system does not answer.
Trial TryFolder(const std::string& check, const std::string& folder,
                Severity severity, MadeFolders made = MadeFolders::kStay);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_
