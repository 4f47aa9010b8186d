#include "daemon/etcd_access.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/crypto/wipe.h"
#include "daemon/security/given_secrets.h"

namespace rollcall {

absl::StatusOr<EtcdAccess> ReadEtcdAccess(const EtcdFlags& etcd,
                                          const WarnFunction& warn) {
  EtcdAccess access;
  const auto read = [&warn](const char* flag, const std::string& file,
                            bool secret, std::string& to) {
    if (file.empty()) return absl::OkStatus();
    std::string warning;
    absl::StatusOr<std::string> text =
        secret ? ReadGiven(flag, file, &warning) : ReadSecretFile(file);
    if (!text.ok()) {
      return absl::Status(
          text.status().code(),
          secret ? std::string(text.status().message())
                 : absl::StrCat(flag, ": ", text.status().message()));
    }
    warn(warning);
    to = *std::move(text);
    return absl::OkStatus();
  };
  absl::Status status = read("--etcd-ca", etcd.ca_file, false, access.ca);
  if (status.ok()) {
    status = read("--etcd-cert", etcd.cert_file, false, access.certificate);
  }
  if (status.ok()) status = read("--etcd-key", etcd.key_file, true, access.key);
  std::string password;
  if (status.ok()) {
    status = read("--etcd-password-file", etcd.password_file, true, password);
  }
  if (!status.ok()) return status;
  access.user = etcd.user;
  access.password = std::string(absl::StripTrailingAsciiWhitespace(password));
  return access;
}

absl::StatusOr<std::optional<SharedSecret>> ReadSealingKey(
    const std::string& file, const WarnFunction& warn) {
  constexpr size_t kHexDigits = 64;
  if (file.empty()) return std::optional<SharedSecret>();
  std::string warning;
  absl::StatusOr<std::string> text =
      ReadGiven("--etcd-key-file", file, &warning);
  if (!text.ok()) return text.status();
  warn(warning);
  const WipeAtEnd wiped(*text);
  absl::StatusOr<SharedSecret> key = SharedSecret::Parse(*text);
  if (key.ok() && key->Text().size() >= kHexDigits) {
    return std::optional<SharedSecret>(*std::move(key));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--etcd-key-file: ", file,
      ": expected 32 bytes in hex or base64, got something else; make one with "
      "`rollcall token secret`"));
}

}  // namespace rollcall
