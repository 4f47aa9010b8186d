// How long `status --watch` waits for a daemon that answers.
#ifndef ROLLCALL_CLIENT_CLI_WATCH_PATIENCE_H_
#define ROLLCALL_CLIENT_CLI_WATCH_PATIENCE_H_

#include "absl/time/time.h"

namespace rollcall {

// Longer than a daemon needs for a takeover or a restart.
inline constexpr absl::Duration kWatchPatience = absl::Seconds(30);
// The pause between two attempts doubles.
inline constexpr absl::Duration kWatchPauseFirst = absl::Milliseconds(100);
inline constexpr absl::Duration kWatchPauseMax = absl::Seconds(1);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_WATCH_PATIENCE_H_
