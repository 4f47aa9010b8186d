#include "daemon/security/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/security/digest.h"

namespace rollcall {
namespace {

constexpr size_t kKeyBytes = 32;
// A CA file may hold all that an organisation trusts.
constexpr size_t kFileBytesMax = 4 << 20;

absl::Status Trouble(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

// The text of a file, made by `make` where there is none.
template <typename MakeText>
absl::StatusOr<std::string> KeepFile(const std::string& path, MakeText make) {
  absl::StatusOr<std::string> text = ReadSecretFile(path);
  if (text.ok() || !absl::IsNotFound(text.status())) return text;
  text = make();
  if (!text.ok()) return text;
  if (absl::Status s = WriteSecretFile(path, *text); !s.ok()) return s;
  return text;
}

}  // namespace

absl::Status WriteSecretFile(const std::string& path, const std::string& text) {
  const std::string beside = absl::StrCat(path, ".new");
  unlink(beside.c_str());
  const int fd =
      open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = fd >= 0 && write(fd, text.data(), text.size()) ==
                                static_cast<ssize_t>(text.size());
  written = written && fsync(fd) == 0;
  int error = errno;
  if (fd >= 0) close(fd);
  if (written && rename(beside.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  if (written) error = errno;
  unlink(beside.c_str());
  return Trouble(path, absl::StrCat("cannot write it: ", strerror(error),
                                    "; look at the folder's rights and "
                                    "space"));
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  if (fd < 0) {
    return Trouble(path, absl::StrCat("cannot read it: ", strerror(errno)));
  }
  std::string text;
  char block[16 << 10];
  ssize_t got = 1;
  while (got > 0 && text.size() <= kFileBytesMax) {
    got = read(fd, block, sizeof(block));
    if (got > 0) text.append(block, static_cast<size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  const int error = errno;
  close(fd);
  if (got < 0) {
    return Trouble(path, absl::StrCat("cannot read it: ", strerror(error)));
  }
  if (text.size() > kFileBytesMax) {
    return Trouble(path, absl::StrCat("expected at most ", kFileBytesMax,
                                      " bytes, got more"));
  }
  return text;
}

absl::StatusOr<Identity> Identity::Make() {
  absl::StatusOr<Authority> authority = Authority::Make();
  if (!authority.ok()) return authority.status();
  return Identity{*std::move(authority), RandomBytes(kKeyBytes)};
}

absl::StatusOr<Identity> Identity::FromSecret(const SharedSecret& secret) {
  absl::StatusOr<Authority> authority = Authority::FromSecret(secret);
  if (!authority.ok()) return authority.status();
  return Identity{*std::move(authority),
                  secret.Derive("credential key", kKeyBytes)};
}

absl::StatusOr<Identity> Identity::Keep(const std::string& folder) {
  const std::string ca_file = absl::StrCat(folder, "/ca.key");
  const absl::StatusOr<std::string> ca_key =
      KeepFile(ca_file, []() -> absl::StatusOr<std::string> {
        const absl::StatusOr<Authority> made = Authority::Make();
        if (!made.ok()) return made.status();
        return made->KeyPem();
      });
  if (!ca_key.ok()) return ca_key.status();
  absl::StatusOr<Authority> authority = Authority::FromKey(*ca_key);
  if (!authority.ok()) {
    return Trouble(ca_file, std::string(authority.status().message()));
  }
  const std::string key_file = absl::StrCat(folder, "/credential.key");
  const absl::StatusOr<std::string> hex =
      KeepFile(key_file, []() -> absl::StatusOr<std::string> {
        return absl::StrCat(absl::BytesToHexString(RandomBytes(kKeyBytes)),
                            "\n");
      });
  if (!hex.ok()) return hex.status();
  const absl::string_view digits = absl::StripAsciiWhitespace(*hex);
  const bool fits =
      digits.size() == 2 * kKeyBytes &&
      digits.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
  if (!fits) return Trouble(key_file, "expected 64 hex digits, got others");
  return Identity{*std::move(authority), absl::HexStringToBytes(digits)};
}

}  // namespace rollcall
