// CheckOptions: what `rollcall-train --check` is told, and how its flags are
// read.
//
// What it reads is a user's: nothing in it reaches a CHECK.
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
}  // namespace CLI

namespace rollcall {

struct CheckOptions {
  bool enabled = false;
  size_t min_bytes = 8;
  // 0: what is usual for the memory, see DefaultMaxBytes.
  size_t max_bytes = 0;
  size_t step_factor = 4;
  int warmup = 5;
  int iterations = 20;
  int trips = 200;
  bool json = false;
  Thresholds thresholds;
};

inline constexpr size_t kCheckBytesLeast = 4;
inline constexpr size_t kCheckBytesMost = size_t{64} << 30;

inline size_t DefaultMaxBytes(bool device) {
  return size_t{device ? 64u : 8u} << 20;
}

// "4096", "64K", "8M" or "1G", of 1024 each.
absl::StatusOr<size_t> ParseBytes(absl::string_view text);

// The flags as they are typed, until they are all known.
class CheckFlags {
 public:
  // This object must outlive the parsing.
  void AddTo(CLI::App& app, CheckOptions* options);
  // After the parsing: reads what was typed, and the thresholds' file. A flag
  // counts before the file. INVALID_ARGUMENT, NOT_FOUND: names flag and value.
  absl::Status Settle(CheckOptions* options) const;

 private:
  std::string min_bytes_, max_bytes_, step_factor_, iterations_, warmup_,
      trips_, require_net_, min_busbw_, max_latency_, link_outlier_,
      thresholds_file_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_CHECK_OPTIONS_H_
