// The files that describe a world to ranks of any language: their text, and the
// functions that write them. Any thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// ROLLCALL_WORLD_FILE: one JSON object, nodes by node rank, with a newline at
// the end. Never contains an NCCL id. Pure.
std::string WorldJson(const v1::World& world,
                      const v1::WorldCommit& world_commit);

// ROLLCALL_HOSTFILE: `address slots=N`, by node rank, as mpirun and DeepSpeed
// read it. Nodes with the same address share a line, because DeepSpeed refuses
// a host that is listed twice. Pure.
std::string HostfileText(const v1::World& world);

// ROLLCALL_NCCL_ID_FILE: one id per line in hex; empty if there are none.
// Secret: only for a file of mode 0600. Pure.
std::string NcclIdText(const v1::WorldCommit& world_commit);

// Writes the file completely or not at all: writes a new file beside it and
// renames that. Errors name the path and the system's error. Safe to retry.
absl::Status WriteFileAtomically(const std::string& path,
                                 const std::string& text, mode_t mode);

// Does the same for the file `name` in an open folder.
absl::Status WriteFileAt(int folder, const std::string& name,
                         const std::string& text, mode_t mode);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_
