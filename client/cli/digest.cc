#include "client/cli/digest.h"

#include <openssl/sha.h>

namespace rollcall {

std::string CommandDigest(const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) {
    words += word;
    words += '\0';
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(words.data()), words.size(),
         digest);
  return std::string(reinterpret_cast<const char*>(digest), sizeof(digest));
}

}  // namespace rollcall
