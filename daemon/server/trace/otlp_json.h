// OTLP/JSON: the parts of spans in OpenTelemetry's JSON encoding. Ids are
// digests as hexadecimal digits, 64-bit numbers are strings, enums are numbers.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_TRACE_OTLP_JSON_H_
#define ROLLCALL_DAEMON_SERVER_TRACE_OTLP_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"

namespace rollcall {

// Numbers of SpanKind INTERNAL, StatusCode OK and ERROR.
inline constexpr int kOtlpInternal = 1;
inline constexpr int kOtlpOk = 1;
inline constexpr int kOtlpError = 2;

std::string OtlpTime(absl::Time time);

nlohmann::ordered_json OtlpAttribute(const std::string& key,
                                     const std::string& value);
nlohmann::ordered_json OtlpAttribute(const std::string& key, uint64_t value);

// The id of a run's trace, of the run's span, which is the trace's root, and of
// another span; `text` must differ for each of these.
std::string OtlpTraceId(const std::string& run);
std::string OtlpRunSpanId(const std::string& run);
std::string OtlpSpanId(const std::string& text);

// One line: an export request with these spans, as the OpenTelemetry
// collector's file exporter writes and its file receiver reads.
std::string OtlpRequest(nlohmann::ordered_json spans);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_OTLP_JSON_H_
