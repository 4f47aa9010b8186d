#include "daemon/security/given_secrets.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/security/identity.h"

namespace rollcall {
namespace {

constexpr size_t kStdinBytesMax = 64 << 10;

std::string Take(const char* name) {
  char* value = getenv(name);
  if (value == nullptr) return "";
  const std::string taken = value;
  // The kernel shows this memory as the process's environment.
  memset(value, 'x', strlen(value));
  unsetenv(name);
  return taken;
}

absl::StatusOr<std::string> ReadStdin() {
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot read stdin: ", strerror(errno)));
    }
    if (got == 0 || text.size() > kStdinBytesMax) return text;
    text.append(block, static_cast<size_t>(got));
  }
}

}  // namespace

GivenSecrets TakeSecrets() {
  return {Take("ROLLCALL_JOIN"), Take("ROLLCALL_SECRET")};
}

absl::StatusOr<std::string> ReadGiven(const std::string& flag,
                                      const std::string& file) {
  const absl::StatusOr<std::string> text =
      file == "-" ? ReadStdin() : ReadSecretFile(file);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", std::string(text.status().message())));
}

absl::StatusOr<std::optional<SharedSecret>> GivenSecret(
    const std::string& file, const std::string& from_environment) {
  std::string text = from_environment;
  if (!file.empty()) {
    absl::StatusOr<std::string> read = ReadGiven("--secret-file", file);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  if (file.empty() && text.empty()) return std::nullopt;
  absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(text);
  if (!secret.ok()) return secret.status();
  return *std::move(secret);
}

}  // namespace rollcall
