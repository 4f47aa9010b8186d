#include "daemon/security/certificates/identity.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/base/files/write_error.h"
#include "daemon/base/text/hex.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kKeyBytes = 32;
// A CA file may contain all CAs that an organisation trusts.
constexpr size_t kFileBytesMax = 4 << 20;

absl::Status Trouble(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

// Returns the text of a file. If there is no such file, writes the result of
// `make` to it and returns that.
template <typename MakeText>
absl::StatusOr<std::string> KeepFile(const std::string& path, MakeText make) {
  absl::StatusOr<std::string> text = ReadOwnFile(path);
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
  int error = fd >= 0 ? WriteWhole(fd, text) : errno;
  if (error == 0 && fsync(fd) != 0) error = errno;
  if (fd >= 0) close(fd);
  if (error == 0 && rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  // Called before unlink, which frees the space that the new file took.
  const std::string why = WriteErrorText(error, path);
  unlink(beside.c_str());
  return Trouble(path, absl::StrCat("cannot write it: ", why,
                                    "; check free space and permissions, or "
                                    "give another folder with --state"));
}

namespace {

absl::StatusOr<int> OpenToRead(const std::string& path, int more = 0) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | more);
  if (fd >= 0) return fd;
  if (errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  if (errno == ELOOP) {
    return Trouble(path, "expected a regular file, got a link; remove it");
  }
  return Trouble(path, absl::StrCat("cannot read it: ", strerror(errno)));
}

absl::Status CheckMode(int fd, const std::string& path, std::string* warning) {
  constexpr mode_t kOthersReadOrWrite = 066;
  struct stat file = {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
      (file.st_mode & kOthersReadOrWrite) == 0) {
    return absl::OkStatus();
  }
  const std::string found = absl::StrCat(
      "expected mode 0600, got 0", absl::StrFormat("%o", file.st_mode & 07777),
      ": its group or others can read or write it");
  struct statvfs mount = {};
  if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0) {
    if (warning != nullptr) {
      *warning = absl::StrCat(path, ": ", found,
                              "; used all the same, since it is on a "
                              "read-only mount");
    }
    return absl::OkStatus();
  }
  return Trouble(path, absl::StrCat(found, "; run `chmod 600 ", path, "`"));
}

absl::Status CheckOwner(int fd, const std::string& path) {
  struct stat file = {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
    return Trouble(path, "expected a regular file, got something else");
  }
  if (file.st_uid == geteuid()) return absl::OkStatus();
  return Trouble(
      path, absl::StrCat("expected a file of this process's user ", geteuid(),
                         ", got one of user ", file.st_uid, "; remove it"));
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  char block[16 << 10];
  ssize_t got = 1;
  while (got > 0 && text.size() <= kFileBytesMax) {
    got = read(fd, block, sizeof(block));
    if (got > 0) text.append(block, static_cast<size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  const int error = errno;
  OPENSSL_cleanse(block, sizeof(block));
  if (got < 0) {
    return Trouble(path, absl::StrCat("cannot read it: ", strerror(error)));
  }
  if (text.size() > kFileBytesMax) {
    return Trouble(path, absl::StrCat("expected at most ", kFileBytesMax,
                                      " bytes, got more"));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const absl::StatusOr<int> fd = OpenToRead(path);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<std::string> text = ReadAll(*fd, path);
  close(*fd);
  return text;
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            std::string* warning) {
  const absl::StatusOr<int> fd = OpenToRead(path);
  if (!fd.ok()) return fd.status();
  absl::Status fits = CheckMode(*fd, path, warning);
  absl::StatusOr<std::string> text =
      fits.ok() ? ReadAll(*fd, path) : absl::StatusOr<std::string>(fits);
  close(*fd);
  return text;
}

absl::StatusOr<std::string> ReadOwnFile(const std::string& path) {
  // O_NONBLOCK, because opening a pipe of that name would block.
  const absl::StatusOr<int> fd = OpenToRead(path, O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok()) return fd.status();
  absl::Status fits = CheckOwner(*fd, path);
  if (fits.ok()) fits = CheckMode(*fd, path, nullptr);
  absl::StatusOr<std::string> text =
      fits.ok() ? ReadAll(*fd, path) : absl::StatusOr<std::string>(fits);
  close(*fd);
  return text;
}

absl::Status CheckPrivateFile(const std::string& path, std::string* warning) {
  const absl::StatusOr<int> fd = OpenToRead(path);
  if (!fd.ok()) return absl::OkStatus();
  absl::Status fits = CheckMode(*fd, path, warning);
  close(*fd);
  return fits;
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
  if (!fits) {
    return Trouble(key_file, "expected 64 hex digits, got something else");
  }
  return Identity{*std::move(authority), FromHex(digits)};
}

}  // namespace rollcall
