// Thresholds: what a check demands, as data: flags, or a file of the same
// names.
//
// Pure. The file's text is somebody's input: nothing in it is believed
// unchecked.
#ifndef ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_
#define ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

enum class RequiredNet { kAny, kInfiniband, kSocket };

// What is not set is not demanded, but that without a required net no node
// that has a faster one may have fallen back to TCP.
struct Thresholds {
  std::optional<RequiredNet> require_net;
  std::optional<double> min_busbw_gbps;  // Of the largest all-reduce.
  std::optional<double> max_latency_us;  // Median between any two neighbours.
  // So many times the median of its like makes a link an outlier.
  std::optional<double> link_outlier;

  friend bool operator==(const Thresholds&, const Thresholds&) = default;
};

inline constexpr double kLinkOutlierDefault = 4;
// Numbers lie between these.
inline constexpr double kThresholdLeast = 1e-9, kThresholdMost = 1e12;

// "any", "ib", "socket". INVALID_ARGUMENT: something else.
absl::StatusOr<RequiredNet> ParseRequiredNet(absl::string_view text);

// One JSON object with any of "require-net", "min-busbw", "max-latency" and
// "link-outlier". INVALID_ARGUMENT names what is wrong in `name`.
absl::StatusOr<Thresholds> ParseThresholds(absl::string_view name,
                                           absl::string_view json);

// Those of `first`, and where it has none, those of `second`.
Thresholds Merge(const Thresholds& first, const Thresholds& second);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_
