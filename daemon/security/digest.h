// Digest: random bytes, digests and derived keys; the few cryptographic words
// that the rest is built of, all of them OpenSSL's.
//
// Any thread. None of these fails but for want of memory or of the system's
// generator, which ends the process: there is no secret to go on with.
#ifndef ROLLCALL_DAEMON_SECURITY_DIGEST_H_
#define ROLLCALL_DAEMON_SECURITY_DIGEST_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rollcall {

// From the system's generator.
std::string RandomBytes(size_t bytes);

// 32 bytes.
std::string Sha256(std::string_view bytes);

// HMAC-SHA-256: 32 bytes.
std::string HmacSha256(std::string_view key, std::string_view bytes);

// HKDF-SHA-256 (RFC 5869) with the salt "rollcall v1". `purpose` tells what is
// derived: no two keys share one.
std::string DeriveKey(std::string_view secret, std::string_view purpose,
                      size_t bytes);

// In a time that depends on the lengths alone. An empty one is no secret, and
// the same as nothing.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_DIGEST_H_
