// The two tokens that daemons without a shared secret share: they are in etcd,
// encrypted, below the prefix, as `admin.token` and `worker.token`.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/key_value.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/value_sealer.h"

namespace rollcall {

// Returns the existing tokens. `make`: the first daemon that asks creates those
// that are missing. Safe to retry. UNAVAILABLE: etcd does not answer within
// `patience` for each. NOT_FOUND: one is missing, and `make` is false.
// FAILED_PRECONDITION: a value cannot be read; the message names its key.
absl::StatusOr<KeptTokens> KeepTokensInEtcd(KeyValueStore& client,
                                            const ValueSealer& sealer,
                                            const std::string& prefix,
                                            bool make, absl::Duration patience);

// The key name below the prefix.
inline std::string EtcdTokenName(v1::Role role) {
  return role == v1::ROLE_ADMIN ? "admin.token" : "worker.token";
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_
