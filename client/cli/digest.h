// The digest of a command. It shows that nodes have different commands, and the
// commands themselves need not be sent. Pure.
#ifndef ROLLCALL_CLIENT_CLI_DIGEST_H_
#define ROLLCALL_CLIENT_CLI_DIGEST_H_

#include <string>
#include <vector>

namespace rollcall {

// SHA-256 over the arguments, each followed by a zero byte.
std::string CommandDigest(const std::vector<std::string>& command);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_DIGEST_H_
