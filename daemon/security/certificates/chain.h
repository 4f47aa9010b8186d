// Chain: verifies that a chain of certificates belongs to the expected daemon.
//
// Pure, except that VerifyIssued reads the clock; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_CERTIFICATES_CHAIN_H_
#define ROLLCALL_DAEMON_SECURITY_CERTIFICATES_CHAIN_H_

#include <openssl/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rollcall {

inline constexpr size_t kPinBytes = 32;

// SHA-256 of a public key (SubjectPublicKeyInfo, DER): 32 bytes; empty if the
// key cannot be encoded.
std::string PinOf(EVP_PKEY* key);

// Both functions below take a chain in PEM, the server's certificate first.
// UNAUTHENTICATED: the chain is not that of the expected daemon; the message
// says why.

// Checks that the chain leads to the CA whose public key has this pin. Names
// and times are not checked, because the key identifies the daemon.
absl::Status VerifyPinned(std::string_view chain_pem, std::string_view pin);

// Checks that a CA in `ca_pem` issued the certificate, for a server named
// `name` (a DNS name or an address), and that the certificate is valid now.
absl::Status VerifyIssued(std::string_view chain_pem, std::string_view ca_pem,
                          const std::string& name);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CERTIFICATES_CHAIN_H_
