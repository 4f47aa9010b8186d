// SharedSecret: one secret that all specs of a job hold before anything runs,
// and what is derived from it, the same on every machine: the key of the
// daemon's CA, tokens, and the key of node credentials.
//
// A holder can act as a worker, as an admin and as the daemon; it is for
// deployments where one spec is written for all nodes. Pure; any thread.
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

  // Hex of 32 digits or more, else base64 or base64url of 32 bytes or more.
  // A passphrase is not accepted: every client is shown the CA's public key,
  // which is derived from the secret, and could test guesses against it.
  // Surrounding white space is ignored. INVALID_ARGUMENT: neither; the message
  // never shows the text.
  static absl::StatusOr<SharedSecret> Parse(std::string_view text);

  // Overwrites the secret.
  ~SharedSecret() { Wipe(bytes_); }
  SharedSecret(const SharedSecret&) = default;
  SharedSecret(SharedSecret&&) = default;
  SharedSecret& operator=(SharedSecret other) {
    bytes_.swap(other.bytes_);
    return *this;
  }

  // As Parse accepts it.
  std::string Text() const;
  // See DeriveKey.
  std::string Derive(std::string_view purpose, size_t bytes) const;
  // The derived token of this role, the same for every holder.
  v1::JoinToken Token(v1::Role role) const;

 private:
  explicit SharedSecret(std::string bytes) : bytes_(std::move(bytes)) {}
  // 16 or more, so they are on the heap (not in the string object), where Wipe
  // reaches them after a move.
  std::string bytes_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SHARED_SECRET_H_
