// Node credentials: what an agent shows instead of its token once it is
// admitted.
//
// A MAC over job, run, node, incarnation, whether it is the launcher's own
// agent, the node's epoch and the credential's expiry, followed by the last
// two. A credential is valid for one incarnation of one node, needs no table,
// and stays valid after a restart of the daemon, whose key is kept with its
// state or derived from the shared secret. The caller checks whether it has
// expired and whether its epoch is still the node's. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
#define ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct CredentialTerms {
  uint64_t epoch = 0;
  // By the wall clock, in whole seconds.
  absl::Time ends_at;
};

// For the agent that sent this Hello, in this run. 48 bytes.
std::string NodeCredential(std::string_view key, std::string_view run,
                           const v1::Hello& hello,
                           const CredentialTerms& terms);

// The terms of a Hello's node_credential, if the credential was made for the
// job, run, node, incarnation (the previous one, if the Hello names it) and
// role that the Hello names; otherwise nullopt.
std::optional<CredentialTerms> TermsOfCredential(std::string_view key,
                                                 const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
