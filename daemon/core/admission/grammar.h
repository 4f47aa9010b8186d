// Grammar: the small checks that admission uses, and the text of its refusals.
// Pure; any thread.
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
// `generation` must be at most 2^62.
absl::Status AdmitGeneration(const char* field, uint64_t generation);
// `count` must be at most `most`.
absl::Status AdmitCount(const char* field, uint64_t count, uint64_t most);
// `value` must be from `least` to `most`.
absl::Status AdmitRange(const char* field, int64_t value, int64_t least,
                        int64_t most);
// 1 to `bytes_max` characters of [a-z0-9-].
absl::Status AdmitLowerId(const char* field, std::string_view id,
                          size_t bytes_max);

// A normalized protobuf duration of `least_seconds` (may be a fraction) to
// `most`.
absl::Status AdmitDuration(const char* field,
                           const google::protobuf::Duration& duration,
                           double least_seconds,
                           absl::Duration most = absl::Hours(24 * 366));

// 1 to 63 characters of [a-z0-9-], not beginning or ending with '-'.
absl::Status AdmitJobId(std::string_view job);
// Hostname grammar: labels of [A-Za-z0-9_-], 1 to 63 bytes each, neither
// beginning nor ending with '-', separated by dots; 1 to 253 bytes in total.
absl::Status AdmitNodeName(std::string_view node);
// The text form of an IPv4 or IPv6 address, without zone, prefix or port.
absl::Status AdmitAddress(std::string_view address);
// 1 to Limits::exchange_key_bytes_max characters of printable ASCII.
absl::Status AdmitExchangeKey(std::string_view key);

bool IsIpv4(std::string_view text);
bool IsIpv6(std::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_GRAMMAR_H_
