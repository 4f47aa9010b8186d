// Join strings and tokens: what a worker needs to find and enter a job.
//
// `rc0.` + base64url(JoinString) for the plain wire.
#ifndef ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_
#define ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

std::string EncodeJoinString(const v1::JoinString& join);

// INVALID_ARGUMENT: not a join string, or one of another version; says which
// part is wrong, never the secret.
absl::StatusOr<v1::JoinString> DecodeJoinString(std::string_view text);

// A fresh token: a 6-character id and 16 random bytes from the system.
v1::JoinToken MakeToken();

// Whether both name the same token and secret; the secret in constant time.
bool SameToken(const v1::JoinToken& a, const v1::JoinToken& b);

// `ID.SECRETHEX`, as it stands in `authorization: Bearer` and in token files.
std::string TokenText(const v1::JoinToken& token);
absl::StatusOr<v1::JoinToken> ParseTokenText(std::string_view text);

// `bytes` random bytes from the system's generator.
std::string RandomBytes(size_t bytes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_JOIN_STRING_H_
