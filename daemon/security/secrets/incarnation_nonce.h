// IncarnationNonce: the secret of one life of an agent, and the incarnation
// that is computed from it.
//
// An incarnation is public, because status and every world commit contain it.
// Only the agent's memory and the files in its run folder contain the nonce. An
// agent that shows the nonce of an earlier life of its node
// (Hello.swept_nonces) proves that it has read the run folder of that life, so
// that it has looked for ranks on that machine.
//
// Pure, except that DrawIncarnationNonce takes random bytes from the system;
// any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_INCARNATION_NONCE_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_INCARNATION_NONCE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall {

// Limits::incarnation_nonce_bytes random bytes.
std::string DrawIncarnationNonce();

// 64 bits of SHA-256 over job, node and nonce; never 0. The hash covers job and
// node, so that one guess of a nonce is valid for one node only.
uint64_t IncarnationOf(std::string_view job, std::string_view node,
                       std::string_view nonce);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_INCARNATION_NONCE_H_
