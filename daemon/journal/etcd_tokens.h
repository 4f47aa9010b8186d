// The two tokens that daemons without a shared secret have in common: they lie
// in etcd, sealed, below the prefix as `admin.token` and `worker.token`.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/key_value.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/value_sealer.h"

namespace rollcall {

// Those that are there. `make`: those that are not are made, by the first
// daemon that asks. Safe to retry. UNAVAILABLE: etcd does not answer within
// `patience` each. NOT_FOUND: one is not there, and may not be made.
// FAILED_PRECONDITION: a value cannot be read; its key is named.
absl::StatusOr<KeptTokens> KeepTokensInEtcd(KeyValueStore& client,
                                            const ValueSealer& sealer,
                                            const std::string& prefix,
                                            bool make, absl::Duration patience);

// Below the prefix.
inline std::string EtcdTokenName(v1::Role role) {
  return role == v1::ROLE_ADMIN ? "admin.token" : "worker.token";
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_TOKENS_H_
