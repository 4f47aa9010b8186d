// ValueSealer: encrypts values that daemons keep in a store to which others may
// write. The others can still delete a value or replace it by an older value of
// the same key. They cannot read it, forge it or move it to another key.
//
// AES-256-GCM with a random nonce for each value; the key is derived from a
// secret that all daemons of one state share, and the store's key is the
// associated data. A sealed value is the 4 bytes "rcs1", 12 bytes of nonce, the
// ciphertext and 16 bytes of tag.
//
// A value; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_VALUE_SEALER_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_VALUE_SEALER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/security/secrets/shared_secret.h"

namespace rollcall {

class ValueSealer {
 public:
  // A sealed value has this many bytes more than the value.
  static constexpr size_t kBytesAdded = 4 + 12 + 16;

  explicit ValueSealer(const SharedSecret& secret);
  // Overwrites the key.
  ~ValueSealer() { Wipe(key_); }
  ValueSealer(const ValueSealer&) = default;
  ValueSealer& operator=(const ValueSealer&) = default;

  // `name`: the store's key.
  std::string Seal(std::string_view name, std::string_view value) const;
  // FAILED_PRECONDITION: `sealed` was not sealed, or not with this secret for
  // this name; the message never contains the value.
  absl::StatusOr<std::string> Open(std::string_view name,
                                   std::string_view sealed) const;

 private:
  std::string key_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_VALUE_SEALER_H_
