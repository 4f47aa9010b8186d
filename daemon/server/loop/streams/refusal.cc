#include "daemon/server/loop/streams/refusal.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// gRPC sends the text twice, as the message and within the error details. Both
// are headers, whose size is bounded.
constexpr size_t kTextBytesMax = 2 << 10;

// The numbers of absl's codes and of gRPC's are the same by design.
grpc::StatusCode WireCode(absl::StatusCode code) {
  return static_cast<grpc::StatusCode>(static_cast<int>(code));
}

v1::RefusalCode CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return v1::REFUSAL_CODE_INVALID;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return v1::REFUSAL_CODE_UNAUTHENTICATED;
    case absl::StatusCode::kNotFound:
      return v1::REFUSAL_CODE_NO_JOB;
    case absl::StatusCode::kResourceExhausted:
      return v1::REFUSAL_CODE_LIMIT;
    case absl::StatusCode::kFailedPrecondition:
      return v1::REFUSAL_CODE_SETTINGS;
    default:
      return v1::REFUSAL_CODE_UNSPECIFIED;
  }
}

// Payload names of a status: its RefusalCode, and the leader's addresses.
constexpr char kPayload[] = "rollcall.v1.RefusalCode";
constexpr char kLeader[] = "rollcall.v1.Refusal.leader_endpoints";

std::optional<v1::RefusalCode> CarriedCode(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  v1::RefusalCode code;
  if (!payload.has_value() ||
      !v1::RefusalCode_Parse(std::string(*payload), &code)) {
    return std::nullopt;
  }
  return code;
}

}  // namespace

absl::Status WithRefusalCode(absl::Status status, v1::RefusalCode code) {
  status.SetPayload(kPayload, absl::Cord(v1::RefusalCode_Name(code)));
  return status;
}

absl::Status NotLeader(const std::vector<std::string>& leader) {
  absl::Status status = WithRefusalCode(
      absl::UnavailableError(
          leader.empty()
              ? "this daemon is a standby, and no other one leads yet; dial "
                "again"
              : absl::StrCat("this daemon is a standby; dial the leader, ",
                             absl::StrJoin(leader, " or "))),
      v1::REFUSAL_CODE_NOT_LEADER);
  status.SetPayload(kLeader, absl::Cord(absl::StrJoin(leader, ",")));
  return status;
}

v1::Refusal RefusalOf(const absl::Status& status) {
  v1::Refusal refusal;
  refusal.set_code(CarriedCode(status).value_or(CodeOf(status.code())));
  refusal.set_text(std::string(status.message()));
  if (const absl::optional<absl::Cord> leader = status.GetPayload(kLeader)) {
    const std::vector<std::string> endpoints =
        absl::StrSplit(std::string(*leader), ',', absl::SkipEmpty());
    for (const std::string& endpoint : endpoints) {
      refusal.add_leader_endpoints(endpoint);
    }
  }
  return refusal;
}

grpc::Status WireStatus(absl::StatusCode code, const v1::Refusal& refusal) {
  if (code == absl::StatusCode::kOk) return grpc::Status::OK;
  v1::Refusal cut = refusal;
  cut.set_text(Printable(refusal.text(), kTextBytesMax));
  return grpc::Status(WireCode(code), cut.text(), cut.SerializeAsString());
}

grpc::Status WireStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return WireStatus(status.code(), RefusalOf(status));
}

}  // namespace rollcall
