// The proofs that a simulated daemon gives out: node credentials, and proofs of
// commits. A proof is valid only if all of its bytes are equal.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_CREDENTIALS_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_CREDENTIALS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall::sim {

// The credential of one incarnation of a node's agent, in one epoch of the
// node.
std::string CredentialOf(const std::string& run, const std::string& node,
                         uint64_t incarnation, uint64_t epoch);
// The epoch that a Hello's credential was made for; nothing if the credential
// was not made for the Hello's run, node and incarnation.
std::optional<uint64_t> EpochShown(const v1::Hello& hello);
// The proof of a commit. It is the same in each life of the daemon.
std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& world_commit);

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_CREDENTIALS_H_
