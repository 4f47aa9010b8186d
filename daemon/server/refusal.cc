#include "daemon/server/refusal.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "daemon/core/admission.h"

namespace rollcall {
namespace {

// gRPC carries both in headers, which have a bound of their own.
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

// Where a status carries its RefusalCode.
constexpr char kPayload[] = "rollcall.v1.RefusalCode";

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

v1::Refusal RefusalOf(const absl::Status& status) {
  v1::Refusal refusal;
  refusal.set_code(CarriedCode(status).value_or(CodeOf(status.code())));
  refusal.set_text(std::string(status.message()));
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
  if (CarriedCode(status).has_value()) {
    return WireStatus(status.code(), RefusalOf(status));
  }
  return grpc::Status(WireCode(status.code()),
                      Printable(std::string(status.message()), kTextBytesMax));
}

}  // namespace rollcall
