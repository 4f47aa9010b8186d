// World codec: the endpoint table on the wire. The daemon compresses it once,
// and each agent expands it. Names and addresses repeat, so a row takes about
// 16 bytes.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CODEC_WORLD_CODEC_H_
#define ROLLCALL_DAEMON_CODEC_WORLD_CODEC_H_

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Compresses the world in place, unless that would make it larger.
void CompressWorld(v1::Proposal& proposal);

// Expands the world in place, the inverse of CompressWorld. INVALID_ARGUMENT:
// an unknown compression, a size over Limits::world_bytes_max, or bytes that do
// not expand to the announced size.
absl::Status ExpandWorld(v1::Proposal& proposal);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CODEC_WORLD_CODEC_H_
