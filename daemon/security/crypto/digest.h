// Digest: random bytes, digests and derived keys: the few cryptographic
// primitives that this folder uses. All are OpenSSL's, except getrandom(2).
//
// Any thread. These functions fail only if memory or the system's random number
// generator is not available. Then the process aborts, because it cannot
// continue without secrets.
#ifndef ROLLCALL_DAEMON_SECURITY_CRYPTO_DIGEST_H_
#define ROLLCALL_DAEMON_SECURITY_CRYPTO_DIGEST_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rollcall {

// Returns random bytes from the system's random number generator.
std::string RandomBytes(size_t bytes);

// 32 bytes.
std::string Sha256(std::string_view bytes);

// HMAC-SHA-256: 32 bytes.
std::string HmacSha256(std::string_view key, std::string_view bytes);

// HKDF-SHA-256 (RFC 5869) with the salt "rollcall v1" and `purpose` as info.
// Each key has its own purpose.
std::string DeriveKey(std::string_view secret, std::string_view purpose,
                      size_t bytes);

// Compares in a time that depends only on the lengths. An empty secret is never
// equal, not even to another empty one.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CRYPTO_DIGEST_H_
