// Commit proofs: a daemon that has lost its journal uses them to recognize a
// world that was committed with the same shared secret.
//
// A proof is a MAC over job, run, generation, world and world commit; the world
// commit has each member's incarnation and epoch. Members keep the proof but
// cannot make one. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_COMMIT_PROOF_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_COMMIT_PROOF_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/security/secrets/shared_secret.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The key of commit proofs, 32 bytes. It is used for nothing else.
std::string CommitProofKey(const SharedSecret& secret);

// 32 bytes.
std::string CommitProof(std::string_view key, std::string_view job,
                        std::string_view run, uint64_t generation,
                        std::string_view world_bytes,
                        std::string_view world_commit_bytes);

// Whether the proof in Hello.resume_state is valid for the Hello's world, world
// commit, job, run and running generation. False for an empty key.
bool HoldsCommitProof(std::string_view key, const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_COMMIT_PROOF_H_
