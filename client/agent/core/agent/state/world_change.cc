#include "client/agent/core/agent/state/world_change.h"

#include <cstddef>

#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

// The daemon never sends a longer proof.
constexpr size_t kProofBytesMax = 64;

}  // namespace

WorldChange::WorldChange(v1::World world, std::string world_bytes,
                         uint32_t node_rank)
    : node_rank_(node_rank) {
  change_.world = std::move(world);
  change_.world_bytes = std::move(world_bytes);
}

v1::Prepared WorldChange::TakePrepared() {
  said_ = promised_ = true;
  return *prepared_;
}

bool WorldChange::Commit(const v1::Commit& commit) {
  v1::WorldCommit world_commit;
  if (!world_commit.ParseFromString(commit.world_commit()) ||
      !AdmitWorldCommit(world_commit, world()).ok()) {
    return false;
  }
  CleanWorldCommit(world_commit);
  change_.world_commit = std::move(world_commit);
  change_.world_commit_bytes = commit.world_commit();
  if (commit.proof().size() <= kProofBytesMax) change_.proof = commit.proof();
  committed_ = true;
  return true;
}

bool WorldChange::Keep(const v1::Notice& notice) {
  if (!committed() || notice.generation() != generation()) return false;
  change_.notice = notice;
  return true;
}

std::optional<uint32_t> WorldChange::LocalSource() const {
  const v1::WorldCommit& world_commit = change_.world_commit;
  const uint32_t rank = world_commit.state_source().rank();
  if (!world_commit.has_state_source() || rank < member().first_rank() ||
      rank - member().first_rank() >= member().ranks()) {
    return std::nullopt;
  }
  return rank - member().first_rank();
}

WorldChange::Committed WorldChange::Start() && { return std::move(change_); }

}  // namespace rollcall
