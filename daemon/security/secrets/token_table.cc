#include "daemon/security/secrets/token_table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/limits.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

constexpr size_t kDescriptionBytesMax = 256;

absl::Time ExpiresAt(const v1::TokenRecord& record) {
  if (!record.status().has_expires_at()) return absl::InfiniteFuture();
  const google::protobuf::Timestamp& at = record.status().expires_at();
  return absl::FromUnixSeconds(at.seconds()) + absl::Nanoseconds(at.nanos());
}

void SetEnd(absl::Time end, v1::TokenStatus& status) {
  const int64_t seconds = absl::ToUnixSeconds(end);
  status.mutable_expires_at()->set_seconds(seconds);
  status.mutable_expires_at()->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(end - absl::FromUnixSeconds(seconds))));
}

// A role with a higher rank may do everything that roles with a lower rank may.
// 0: not a role.
int RoleRank(v1::Role role) {
  switch (role) {
    case v1::ROLE_VIEWER:
      return 1;
    case v1::ROLE_WORKER:
      return 2;
    case v1::ROLE_ADMIN:
      return 3;
    default:
      return 0;
  }
}

// The lowest role that may do this.
v1::Role RoleNeeded(TokenTable::For purpose) {
  switch (purpose) {
    case TokenTable::For::kAttend:
    case TokenTable::For::kReturn:
      return v1::ROLE_WORKER;
    case TokenTable::For::kLook:
      return v1::ROLE_VIEWER;
    case TokenTable::For::kLead:
    case TokenTable::For::kSteer:
      break;
  }
  return v1::ROLE_ADMIN;
}

TokenVerdict Denied(v1::RefusalCode code, const std::string& text) {
  const bool wrong =
      code == v1::REFUSAL_CODE_ROLE || code == v1::REFUSAL_CODE_OTHER_JOB;
  return {wrong ? absl::PermissionDeniedError(text)
                : absl::UnauthenticatedError(text),
          code, ""};
}

}  // namespace

void TokenTable::Load(const std::vector<v1::TokenRecord>& records) {
  for (const v1::TokenRecord& record : records) {
    if (records_.size() >= Limits::tokens_max) return;
    records_[record.status().id()] = record;
  }
}

void TokenTable::Seed(const std::vector<SeededToken>& seeds, absl::Time now) {
  std::set<std::string> digests;
  // Roles whose kept token is known, which shows that its file was not removed.
  std::set<v1::Role> known;
  for (const SeededToken& seed : seeds) {
    const std::string digest = Sha256(seed.token.secret());
    digests.insert(digest);
    const auto at = records_.find(seed.token.id());
    if (seed.kept && at != records_.end() &&
        at->second.secret_sha256() == digest) {
      known.insert(seed.role);
    }
  }
  std::vector<std::string> over;
  for (const auto& [id, record] : records_) {
    if (!record.seeded() || digests.contains(record.secret_sha256())) continue;
    // A revoked token is remembered, so that a client that shows it gets the
    // reason.
    const bool lives_on = record.replaced() &&
                          (record.status().revoked() || Valid(record, now)) &&
                          known.contains(record.status().role());
    if (!lives_on) over.push_back(id);
  }
  for (const std::string& id : over) Remove(id);
  kept_.clear();
  for (const SeededToken& seed : seeds) SeedOne(seed, now);
}

void TokenTable::Remove(const std::string& id) {
  changed_.erase(id);
  removed_.insert(id);
  records_.erase(id);
}

void TokenTable::SeedOne(const SeededToken& seeded, absl::Time now) {
  if (seeded.kept) {
    kept_[seeded.role] = {seeded.token.id(), seeded.description,
                          seeded.lifetime};
  }
  const auto known = records_.find(seeded.token.id());
  if (known == records_.end() ||
      known->second.secret_sha256() != Sha256(seeded.token.secret())) {
    return Add(seeded, now);
  }
  // The successor of this token was journaled, but the daemon ended before it
  // wrote the successor to the file.
  if (!known->second.replaced()) return;
  known->second.set_replaced(false);
  changed_.insert(known->first);
}

void TokenTable::Add(const SeededToken& seeded, absl::Time now) {
  v1::TokenRecord record;
  record.set_secret_sha256(Sha256(seeded.token.secret()));
  record.set_seeded(true);
  removed_.erase(seeded.token.id());
  v1::TokenStatus& status = *record.mutable_status();
  status.set_id(seeded.token.id());
  status.set_role(seeded.role);
  status.set_description(seeded.description);
  if (seeded.lifetime != absl::InfiniteDuration()) {
    SetEnd(now + seeded.lifetime, status);
  }
  changed_.insert(status.id());
  records_[status.id()] = std::move(record);
}

absl::Time TokenTable::DueAt(const Kept& kept) const {
  const v1::TokenRecord& record = records_.at(kept.id);
  if (record.status().revoked()) return absl::InfinitePast();
  // The token does not expire, or an older daemon journaled it without an
  // expiry.
  if (!record.status().has_expires_at()) return absl::InfiniteFuture();
  return kept.lifetime == absl::InfiniteDuration()
             ? ExpiresAt(record)
             : ExpiresAt(record) - kept.lifetime / 2;
}

absl::Time TokenTable::NextReplacement() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [role, kept] : kept_) next = std::min(next, DueAt(kept));
  return next;
}

std::optional<v1::Role> TokenTable::ReplaceDue(const v1::JoinToken& fresh,
                                               absl::Time now) {
  for (const auto& [role, kept] : kept_) {
    if (now < DueAt(kept)) continue;
    const v1::Role due = role;
    Replace(due, fresh, now);
    return due;
  }
  return std::nullopt;
}

void TokenTable::Replace(v1::Role role, const v1::JoinToken& fresh,
                         absl::Time now) {
  Kept& kept = kept_.at(role);
  // Removes replaced tokens of this role that have expired, so that the table
  // does not grow. At most one replaced token is valid at a time.
  std::vector<std::string> over;
  for (const auto& [id, record] : records_) {
    if (record.replaced() && record.status().role() == role &&
        !record.status().revoked() && now >= ExpiresAt(record)) {
      over.push_back(id);
    }
  }
  for (const std::string& id : over) Remove(id);
  // Revoked tokens stay while there is room. If the table is full of valid
  // tokens, it gets one record more; a later replacement removes one.
  MakeRoom(now);
  records_.at(kept.id).set_replaced(true);
  changed_.insert(kept.id);
  kept.id = fresh.id();
  Add({fresh, role, kept.description, true, kept.lifetime}, now);
}

std::optional<v1::Role> TokenTable::KeptRole(const std::string& id) const {
  for (const auto& [role, kept] : kept_) {
    if (kept.id == id) return role;
  }
  return std::nullopt;
}

TokenVerdict TokenTable::Check(const v1::JoinToken& token, For purpose,
                               std::string_view job, absl::Time now) const {
  const auto at = records_.find(token.id());
  static const v1::TokenRecord none;
  const v1::TokenRecord& record = at == records_.end() ? none : at->second;
  // The secret is digested and compared even if the id is unknown, so that the
  // time does not show whether the id exists.
  const bool same = SameSecret(Sha256(token.secret()), record.secret_sha256());
  if (!same || token.secret().empty()) {
    return Denied(v1::REFUSAL_CODE_UNAUTHENTICATED,
                  "the token is not one of this daemon's; use the join string "
                  "that its launcher printed last");
  }
  const v1::TokenStatus& status = record.status();
  const auto gone = [&](v1::RefusalCode code, const char* how) {
    return Denied(code, absl::StrCat("token ", status.id(), " ", how,
                                     "; an admin can make another one with "
                                     "`rollcall token create`"));
  };
  if (status.revoked()) {
    return gone(v1::REFUSAL_CODE_TOKEN_REVOKED, "was revoked");
  }
  if (now >= ExpiresAt(record)) {
    return gone(v1::REFUSAL_CODE_TOKEN_EXPIRED, "has expired");
  }
  const v1::Role needed = RoleNeeded(purpose);
  if (RoleRank(status.role()) < RoleRank(needed)) {
    return Denied(v1::REFUSAL_CODE_ROLE,
                  absl::StrCat("token ", status.id(), " has role ",
                               RoleWord(status.role()),
                               ", and this needs role ", RoleWord(needed),
                               "; an admin can make such a token with "
                               "`rollcall token create --role ",
                               RoleWord(needed), "`"));
  }
  if (!status.job().empty() && !job.empty() && status.job() != job) {
    return Denied(v1::REFUSAL_CODE_OTHER_JOB,
                  absl::StrCat("token ", status.id(), " is for job ",
                               status.job(), ", not ", std::string(job),
                               "; check --job, or use the join string"));
  }
  const bool costs = purpose == For::kAttend || purpose == For::kLead;
  if (costs && status.has_uses_left() && status.uses_left() == 0) {
    return gone(v1::REFUSAL_CODE_TOKEN_USED_UP, "is used up");
  }
  return {absl::OkStatus(), v1::REFUSAL_CODE_UNSPECIFIED, status.job(),
          status.role()};
}

v1::Role TokenTable::RoleOf(const std::string& id) const {
  const auto at = records_.find(id);
  return at == records_.end() ? v1::ROLE_UNSPECIFIED
                              : at->second.status().role();
}

void TokenTable::Use(const std::string& id) {
  const auto at = records_.find(id);
  if (at == records_.end()) return;
  v1::TokenStatus& status = *at->second.mutable_status();
  if (!status.has_uses_left() || status.uses_left() == 0) return;
  status.set_uses_left(status.uses_left() - 1);
  changed_.insert(id);
}

absl::Status TokenTable::Create(const v1::JoinToken& token,
                                const v1::CreateTokenRequest& request,
                                absl::Time now) {
  if (RoleRank(request.role()) == 0) {
    return Unfit("role", "worker, viewer or admin",
                 absl::StrCat(static_cast<int>(request.role())));
  }
  if (request.has_lifetime()) {
    absl::Status fits = AdmitDuration("lifetime", request.lifetime(), 1);
    if (!fits.ok()) return fits;
  }
  absl::Status fits = AdmitPlainText("description", request.description(),
                                     kDescriptionBytesMax);
  if (!fits.ok()) return fits;
  // The probability that two random ids are equal is 1 in 2^30.
  if (records_.contains(token.id()) || !MakeRoom(now)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this daemon has ", Limits::tokens_max,
        " tokens, the maximum; revoke some with `rollcall token revoke`"));
  }
  v1::TokenRecord record;
  record.set_secret_sha256(Sha256(token.secret()));
  v1::TokenStatus& status = *record.mutable_status();
  status.set_id(token.id());
  status.set_role(request.role());
  status.set_description(request.description());
  status.set_job(request.job());
  if (request.uses() > 0) status.set_uses_left(request.uses());
  if (request.has_lifetime()) {
    SetEnd(now + FromProto(request.lifetime()), status);
  }
  changed_.insert(status.id());
  records_[status.id()] = std::move(record);
  return absl::OkStatus();
}

bool TokenTable::Valid(const v1::TokenRecord& record, absl::Time now) const {
  return !record.status().revoked() && now < ExpiresAt(record) &&
         !(record.status().has_uses_left() && record.status().uses_left() == 0);
}

bool TokenTable::MakeRoom(absl::Time now) {
  if (records_.size() < Limits::tokens_max) return true;
  // Revoked tokens are removed last. Seeded ones that were not replaced are
  // never removed, because the next start would add them again.
  const std::string* victim = nullptr;
  bool revoked = true;
  for (const auto& [id, record] : records_) {
    const bool comes_again = record.seeded() && !record.replaced();
    if (Valid(record, now) || comes_again) continue;
    if (victim != nullptr && (!revoked || record.status().revoked())) continue;
    victim = &id;
    revoked = record.status().revoked();
  }
  if (victim == nullptr) return false;
  Remove(std::string(*victim));
  return true;
}

absl::StatusOr<v1::TokenRecord*> TokenTable::Find(const std::string& id,
                                                  const std::string& bound_to) {
  const auto at = records_.find(id);
  if (at != records_.end() &&
      (bound_to.empty() || at->second.status().job() == bound_to)) {
    return &at->second;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no token ", Printable(id, 64),
                   " that you may revoke; see `rollcall token list`"));
}

absl::Status TokenTable::Rotate(const std::string& id,
                                const v1::JoinToken& fresh,
                                const std::string& bound_to, absl::Time now) {
  const absl::StatusOr<v1::TokenRecord*> found = Find(id, bound_to);
  if (!found.ok()) return found.status();
  if (const std::optional<v1::Role> role = KeptRole(id)) {
    Replace(*role, fresh, now);
  } else {
    const v1::TokenStatus& old = (*found)->status();
    v1::CreateTokenRequest request;
    request.set_role(old.role());
    request.set_job(old.job());
    request.set_description(old.description());
    if (old.has_uses_left()) request.set_uses(std::max(old.uses_left(), 1u));
    if (old.has_expires_at()) {
      ToProto(std::max(ExpiresAt(**found) - now, absl::Seconds(1)),
              request.mutable_lifetime());
    }
    const bool revoked = old.revoked();
    if (absl::Status made = Create(fresh, request, now); !made.ok()) {
      return made;
    }
    // Create may have removed `id` to make room, if it had expired.
    if (revoked || !records_.contains(id)) return absl::OkStatus();
  }
  return Revoke(id, bound_to, now);
}

absl::Status TokenTable::Revoke(const std::string& id,
                                const std::string& bound_to, absl::Time now) {
  const absl::StatusOr<v1::TokenRecord*> found = Find(id, bound_to);
  if (!found.ok()) return found.status();
  v1::TokenRecord& record = **found;
  if (record.status().revoked()) return absl::OkStatus();
  const auto lasting_admin = [&](const v1::TokenRecord& record) {
    return record.status().role() == v1::ROLE_ADMIN && Valid(record, now) &&
           record.status().job().empty() && !record.status().has_expires_at();
  };
  size_t admins = 0;
  for (const auto& [each, record] : records_) admins += lasting_admin(record);
  if (lasting_admin(record) && admins == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("token ", id,
                     " is the last admin token that does not expire; make "
                     "another one first, with `rollcall token create --role "
                     "admin`"));
  }
  record.mutable_status()->set_revoked(true);
  changed_.insert(id);
  return absl::OkStatus();
}

std::vector<v1::TokenStatus> TokenTable::List(const std::string& job) const {
  std::vector<v1::TokenStatus> tokens;
  for (const auto& [id, record] : records_) {
    const std::string& of = record.status().job();
    if (job.empty() || of.empty() || of == job) {
      tokens.push_back(record.status());
    }
  }
  return tokens;
}

TokenTable::Changes TokenTable::Changed() const {
  Changes changes;
  for (const std::string& id : changed_) {
    changes.written.push_back(records_.at(id));
  }
  changes.removed.assign(removed_.begin(), removed_.end());
  return changes;
}

void TokenTable::Saved() {
  changed_.clear();
  removed_.clear();
}

}  // namespace rollcall
