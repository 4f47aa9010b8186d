#include "client/admin/job_screen.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/admin/job_text.h"
#include "client/admin/run_line.h"
#include "client/admin/text_width.h"

namespace rollcall {
namespace {

// Below this width a table shows only its most important columns.
constexpr size_t kWideColumns = 72;
constexpr size_t kSparklineMax = 60;
constexpr size_t kGenerationsShown = 4;
// Names are cut to this width, because a node's name may have 253 characters.
constexpr size_t kNameColumnsMax = 32;

// A node that attends, or a missing node, of which only the name is known.
struct Row {
  const std::string* node;
  const v1::NodeStatus* status;  // Null: the node is missing.
  bool behind = false;
};

std::string StateOf(const Row& row) {
  if (row.status == nullptr) return "missing";
  return row.behind ? "behind" : Word(row.status->state());
}

// Nodes that need attention come first.
int Urgency(const Row& row) {
  if (row.status == nullptr) return 1;
  if (row.behind) return 3;
  switch (row.status->state()) {
    case v1::NODE_STATE_LOST:
      return 0;
    case v1::NODE_STATE_SUSPECT:
      return 1;
    case v1::NODE_STATE_QUARANTINED:
      return 2;
    case v1::NODE_STATE_DRAINING:
      return 4;
    case v1::NODE_STATE_PREPARING:
    case v1::NODE_STATE_SETTING_UP:
      return 5;
    case v1::NODE_STATE_ATTENDING:
      return 6;
    case v1::NODE_STATE_SPARE:
      return 7;
    case v1::NODE_STATE_FINISHED:
      return 9;
    default:
      return 8;
  }
}

bool IsBad(const Row& row) { return Urgency(row) < 4; }

// Sorts by node rank, nodes without a rank last, then by name.
auto InOrder(const Row& row) {
  return std::tuple(static_cast<uint32_t>(
                        row.status == nullptr ? -1 : row.status->node_rank()),
                    *row.node);
}

std::vector<Row> RowsOf(const v1::JobStatus& status,
                        const std::vector<std::string>& behind) {
  const std::set<std::string> slow(behind.begin(), behind.end());
  std::set<std::string> known;
  std::vector<Row> rows;
  for (const v1::NodeStatus& node : status.nodes()) {
    rows.push_back({&node.node(), &node, slow.contains(node.node())});
    known.insert(node.node());
  }
  for (const std::string& name : status.missing()) {
    if (!known.contains(name)) rows.push_back({&name, nullptr});
  }
  return rows;
}

class Screen {
 public:
  Screen(const v1::JobStatus& status, const JobHistory& history,
         const ScreenSize& size, absl::Time now)
      : status_(status), history_(history), size_(size), now_(now) {}

  std::vector<ScreenLine> Draw(const std::string& notice);

 private:
  size_t left() const {
    return size_.rows - std::min(size_.rows, lines_.size());
  }
  void Add(absl::string_view text, LineStyle style = LineStyle::kPlain) {
    if (left() > 0) lines_.push_back({FitText(text, size_.columns), style});
  }
  void AddLosses();
  void AddTroubles();
  void AddGenerations();
  void AddNodes();
  std::string NodeLine(const Row& row, size_t name_columns) const;

  const v1::JobStatus& status_;
  const JobHistory& history_;
  const ScreenSize size_;
  const absl::Time now_;
  std::vector<ScreenLine> lines_;
};

std::vector<ScreenLine> Screen::Draw(const std::string& notice) {
  Add(absl::StrCat("job ", status_.job(), "  ", Word(status_.state()),
                   "  generation ", status_.generation(), "  ",
                   WorldText(status_)),
      LineStyle::kTitle);
  if (!notice.empty()) Add(notice, LineStyle::kBad);
  Add(RunLine(status_, history_.steps(), now_, size_.columns));
  AddLosses();
  AddTroubles();
  // On a small screen the rows are kept for the nodes.
  if (left() > 2 * kGenerationsShown) AddGenerations();
  AddNodes();
  return std::move(lines_);
}

void Screen::AddLosses() {
  const std::vector<double>& losses = history_.steps().losses();
  if (losses.size() < 2 || size_.rows < 8) return;
  const auto text = [](double loss) { return absl::StrFormat("%.4g", loss); };
  const std::string first = text(losses.front());
  const std::string last = text(losses.back());
  const size_t taken = sizeof("loss    ") + first.size() + last.size();
  if (taken >= size_.columns) return;
  Add(absl::StrCat(
      "loss ", first, " ",
      Sparkline(losses, std::min(kSparklineMax, size_.columns - taken),
                size_.unicode),
      " ", last));
}

void Screen::AddTroubles() {
  if (status_.has_fence()) Add(status_.fence_reason(), LineStyle::kBad);
  for (const v1::Difference& difference : status_.differences()) {
    Add(absl::StrCat("nodes differ in ", difference.fact(), " (",
                     difference.advice(), ")"),
        LineStyle::kBad);
  }
  if (status_.has_root_cause()) {
    Add(absl::StrCat("last failure: ", CauseText(status_.root_cause())),
        LineStyle::kBad);
  }
}

void Screen::AddGenerations() {
  const auto& all = history_.generations();
  if (all.empty()) return;
  Add("");
  Add("GENERATION  FOR           FORMED BECAUSE", LineStyle::kHeading);
  const size_t shown = std::min(kGenerationsShown, all.size());
  for (size_t i = 0; i < shown; ++i) {
    const JobHistory::Generation& generation = all[all.size() - 1 - i];
    const absl::Duration lasted =
        std::min(generation.ended, now_) - generation.began;
    Add(absl::StrFormat(
        "%10d  %-12s  %s", generation.number,
        absl::StrCat(generation.older ? "over " : "", ShortDuration(lasted)),
        generation.reason));
  }
}

std::string Screen::NodeLine(const Row& row, size_t name_columns) const {
  const bool wide = size_.columns >= kWideColumns;
  const v1::NodeStatus none;
  const v1::NodeStatus& node = row.status == nullptr ? none : *row.status;
  const std::string rank = row.status == nullptr || node.node_rank() < 0
                               ? "-"
                               : absl::StrCat(node.node_rank());
  std::string line;
  if (wide) absl::StrAppend(&line, PadText(rank, 5), "  ");
  absl::StrAppend(
      &line, PadText(*row.node, name_columns), "  ", PadText(StateOf(row), 11),
      "  ", PadText(node.step() == 0 ? "-" : absl::StrCat(node.step()), 8));
  if (wide) {
    const std::string lease =
        row.status == nullptr
            ? "-"
            : absl::StrFormat("%.1f s",
                              static_cast<double>(node.lease_ms()) / 1000);
    absl::StrAppend(&line, "  ", PadText(lease, 7), "  ",
                    PadText(node.address(), 15));
  }
  if (!node.reason().empty()) absl::StrAppend(&line, "  ", node.reason());
  return line;
}

void Screen::AddNodes() {
  if (left() < 3) return;
  Add("");
  std::vector<Row> rows = RowsOf(status_, history_.steps().Behind(now_));
  size_t room = left() - 1;  // One row is the heading.
  const bool all = rows.size() <= room;
  if (!all) --room;  // One row counts the hidden nodes.
  const auto first = [&](const Row& a, const Row& b) {
    if (!all && Urgency(a) != Urgency(b)) return Urgency(a) < Urgency(b);
    return InOrder(a) < InOrder(b);
  };
  const auto end = rows.begin() + std::min(room, rows.size());
  std::partial_sort(rows.begin(), end, rows.end(), first);
  size_t name_columns = 4;
  for (auto row = rows.begin(); row != end; ++row) {
    name_columns = std::max(name_columns, TextWidth(FitText(*row->node, 253)));
  }
  name_columns =
      std::min({name_columns, kNameColumnsMax, size_.columns / 3 + 1});
  const bool wide = size_.columns >= kWideColumns;
  Add(absl::StrCat(wide ? "RANK   " : "", PadText("NODE", name_columns),
                   "  STATE        STEP    ",
                   wide ? "  LEASE    ADDRESS        " : ""),
      LineStyle::kHeading);
  for (auto row = rows.begin(); row != end; ++row) {
    Add(NodeLine(*row, name_columns),
        IsBad(*row) ? LineStyle::kBad : LineStyle::kPlain);
  }
  if (all) return;
  std::map<std::string, size_t> others;
  for (auto row = end; row != rows.end(); ++row) ++others[StateOf(*row)];
  Add(absl::StrCat(
      "and ", rows.end() - end, " more: ",
      absl::StrJoin(others, ", ", [](std::string* out, const auto& state) {
        absl::StrAppend(out, state.second, " ", state.first);
      })));
}

}  // namespace

std::string Sparkline(const std::vector<double>& values, size_t columns,
                      bool unicode) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄",
                                            "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {"_", ".", "-", "~",
                                           "=", "+", "*", "#"};
  const size_t count = std::min(columns, values.size());
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * values.size() / count;
    const size_t end = (i + 1) * values.size() / count;
    double sum = 0;
    for (size_t k = begin; k < end; ++k) sum += values[k];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.empty()) return "";
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string line;
  for (const double mean : means) {
    // Each value is halved first, because the difference of two losses may
    // overflow. A mean may overflow too, and then `part` may be NaN.
    const double part = (mean / 2 - *low / 2) / (*high / 2 - *low / 2);
    const size_t level =
        part > 0 ? static_cast<size_t>(std::min(7.0, part * 8)) : 0;
    line += unicode ? kBlocks[level] : kAscii[level];
  }
  return line;
}

std::vector<ScreenLine> JobScreen(const v1::JobStatus& status,
                                  const JobHistory& history,
                                  const ScreenSize& size, absl::Time now,
                                  const std::string& notice) {
  return Screen(status, history, size, now).Draw(notice);
}

}  // namespace rollcall
