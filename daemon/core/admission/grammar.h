// Grammar: the small checks that admission consists of, and the wording of its
// refusals. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_GRAMMAR_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace rollcall {

// INVALID_ARGUMENT: "FIELD: expected EXPECTED, got FOUND", with `found`
// escaped and cut.
absl::Status Unfit(const char* field, const std::string& expected,
                   std::string_view found);
absl::Status Unfit(const char* field, const std::string& expected,
                   uint64_t found);

// At most `bytes_max` bytes of printable ASCII; may be empty.
absl::Status AdmitPlainText(const char* field, std::string_view text,
                            size_t bytes_max);
// At most 2^62.
absl::Status AdmitGeneration(const char* field, uint64_t generation);
// At most `most`.
absl::Status AdmitCount(const char* field, uint64_t count, uint64_t most);

// A normalized protobuf duration of `least_seconds` (a fraction is fine) to
// `most`.
absl::Status AdmitDuration(const char* field,
                           const google::protobuf::Duration& duration,
                           double least_seconds,
                           absl::Duration most = absl::Hours(24 * 366));

bool IsIpv4(std::string_view text);
bool IsIpv6(std::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_GRAMMAR_H_
