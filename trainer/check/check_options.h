// CheckOptions: the options of `rollcall-train --check`, and how its flags are
// parsed.
//
// The input comes from a user, so nothing in it may reach a CHECK.
#ifndef ROLLCALL_TRAINER_CHECK_CHECK_OPTIONS_H_
#define ROLLCALL_TRAINER_CHECK_CHECK_OPTIONS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/check/thresholds.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rollcall {

struct CheckOptions {
  bool enabled = false;
  size_t min_bytes = 8;
  // 0: the default for the kind of memory, see DefaultMaxBytes.
  size_t max_bytes = 0;
  size_t step_factor = 4;
  int warmup = 5;
  int iterations = 20;
  int trips = 200;
  bool json = false;
  Thresholds thresholds;
};

inline constexpr size_t kCheckBytesMin = 4;
inline constexpr size_t kCheckBytesMax = size_t{64} << 30;

inline size_t DefaultMaxBytes(bool device) {
  return size_t{device ? 1024u : 8u} << 20;
}

// "4096", "64K", "8M" or "1G", in units of 1024.
absl::StatusOr<size_t> ParseBytes(absl::string_view text);

// Holds the texts of the flags until all are parsed.
class CheckFlags {
 public:
  // This object must outlive the parsing.
  void AddTo(CLI::App& app, CheckOptions* options);
  // Call it after parsing. Converts the flags and reads the thresholds' file. A
  // flag takes precedence over the file. INVALID_ARGUMENT, NOT_FOUND: the
  // message names the flag and its value.
  absl::Status Apply(CheckOptions* options) const;
  // Whether --check uses the option: it is one of its own, or one that it
  // shares with the training.
  static bool Takes(const CLI::Option& option);

 private:
  std::string min_bytes_, max_bytes_, step_factor_, iterations_, warmup_,
      trips_, require_net_, min_busbw_, max_latency_, link_outlier_,
      thresholds_file_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_CHECK_OPTIONS_H_
