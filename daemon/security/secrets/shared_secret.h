// SharedSecret: one secret that all nodes of a job have before anything runs.
// Every machine derives the same values from it: the key of the daemon's CA,
// tokens, and the key of node credentials.
//
// A holder of the secret can act as a worker, as an admin and as the daemon. It
// is for deployments in which one spec is written for all nodes. Pure; any
// thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_SHARED_SECRET_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_SHARED_SECRET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/security/crypto/wipe.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class SharedSecret {
 public:
  // 256 random bits as base64url, as `rollcall token secret` prints them.
  static std::string MakeText();

  // Parses 32 or more hex digits, or base64 or base64url of 32 or more bytes. A
  // passphrase is not accepted, because every client gets the CA's public key,
  // which is derived from the secret, and could test guesses with it.
  // Surrounding white space is ignored. INVALID_ARGUMENT: `text` is neither;
  // the message never contains it.
  static absl::StatusOr<SharedSecret> Parse(std::string_view text);

  // Overwrites the secret.
  ~SharedSecret() { Wipe(bytes_); }
  SharedSecret(const SharedSecret&) = default;
  SharedSecret(SharedSecret&&) = default;
  SharedSecret& operator=(SharedSecret other) {
    bytes_.swap(other.bytes_);
    return *this;
  }

  // The secret as text that Parse accepts.
  std::string Text() const;
  // See DeriveKey.
  std::string Derive(std::string_view purpose, size_t bytes) const;
  // The derived token of this role; it is the same for every holder of the
  // secret.
  v1::JoinToken Token(v1::Role role) const;

 private:
  explicit SharedSecret(std::string bytes) : bytes_(std::move(bytes)) {}
  // 16 bytes or more. So they are on the heap and not in the string object, and
  // a move leaves no copy that Wipe does not reach.
  std::string bytes_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_SHARED_SECRET_H_
