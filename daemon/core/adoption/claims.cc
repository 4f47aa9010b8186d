#include "daemon/core/adoption/claims.h"

#include <utility>

#include "absl/status/statusor.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

// Far enough below the maximum of a journal's number that the run can be
// restored again.
constexpr uint64_t kAdoptedMax = uint64_t{1} << 60;

// Whether this Hello is from a member of that world of this job. It must have
// the same name and ranks, and the incarnation and epoch with which the
// member's row was committed.
bool Fits(const v1::World& world, const v1::WorldCommit& world_commit,
          const v1::Hello& hello, uint64_t epoch) {
  if (world.job() != hello.job() || world.run() != hello.run() ||
      world.generation() != hello.resume_state().running_generation() ||
      hello.previous_incarnation() != 0) {
    return false;
  }
  for (int row = 0; row < world.members_size(); ++row) {
    if (world.members(row).node() != hello.node()) continue;
    return world.members(row).ranks() == hello.ranks() &&
           row < world_commit.incarnations_size() &&
           row < world_commit.epochs_size() &&
           world_commit.incarnations(row) == hello.incarnation() &&
           world_commit.epochs(row) == epoch;
  }
  return false;
}

}  // namespace

Claims::Claimed* Claims::Find(const v1::Hello& hello, uint64_t epoch,
                              uint32_t nodes_min, uint32_t nodes_max) {
  const v1::ResumeState& resume_state = hello.resume_state();
  for (Claimed& claimed : claimed_) {
    if (claimed.world_bytes == resume_state.world() &&
        claimed.world_commit_bytes == resume_state.world_commit()) {
      return Fits(claimed.world, claimed.world_commit, hello, epoch) ? &claimed
                                                                     : nullptr;
    }
  }
  if (resume_state.running_generation() == 0 ||
      claimed_.size() >= Limits::claimed_worlds_max) {
    return nullptr;
  }
  absl::StatusOr<v1::World> world = DecodeWorld(resume_state.world());
  v1::WorldCommit world_commit;
  if (!world.ok() || !world_commit.ParseFromString(resume_state.world_commit()))
    return nullptr;
  // A world with another number of nodes is a world of another job.
  const uint32_t members = static_cast<uint32_t>(world->members_size());
  bool fits =
      nodes_min <= members && members <= nodes_max &&
      AdmitWorldCommit(world_commit, *world).ok() &&
      Fits(*world, world_commit, hello, epoch) &&
      AdmitCount("generation", world->generation(), kAdoptedMax).ok() &&
      AdmitCount("epoch", world_commit.epoch_highest(), kAdoptedMax).ok();
  for (const v1::Member& row : world->members()) {
    fits = fits && row.seat() < nodes_max;
  }
  if (!fits) return nullptr;
  claimed_.push_back({resume_state.world(),
                      resume_state.world_commit(),
                      *std::move(world),
                      std::move(world_commit),
                      {}});
  return &claimed_.back();
}

bool Claims::Take(uint64_t session, const v1::Hello& hello, uint64_t epoch,
                  uint32_t nodes_min, uint32_t nodes_max) {
  Claimed* claimed = Find(hello, epoch, nodes_min, nodes_max);
  if (claimed == nullptr) return false;
  claimed->by[hello.node()] = session;
  return true;
}

std::optional<uint64_t> Claims::StreamOf(const std::string& node) const {
  for (const Claimed& claimed : claimed_) {
    const auto at = claimed.by.find(node);
    if (at != claimed.by.end()) return at->second;
  }
  return std::nullopt;
}

void Claims::Drop(uint64_t session) {
  for (Claimed& claimed : claimed_) {
    std::erase_if(claimed.by, [session](const auto& entry) {
      return entry.second == session;
    });
  }
}

const Claims::Claimed* Claims::Chosen(bool time_is_over) const {
  const Claimed* chosen = nullptr;
  for (const Claimed& claimed : claimed_) {
    if (claimed.by.empty() || (time_is_over && !claimed.most())) continue;
    if (chosen == nullptr ||
        claimed.world.generation() > chosen->world.generation()) {
      chosen = &claimed;
    }
  }
  return chosen != nullptr && chosen->most() ? chosen : nullptr;
}

}  // namespace rollcall
