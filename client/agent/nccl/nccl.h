// NCCL as far as an agent needs it: unique ids.
//
// The library is opened at run time and only ever in a process of its own (the
// hidden command `mint-nccl-id`), since it keeps threads, sockets and its
// choice of interface for the life of the process. Ids are secrets: they pass
// through a pipe, never through argv or a log.
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
  // NCCL_VERSION_CODE of the library: 22809 is 2.28.9.
  uint32_t version = 0;
  // 128 opaque bytes each.
  std::vector<std::string> ids;
};

// Opens the library in this process and mints. The process must live until all
// ranks have checked in with each id. NOT_FOUND: it cannot be opened.
// FAILED_PRECONDITION: it lacks a symbol, or NCCL refused, in its own words.
absl::StatusOr<NcclIds> MintNcclIds(const std::string& library, uint32_t count);

// What `mint-nccl-id` prints: `version V`, one id a line in hex, `end`; or
// `error TEXT`. ParseMintedIds: the error's text comes as FAILED_PRECONDITION;
// INVALID_ARGUMENT: anything else.
std::string FormatMintedIds(const absl::StatusOr<NcclIds>& minted);
absl::StatusOr<NcclIds> ParseMintedIds(absl::string_view text);

// The hidden command: `mint-nccl-id --count N [--nccl-lib PATH]`, `arguments`
// without its name. Prints the answer to stdout, then lives until stdin ends.
// Returns 2 for wrong arguments, 1 if nothing could be minted; otherwise ends
// the process with 0 itself, since NCCL's threads outlive a return.
int MintNcclIdMain(const std::vector<std::string>& arguments);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NCCL_H_
