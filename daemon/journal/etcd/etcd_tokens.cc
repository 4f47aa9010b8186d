#include "daemon/journal/etcd/etcd_tokens.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/journal/etcd/etcd_journal.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

absl::StatusOr<v1::JoinToken> KeepOne(KeyValueStore& client,
                                      const ValueSealer& sealer,
                                      const std::string& key, bool make,
                                      absl::Duration patience) {
  std::optional<std::string> fresh;
  if (make) fresh = TokenText(MakeToken());
  const auto text = KeepInEtcd(client, sealer, key, fresh, patience);
  if (!text.ok()) return text.status();
  auto token = ParseTokenText(*text);
  if (token.ok()) return token;
  return absl::FailedPreconditionError(
      absl::StrCat("etcd, ", key, ": ", token.status().message(),
                   "; remove the key (etcdctl del), then a new token is made"));
}

}  // namespace

absl::StatusOr<KeptTokens> KeepTokensInEtcd(KeyValueStore& client,
                                            const ValueSealer& sealer,
                                            const std::string& prefix,
                                            bool make,
                                            absl::Duration patience) {
  auto admin = KeepOne(client, sealer,
                       absl::StrCat(prefix, EtcdTokenName(v1::ROLE_ADMIN)),
                       make, patience);
  if (!admin.ok()) return admin.status();
  auto worker = KeepOne(client, sealer,
                        absl::StrCat(prefix, EtcdTokenName(v1::ROLE_WORKER)),
                        make, patience);
  if (!worker.ok()) return worker.status();
  return KeptTokens{*std::move(admin), *std::move(worker)};
}

}  // namespace rollcall
