#include "daemon/security/secrets/commit_proof.h"

#include "absl/strings/str_cat.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kProofKeyBytes = 32;

}  // namespace

std::string CommitProofKey(const SharedSecret& secret) {
  return secret.Derive("commit proof key", kProofKeyBytes);
}

std::string CommitProof(std::string_view key, std::string_view job,
                        std::string_view run, uint64_t generation,
                        std::string_view world_bytes,
                        std::string_view world_commit_bytes) {
  // These names contain no '/', and the digests have a fixed length, so
  // different inputs give different texts.
  return HmacSha256(
      key, absl::StrCat("commit proof v1/", std::string(job), "/",
                        std::string(run), "/", generation, "/",
                        Sha256(world_bytes), Sha256(world_commit_bytes)));
}

bool HoldsCommitProof(std::string_view key, const v1::Hello& hello) {
  const v1::ResumeState& resume_state = hello.resume_state();
  return !key.empty() && !resume_state.proof().empty() &&
         SameSecret(
             resume_state.proof(),
             CommitProof(key, hello.job(), hello.run(),
                         resume_state.running_generation(),
                         resume_state.world(), resume_state.world_commit()));
}

}  // namespace rollcall
