#include "daemon/codec/world_codec.h"

#include <zlib.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {

void CompressWorld(v1::Proposal& proposal) {
  if (proposal.compression() != v1::COMPRESSION_NONE) return;
  const std::string& plain = proposal.world();
  std::string packed(compressBound(plain.size()), '\0');
  uLongf size = packed.size();
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(plain.data()),
                               plain.size(), Z_BEST_SPEED + 2);
  if (result != Z_OK || size >= plain.size()) return;
  packed.resize(size);
  proposal.set_world(std::move(packed));
  proposal.set_compression(v1::COMPRESSION_ZLIB);
}

absl::Status ExpandWorld(v1::Proposal& proposal) {
  const auto invalid = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("world of generation ", proposal.generation(), ": ", what,
                     "; the daemon speaks another version of rollcall"));
  };
  if (proposal.compression() == v1::COMPRESSION_NONE) return absl::OkStatus();
  if (proposal.compression() != v1::COMPRESSION_ZLIB) {
    return invalid(absl::StrCat("unknown compression ",
                                static_cast<int>(proposal.compression())));
  }
  if (proposal.world_bytes() > Limits::world_bytes_max) {
    return invalid(absl::StrCat(proposal.world_bytes(), " bytes; the most is ",
                                Limits::world_bytes_max));
  }
  std::string plain(proposal.world_bytes(), '\0');
  uLongf size = plain.size();
  const int result =
      uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(proposal.world().data()),
                 proposal.world().size());
  if (result != Z_OK || size != plain.size()) {
    return invalid("its bytes do not expand to the announced size");
  }
  proposal.set_world(std::move(plain));
  proposal.set_compression(v1::COMPRESSION_NONE);
  return absl::OkStatus();
}

}  // namespace rollcall
