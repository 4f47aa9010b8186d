// Node credentials: an agent that was admitted shows one instead of its token.
//
// A credential is a MAC, followed by the node's epoch and the credential's
// expiry. The MAC covers these two, job, run, node, incarnation, and whether it
// is the launcher's own agent. A credential is valid for one incarnation of one
// node, and the daemon needs no table to check it. It stays valid after a
// restart of the daemon, because the key is kept with the daemon's state or
// derived from the shared secret. The caller checks whether the credential has
// expired and whether its epoch is still the node's. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_NODE_CREDENTIAL_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_NODE_CREDENTIAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct CredentialTerms {
  uint64_t epoch = 0;
  // Expiry by the wall clock, in whole seconds.
  absl::Time ends_at;
};

// The credential for the agent that sent this Hello, in this run. 48 bytes.
std::string NodeCredential(std::string_view key, std::string_view run,
                           const v1::Hello& hello,
                           const CredentialTerms& terms);

// The terms of a Hello's node_credential, if the credential was made for the
// job, run, node, incarnation (the previous one, if the Hello names it) and
// role that the Hello names; otherwise nullopt.
std::optional<CredentialTerms> TermsOfCredential(std::string_view key,
                                                 const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_NODE_CREDENTIAL_H_
