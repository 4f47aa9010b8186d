// Chain: whether the certificates that a daemon has shown are those of the
// daemon that was meant.
//
// Pure but for the clock in VerifyIssued; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_CHAIN_H_
#define ROLLCALL_DAEMON_SECURITY_CHAIN_H_

#include <openssl/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rollcall {

inline constexpr size_t kPinBytes = 32;

// SHA-256 of a public key (SubjectPublicKeyInfo, DER): 32 bytes; empty: it
// cannot be written so.
std::string PinOf(EVP_PKEY* key);

// Both take a chain in PEM, the server's certificate first.
// UNAUTHENTICATED: it is not the one, and in what way.

// Whether it leads to the CA whose public key has this pin. Names and times are
// not looked at: the trust lies in the key.
absl::Status VerifyPinned(std::string_view chain_pem, std::string_view pin);

// Whether a CA in `ca_pem` has issued it, as a server's, for `name` (a DNS name
// or an address), and it is valid now.
absl::Status VerifyIssued(std::string_view chain_pem, std::string_view ca_pem,
                          const std::string& name);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CHAIN_H_
