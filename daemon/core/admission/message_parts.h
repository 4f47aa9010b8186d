// The checks of message parts that several files of admission use.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_MESSAGE_PARTS_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_MESSAGE_PARTS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "daemon/core/admission/facts_limits.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

inline constexpr size_t kShortTextBytesMax = FactsLimits::short_text_bytes_max;
inline constexpr size_t kSecretBytesMax = 64;
inline constexpr size_t kRunBytesMax = 64;

// Returns from the enclosing function if `expression` is a refusal.
#define RETURN_IF_REFUSED(expression)                       \
  if (absl::Status refused = (expression); !refused.ok()) { \
    return refused;                                         \
  }

absl::Status AdmitGid(const v1::Gid& gid);
absl::Status AdmitNcclIds(
    const google::protobuf::RepeatedPtrField<std::string>& ids);
// Empty, or the bytes of a SHA-256.
absl::Status AdmitDigest(const char* field, const std::string& digest);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_MESSAGE_PARTS_H_
