// Node trials: checks for the doctor that need an attempt: whether a process
// can be started, whether a folder can be written.
//
// They never fail; errors are in the result.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_

#include <string>

#include "client/doctor/doctor.h"

namespace rollcall {

// Starts `true` and waits for its end, ten seconds at most.
Trial TryProcess();

// The trial that TryFolder fills: as its result, but without an error.
Trial FolderTrial(const std::string& check, const std::string& folder,
                  Severity severity);

// Makes the folder if it is missing, writes a small file into it and syncs the
// file. Removes the file and the folders that it made. `severity` is the
// severity of a failure. Blocks for as long as the file system does not answer.
Trial TryFolder(const std::string& check, const std::string& folder,
                Severity severity);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_TRIALS_H_
