// JobScreen: a job as the lines of a full screen, for `status --watch` on a
// terminal.
//
// Texts from nodes are shown without control characters.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_JOB_SCREEN_H_
#define ROLLCALL_CLIENT_ADMIN_JOB_SCREEN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/admin/job_history.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

struct ScreenSize {
  size_t rows = 24;
  size_t columns = 80;
  // The terminal shows UTF-8.
  bool unicode = false;

  bool operator==(const ScreenSize&) const = default;
};

enum class LineStyle { kPlain, kTitle, kHeading, kBad };

struct ScreenLine {
  std::string text;
  LineStyle style = LineStyle::kPlain;

  bool operator==(const ScreenLine&) const = default;
};

// At most `size.rows` lines, none wider than `size.columns`. If there are more
// nodes than rows, the nodes that need attention come first, and the hidden
// ones are counted. `notice`: a message of the viewer itself; empty: none.
std::vector<ScreenLine> JobScreen(const v1::JobStatus& status,
                                  const JobHistory& history,
                                  const ScreenSize& size, absl::Time now,
                                  const std::string& notice = "");

// The values as at most `columns` characters. Each character shows the mean of
// the same number of values.
std::string Sparkline(const std::vector<double>& values, size_t columns,
                      bool unicode);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_JOB_SCREEN_H_
