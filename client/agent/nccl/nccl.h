// The part of NCCL that an agent needs: unique ids.
//
// The library is opened at run time, and only in a separate process (the hidden
// command `mint-nccl-id`), because it keeps threads, sockets and its choice of
// interface until the process ends. Ids are secrets: they go through a pipe,
// never through argv or a log.
#ifndef ROLLCALL_CLIENT_AGENT_NCCL_NCCL_H_
#define ROLLCALL_CLIENT_AGENT_NCCL_NCCL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/facts/nccl_search.h"

namespace rollcall {

struct NcclIds {
  // The library's NCCL_VERSION_CODE: 22809 is 2.28.9.
  uint32_t version = 0;
  // 128 opaque bytes each.
  std::vector<std::string> ids;
};

// Opens the library in this process and mints ids. The process must run until
// all ranks have checked in with each id. NOT_FOUND: the library cannot be
// opened. FAILED_PRECONDITION: a symbol is missing, or NCCL's own error.
absl::StatusOr<NcclIds> MintNcclIds(const std::string& library, uint32_t count);

// The output of `mint-nccl-id`: `version V`, one id per line in hex, `end`; or
// `error TEXT`. ParseMintedIds: FAILED_PRECONDITION with the error's text;
// INVALID_ARGUMENT: anything else.
std::string FormatMintedIds(const absl::StatusOr<NcclIds>& minted);
absl::StatusOr<NcclIds> ParseMintedIds(absl::string_view text);

// The hidden command `mint-nccl-id --count N [--nccl-lib PATH] [--user IDS]`.
// `arguments`: those after the command's name. Becomes the user (see ParseIds)
// before it opens the library. Prints the answer to stdout, then waits until
// stdin ends. Returns 2 for wrong arguments and 1 if nothing could be minted.
// Otherwise it ends the process itself with code 0, because NCCL's threads
// would still run after a return.
int MintNcclIdMain(const std::vector<std::string>& arguments);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NCCL_H_
