// Missing library: what to install if a command ended with 127 because the
// dynamic loader did not find a shared library.
//
// `rollcall` itself needs only the C library. A command may need more:
// rollcall-train links libgloo, and Debian's libgloo links libibverbs and
// libhiredis, with or without an RDMA device.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_MISSING_LIBRARY_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_MISSING_LIBRARY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// Returns a line that names the library and its package, from the command's
// stderr; empty: stderr has no such message of the loader of glibc or musl.
std::string MissingLibraryAdvice(absl::string_view stderr_tail);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_MISSING_LIBRARY_H_
