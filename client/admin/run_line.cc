#include "client/admin/run_line.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/admin/job_text.h"
#include "client/admin/text_width.h"
#include "daemon/base/counted.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

constexpr size_t kBarMin = 12;
constexpr size_t kBarMax = 32;
constexpr size_t kTroubleNames = 3;
constexpr absl::string_view kGap = "  ";

// A part of the line. If two parts do not fit, the one with the lower `rank`
// stays.
struct Part {
  int rank;
  std::string text;
};

// The parts that fit, in their order.
std::string Join(std::vector<Part> parts, size_t columns) {
  std::vector<const Part*> by_rank;
  for (const Part& part : parts) {
    if (!part.text.empty()) by_rank.push_back(&part);
  }
  std::sort(by_rank.begin(), by_rank.end(),
            [](const Part* a, const Part* b) { return a->rank < b->rank; });
  std::vector<const Part*> kept;
  size_t width = 0;
  for (const Part* part : by_rank) {
    const size_t more =
        TextWidth(part->text) + (kept.empty() ? 0 : kGap.size());
    // The most important part is cut if it does not fit; other parts are left
    // out.
    if (!kept.empty() && width + more > columns) continue;
    width += more;
    kept.push_back(part);
  }
  std::sort(kept.begin(), kept.end());  // They point into one vector.
  return FitText(absl::StrJoin(kept, kGap,
                               [](std::string* out, const Part* part) {
                                 out->append(part->text);
                               }),
                 columns);
}

std::string LossText(double loss) {
  return std::abs(loss) < 1e4 ? absl::StrFormat("%.4f", loss)
                              : absl::StrFormat("%.3g", loss);
}

std::string Bar(double done, size_t columns) {
  const size_t width = columns - 2;
  const size_t filled = static_cast<size_t>(static_cast<double>(width) * done);
  return absl::StrCat("[", std::string(filled, '#'),
                      std::string(width - filled, '-'), "]");
}

// A text such as `a, b are silent`; empty: there are no names.
std::string NamesText(std::vector<std::string> names, absl::string_view one,
                      absl::string_view several) {
  if (names.empty()) return "";
  const absl::string_view verb = names.size() == 1 ? one : several;
  return absl::StrCat(NameList(std::move(names), kTroubleNames), " ", verb);
}

uint64_t CountSeated(const v1::JobStatus& status) {
  return std::count_if(
      status.nodes().begin(), status.nodes().end(),
      [](const v1::NodeStatus& node) { return node.node_rank() >= 0; });
}

// The node whose loss ended the last world, as long as its seat is empty.
std::vector<std::string> LostBefore(const v1::JobStatus& status) {
  const v1::Reform& reform = status.last_reform();
  const bool lost = reform.code() == v1::REASON_CODE_LOST_STREAM ||
                    reform.code() == v1::REASON_CODE_LOST_LEASE;
  if (!lost || reform.node().empty() ||
      CountSeated(status) >= status.nodes_max()) {
    return {};
  }
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node() == reform.node() && node.node_rank() >= 0) return {};
  }
  return {reform.node()};
}

}  // namespace

std::string ShortNumber(double value) {
  return std::abs(value) < 1e6 ? absl::StrFormat("%.0f", value)
                               : absl::StrFormat("%.3g", value);
}

std::string WorldText(const v1::JobStatus& status) {
  const uint64_t seated = CountSeated(status);
  return absl::StrCat(
      Counted(status.world_size(), "rank"), " on ",
      seated < status.nodes_max()
          ? absl::StrCat(seated, " of ", Counted(status.nodes_max(), "node"))
          : Counted(seated, "node"));
}

std::string TroubleText(const v1::JobStatus& status, const StepTrack& track,
                        absl::Time now) {
  std::vector<std::string> silent, lost = LostBefore(status);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_SUSPECT) silent.push_back(node.node());
    if (node.state() == v1::NODE_STATE_LOST &&
        std::count(lost.begin(), lost.end(), node.node()) == 0) {
      lost.push_back(node.node());
    }
  }
  const absl::Duration stalled = track.Stalled(now);
  std::vector<std::string> parts = {
      NamesText(std::move(lost), "is missing", "are missing"),
      NamesText(std::move(silent), "is silent", "are silent"),
      NamesText(track.Behind(now), "is behind", "are behind"),
      StragglersText(status),
      stalled > absl::ZeroDuration()
          ? absl::StrCat("no step for ", ShortDuration(stalled))
          : ""};
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return absl::StrJoin(parts, "; ");
}

std::string RunLine(const v1::JobStatus& status, const StepTrack& track,
                    absl::Time now, size_t columns) {
  const std::string trouble = TroubleText(status, track, now);
  if (status.state() == v1::JOB_STATE_GATHERING) {
    return FitText(WaitingText(status), columns);
  }
  if (std::string forming = UnpreparedText(status); !forming.empty()) {
    return Join({{1, std::move(forming)}, {3, WorldText(status)}, {2, trouble}},
                columns);
  }
  const std::string generation =
      absl::StrCat("generation ", status.generation());
  if (status.state() != v1::JOB_STATE_RUNNING || status.step() == 0) {
    return Join({{1, Word(status.state())},
                 {3, WorldText(status)},
                 {4, generation},
                 {2, trouble}},
                columns);
  }
  const v1::Pace& pace = status.pace();
  // A rank may publish more steps than it has announced.
  const bool bounded = pace.steps() >= status.step();
  const double done = bounded ? static_cast<double>(status.step()) /
                                    static_cast<double>(pace.steps())
                              : 0;
  const absl::Duration left =
      bounded ? track.Left(now) : absl::InfiniteDuration();
  const std::string bar = bounded ? Bar(done, kBarMin) : "";
  const std::string line = Join(
      {{6, bar},
       {2, bounded ? absl::StrCat(status.step(), "/", pace.steps())
                   : absl::StrCat("step ", status.step())},
       {7, bounded ? absl::StrFormat("%.0f%%", std::floor(100 * done)) : ""},
       {3,
        status.has_pace() ? absl::StrCat("loss ", LossText(pace.loss())) : ""},
       {8, pace.has_validation_loss()
               ? absl::StrCat("validation ", LossText(pace.validation_loss()))
               : ""},
       {11, pace.has_gradient_norm()
                ? absl::StrFormat("norm %.3g", pace.gradient_norm())
                : ""},
       {5,
        status.has_pace()
            ? absl::StrCat(ShortNumber(pace.tokens_per_second()), " tokens/s")
            : ""},
       {4, left == absl::InfiniteDuration()
               ? ""
               : absl::StrCat(ShortDuration(left), " left")},
       {9, WorldText(status)},
       {10, generation},
       {1, trouble}},
      columns);
  if (bar.empty() || !absl::StartsWith(line, bar)) return line;
  // The bar takes the remaining columns.
  const size_t room = kBarMin + columns - TextWidth(line);
  return absl::StrCat(Bar(done, std::min(room, kBarMax)),
                      line.substr(bar.size()));
}

}  // namespace rollcall
