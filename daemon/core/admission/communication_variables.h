// The environment variables of NCCL, UCX, libfabric, Gloo and PyTorch's NCCL
// backend: which of them the nodes of a world should have in common, and which
// names no program reads. Their one table is in the source file.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_COMMUNICATION_VARIABLES_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_COMMUNICATION_VARIABLES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall {

// Bytes of CommunicationVariable.digest.
inline constexpr size_t kVariableDigestBytes = 4;

// Whether the name has one of the prefixes NCCL_, UCX_, FI_, TORCH_NCCL_ and
// GLOO_, and is 1 to Limits::variable_name_bytes_max of [A-Za-z0-9_].
bool IsCommunicationVariable(std::string_view name);

// Whether nodes with different values of this variable may hang or be slow.
// False for names of a node's own devices, files and addresses, and for
// variables that only change what is logged.
bool IsSharedVariable(std::string_view name);

// Whether the value may be a secret, so that it is not sent or shown.
bool MayBeSecret(std::string_view name, std::string_view value);

struct VariableFault {
  // "is not a variable of NCCL".
  std::string found;
  // The name that is read instead, or what to do.
  std::string mend;
};

// Why no program reads a variable of this name; nullopt: it is known, or not
// similar to a known name (a plugin or a newer version may read it). Misspelt
// names are found only for NCCL_, TORCH_NCCL_ and GLOO_, because the names of
// the other libraries are not listed.
std::optional<VariableFault> FindVariableFault(std::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_COMMUNICATION_VARIABLES_H_
