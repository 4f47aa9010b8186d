// Tokens as values and as text: a loggable id and a secret.
//
// Pure, except that MakeToken takes random bytes from the system. Any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

inline constexpr size_t kTokenBytesMax = 64;

// A new token: a 6-character id and 16 random bytes from the system.
v1::JoinToken MakeToken();

// Whether the token has an id of 1 to 64 of [a-z0-9-], and a secret of 1 to 64
// bytes.
bool IsToken(const v1::JoinToken& token);

// `ID.SECRETHEX`, as in `authorization: Bearer` and in token files.
std::string TokenText(const v1::JoinToken& token);
// INVALID_ARGUMENT: `text` is not a token; the message never contains it.
absl::StatusOr<v1::JoinToken> ParseTokenText(std::string_view text);

// `worker`, `viewer`, `admin`.
std::string RoleWord(v1::Role role);
// INVALID_ARGUMENT: `word` is none of these.
absl::StatusOr<v1::Role> ParseRole(std::string_view word);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_H_
