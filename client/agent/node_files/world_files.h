// The files that describe a world to ranks of any language: their text, and the
// one way in which they are written. Any thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// ROLLCALL_WORLD_FILE: one JSON object, nodes by node rank, a newline at its
// end. Never holds an NCCL id. Pure.
std::string WorldJson(const v1::World& world, const v1::Seal& seal);

// ROLLCALL_HOSTFILE: `address slots=N`, by node rank, as mpirun and DeepSpeed
// read it. Nodes that share an address share a line, since the latter refuses a
// host that comes twice. Pure.
std::string HostfileText(const v1::World& world);

// ROLLCALL_NCCL_ID_FILE: one id a line in hex; empty where there are none.
// Secret: for a file of mode 0600 alone. Pure.
std::string NcclIdText(const v1::Seal& seal);

// Writes the file whole or not at all: into a new file beside it, which then
// takes its name. Errors name the path and the system's reason. Safe to retry.
absl::Status WriteFileAtomically(const std::string& path,
                                 const std::string& text, mode_t mode);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_WORLD_FILES_H_
