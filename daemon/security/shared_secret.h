// SharedSecret: one secret that all specs of a job hold before anything runs,
// and what is derived from it, the same on every machine: the key of the
// daemon's CA, tokens, and the key of node credentials.
//
// Whoever holds it can be a worker, an admin and the daemon itself; it is for
// places where one spec is written for all. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SHARED_SECRET_H_
#define ROLLCALL_DAEMON_SECURITY_SHARED_SECRET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/security/wipe.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class SharedSecret {
 public:
  // 256 random bits as base64url: what `rollcall token secret` prints.
  static std::string MakeText();

  // Hex of 32 digits or more, else base64 or base64url of 32 bytes or more, so
  // that no passphrase passes for one: what the CA's public key, which
  // everybody is shown, can be tried against must not be guessed. White space
  // around it is left out. INVALID_ARGUMENT: neither; never shows what it was.
  static absl::StatusOr<SharedSecret> Parse(std::string_view text);

  // Overwrites it.
  ~SharedSecret() { Wipe(bytes_); }
  SharedSecret(const SharedSecret&) = default;
  SharedSecret(SharedSecret&&) = default;
  SharedSecret& operator=(SharedSecret other) {
    bytes_.swap(other.bytes_);
    return *this;
  }

  // As Parse takes it.
  std::string Text() const;
  // `purpose` as DeriveKey.
  std::string Derive(std::string_view purpose, size_t bytes) const;
  // The token of this role that every holder knows.
  v1::JoinToken Token(v1::Role role) const;

 private:
  explicit SharedSecret(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string bytes_;  // 16 or more: never within the string object itself.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SHARED_SECRET_H_
