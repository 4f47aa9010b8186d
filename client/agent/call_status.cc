#include "client/agent/call_status.h"

#include "absl/strings/str_cat.h"

namespace rollcall {

absl::Status CallStatus(const std::string& endpoint,
                        const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE: {
      // gRPC puts the system's reason last, after all of its own.
      const size_t colon = text.rfind(": ");
      return absl::UnavailableError(absl::StrCat(
          "cannot reach ", endpoint, ": ",
          colon == std::string::npos ? text : text.substr(colon + 2)));
    }
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(
          absl::StrCat("no answer from ", endpoint, " in time"));
    default:
      // The codes are the same numbers by definition of both.
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat(endpoint, ": ", text));
  }
}

}  // namespace rollcall
