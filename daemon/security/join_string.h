// Join strings: one string with everything that a worker needs to find a job,
// verify its daemon and join: `rc1.` + base64url(JoinString + 4 bytes of its
// SHA-256).
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_
#define ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

std::string EncodeJoinString(const v1::JoinString& join);

// INVALID_ARGUMENT: `text` is not a join string, or one of another version; the
// message says which part is wrong and never contains the secret. A join string
// without TLS may name loopback endpoints only.
absl::StatusOr<v1::JoinString> DecodeJoinString(std::string_view text);

// HOST:PORT with a port of 1 to 65535; the host is a name, an IPv4 address or
// an IPv6 address in brackets.
bool IsEndpoint(std::string_view endpoint);

// Whether a HOST or HOST:PORT means the loopback of this machine: localhost,
// 127.0.0.0/8 or ::1, in brackets or not.
bool IsLoopback(std::string_view host);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_
