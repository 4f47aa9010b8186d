// Reads the files that rollcalld's etcd flags name.
#ifndef ROLLCALL_DAEMON_ETCD_ACCESS_H_
#define ROLLCALL_DAEMON_ETCD_ACCESS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/daemon_flags.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/security/secrets/shared_secret.h"

namespace rollcall {

// Called for each file, with a warning for the user; empty: there is none.
using WarnFunction = std::function<void(const std::string&)>;

// Errors of the two functions below name the flag and the file.

// Reads the credentials and the CA for etcd. The result has no endpoints.
absl::StatusOr<EtcdAccess> ReadEtcdAccess(const EtcdFlags& etcd,
                                          const WarnFunction& warn);
// The key that seals the values; nullopt: no file is given.
absl::StatusOr<std::optional<SharedSecret>> ReadSealingKey(
    const std::string& file, const WarnFunction& warn);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_ETCD_ACCESS_H_
