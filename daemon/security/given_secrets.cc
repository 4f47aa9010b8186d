#include "daemon/security/given_secrets.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/security/certificates/identity.h"

namespace rollcall {
namespace {

constexpr size_t kStdinBytesMax = 64 << 10;

std::string Take(const char* name) {
  char* value = getenv(name);
  if (value == nullptr) return "";
  std::string taken = value;
  // The kernel shows this memory in /proc/PID/environ.
  memset(value, 'x', strlen(value));
  unsetenv(name);
  return taken;
}

absl::StatusOr<std::string> ReadStdin() {
  std::string text;
  // The whole size is reserved now, because growing would leave parts of a
  // secret in freed memory.
  text.reserve(kStdinBytesMax + size_t{2} * 4096);
  char block[4096];
  ssize_t got = 1;
  while (got != 0 && text.size() <= kStdinBytesMax) {
    got = read(STDIN_FILENO, block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Wipe(text);
      return absl::FailedPreconditionError(
          absl::StrCat("cannot read stdin: ", strerror(errno)));
    }
    text.append(block, static_cast<size_t>(got));
  }
  OPENSSL_cleanse(block, sizeof(block));
  return text;
}

}  // namespace

GivenSecrets TakeSecrets() {
  return {Take("ROLLCALL_JOIN"), Take("ROLLCALL_SECRET")};
}

absl::StatusOr<std::string> ReadGiven(const std::string& flag,
                                      const std::string& file,
                                      std::string* warning) {
  absl::StatusOr<std::string> text =
      file == "-" ? ReadStdin() : ReadPrivateFile(file, warning);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", std::string(text.status().message())));
}

absl::StatusOr<std::optional<SharedSecret>> GivenSecret(
    const std::string& file, const std::string& from_environment,
    std::string* warning) {
  std::string text;
  const WipeAtEnd wiped(text);
  if (file.empty()) {
    text = from_environment;
  } else {
    absl::StatusOr<std::string> read =
        ReadGiven("--secret-file", file, warning);
    if (!read.ok()) return read.status();
    text.swap(*read);
  }
  if (file.empty() && text.empty()) return std::nullopt;
  absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(text);
  if (!secret.ok()) return secret.status();
  return *std::move(secret);
}

}  // namespace rollcall
