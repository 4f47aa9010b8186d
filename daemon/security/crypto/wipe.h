// Wipe: overwrites a secret in memory before the memory is given back.
//
// For strings that contain a shared secret or a key derived from it. It does
// not overwrite memory that the string used before it grew, so reserve the full
// size of such a string first. Any thread, one at a time.
#ifndef ROLLCALL_DAEMON_SECURITY_CRYPTO_WIPE_H_
#define ROLLCALL_DAEMON_SECURITY_CRYPTO_WIPE_H_

#include <openssl/crypto.h>

#include <string>

namespace rollcall {

// Overwrites `secret` and leaves it empty.
inline void Wipe(std::string& secret) {
  // Overwrites the whole capacity, not only the current size.
  secret.resize(secret.capacity());
  OPENSSL_cleanse(secret.data(), secret.size());
  secret.clear();
}

// Wipes a string at the end of a scope.
class WipeAtEnd {
 public:
  explicit WipeAtEnd(std::string& secret) : secret_(secret) {}
  ~WipeAtEnd() { Wipe(secret_); }
  WipeAtEnd(const WipeAtEnd&) = delete;
  WipeAtEnd& operator=(const WipeAtEnd&) = delete;

 private:
  std::string& secret_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CRYPTO_WIPE_H_
