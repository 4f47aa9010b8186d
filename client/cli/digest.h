// The digest of a command, which tells nodes that would run another one without
// telling what it is. Pure.
#ifndef ROLLCALL_CLIENT_CLI_DIGEST_H_
#define ROLLCALL_CLIENT_CLI_DIGEST_H_

#include <string>
#include <vector>

namespace rollcall {

// SHA-256 over the words, each closed by a zero byte.
std::string CommandDigest(const std::vector<std::string>& command);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_DIGEST_H_
