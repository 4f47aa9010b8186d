// Thresholds: the requirements of a check, from flags or from a file with the
// same names.
//
// Pure. The file is untrusted input: everything in it is checked.
#ifndef ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_
#define ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// The network that all ranks must use, in lower case: "any", "ib", "socket",
// "efa", or another network by its name in NCCL's log.
using RequiredNet = std::string;

// A threshold that is not set is not checked, with two exceptions: link_outlier
// has a default, and without a required net, a node that has a faster network
// must not have fallen back to TCP.
struct Thresholds {
  std::optional<RequiredNet> require_net;
  std::optional<double> min_busbw_gbps;  // For the largest all-reduce.
  std::optional<double> max_latency_us;  // The median between any two
                                         // neighbours.
  // A link is an outlier if its time is more than this many times the median of
  // similar links.
  std::optional<double> link_outlier;

  friend bool operator==(const Thresholds&, const Thresholds&) = default;
};

inline constexpr double kLinkOutlierDefault = 4;
// Numbers must be between these.
inline constexpr double kThresholdMin = 1e-9, kThresholdMax = 1e12;

inline constexpr char kAnyNet[] = "any";
inline constexpr size_t kNetNameMax = 32;

// Upper and lower case are accepted. INVALID_ARGUMENT: not 1 to kNetNameMax
// printable characters other than '+' and '/'; or tcp, infiniband or roce,
// because NCCL uses none of these names.
absl::StatusOr<RequiredNet> ParseRequiredNet(absl::string_view text);

// Parses one JSON object with any of "require-net", "min-busbw", "max-latency"
// and "link-outlier". INVALID_ARGUMENT: the message has the error and `name`.
absl::StatusOr<Thresholds> ParseThresholds(absl::string_view name,
                                           absl::string_view json);

// The values of `first`; if a value is not set there, that of `second`.
Thresholds Merge(const Thresholds& first, const Thresholds& second);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_THRESHOLDS_H_
