// The two tokens that daemons without a shared secret have in common. They are
// stored in etcd, encrypted, below the prefix, as `admin.token` and
// `worker.token`.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_TOKENS_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_TOKENS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/etcd/key_value.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/value_sealer.h"

namespace rollcall {

// Returns the existing tokens. If `make` is true, the first daemon that calls
// this creates the missing ones. Safe to retry. `patience`: for each of the two
// tokens. UNAVAILABLE: etcd does not answer within that time. NOT_FOUND: a
// token is missing, and `make` is false. FAILED_PRECONDITION: a value cannot be
// read; the message names its key.
absl::StatusOr<KeptTokens> KeepTokensInEtcd(KeyValueStore& client,
                                            const ValueSealer& sealer,
                                            const std::string& prefix,
                                            bool make, absl::Duration patience);

// The key name below the prefix.
inline std::string EtcdTokenName(v1::Role role) {
  return role == v1::ROLE_ADMIN ? "admin.token" : "worker.token";
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_TOKENS_H_
