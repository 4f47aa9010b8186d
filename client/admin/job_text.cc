#include "client/admin/job_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/base/counted.h"
#include "daemon/base/text/awaited_text.h"
#include "daemon/base/text/name_list.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// How many names fit in one readable line.
constexpr size_t kNamesShown = 8;

// The number of nodes that attend and may get a seat.
uint64_t Here(const v1::JobStatus& status) {
  // The daemon counts these nodes exactly, and sends how many are missing.
  if (status.missing_count() > 0) {
    return std::max(status.nodes_min(), status.missing_count()) -
           status.missing_count();
  }
  return std::count_if(status.nodes().begin(), status.nodes().end(),
                       [](const v1::NodeStatus& node) {
                         return node.state() == v1::NODE_STATE_ATTENDING ||
                                node.state() == v1::NODE_STATE_PREPARING ||
                                node.state() == v1::NODE_STATE_RUNNING;
                       });
}

// Attending nodes that get no seat, with the reason of the first.
std::string SeatlessText(const v1::JobStatus& status) {
  if (status.state() != v1::JOB_STATE_GATHERING) return "";
  std::string text;
  size_t more = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    const bool seatless = node.state() == v1::NODE_STATE_SPARE ||
                          node.state() == v1::NODE_STATE_QUARANTINED;
    if (!seatless || node.reason().empty()) continue;
    if (text.empty()) {
      text = absl::StrCat("; ", node.node(), " gets no seat: ", node.reason());
    } else {
      ++more;
    }
  }
  return more == 0 ? text : absl::StrCat(text, " (and ", more, " more)");
}

// "; 2 nodes probe each other"; empty: they do nothing.
std::string AwaitsText(const v1::JobStatus& status) {
  if (status.awaits().empty()) return "";
  return absl::StrCat(
      "; ", Printable(status.awaits(), Limits::node_reason_bytes_max));
}

// "; the set-up command runs on a, b"; empty: on no node.
std::string SettingUpText(const v1::JobStatus& status) {
  std::vector<std::string> names;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_SETTING_UP) names.push_back(node.node());
  }
  return names.empty() ? ""
                       : absl::StrCat("; the set-up command runs on ",
                                      NameList(std::move(names), kNamesShown));
}

}  // namespace

uint64_t FailedConnections(const v1::JobStatus& status) {
  const v1::UnauthenticatedCounts& all = status.unauthenticated();
  return all.silent() + all.garbage() + all.crowded() + all.unknown() +
         all.hung_up();
}

std::string FailedText(const v1::JobStatus& status) {
  const v1::UnauthenticatedCounts& all = status.unauthenticated();
  const struct {
    uint64_t count;
    const char* how;
  } kHows[] = {
      {all.hung_up(), "closed by the peer"},
      {all.silent(), "silent"},
      {all.garbage(), "no TLS"},
      {all.crowded(), "too many at once"},
      {all.unknown(), "without credentials"},
  };
  std::vector<std::string> parts;
  for (const auto& [count, how] : kHows) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", how));
  }
  if (parts.empty()) return "";
  return absl::StrCat("connections that failed before joining: ",
                      absl::StrJoin(parts, ", "));
}

std::string WaitingText(const v1::JobStatus& status) {
  if (status.missing_count() == 0 && status.has_fence()) {
    return absl::StrCat("waiting for the ranks of generation ",
                        status.generation(), " to stop");
  }
  const Awaited awaited = {
      .here = Here(status),
      .nodes_min = status.nodes_min(),
      .nodes_max = status.nodes_max(),
      .missing = {status.missing().begin(), status.missing().end()}};
  if (awaited.here >= awaited.nodes_max) {
    return absl::StrCat(Word(status.state()), " generation ",
                        status.generation(), AwaitsText(status));
  }
  return absl::StrCat("waiting: ", AwaitedText(awaited), AwaitsText(status),
                      SettingUpText(status), SeatlessText(status));
}

std::string UnpreparedText(const v1::JobStatus& status) {
  if (status.state() != v1::JOB_STATE_FORMING) return "";
  std::vector<std::string> unprepared;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.has_prepared() && !node.prepared()) {
      unprepared.push_back(node.node());
    }
  }
  if (unprepared.empty()) return "";
  return absl::StrCat(
      "forming generation ", status.generation(),
      "; not prepared yet: ", NameList(std::move(unprepared), kNamesShown));
}

std::string StragglersText(const v1::JobStatus& status) {
  std::vector<std::string> running;
  size_t finished = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_FINISHED) ++finished;
    if (node.state() == v1::NODE_STATE_RUNNING ||
        node.state() == v1::NODE_STATE_SUSPECT) {
      running.push_back(node.node());
    }
  }
  if (finished == 0 || running.empty()) return "";
  return absl::StrCat(Counted(finished, "node"), " finished; ",
                      StillRunningText(running));
}

std::string ReformText(const v1::JobStatus& status) {
  uint64_t seated = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node_rank() >= 0) ++seated;
  }
  const v1::Reform& reform = status.last_reform();
  return absl::StrCat(
      "generation ", reform.generation(), ": ",
      reform.reason().empty() ? Word(reform.code()) : reform.reason(), "; ",
      Counted(seated, "node"), ", ", Counted(status.world_size(), "rank"));
}

std::string FailureText(const v1::End& end) {
  if (!end.has_root_cause()) {
    return end.reason().empty()
               ? absl::StrCat("the run failed: ", Word(end.code()))
               : end.reason();
  }
  const v1::RootCause& cause = end.root_cause();
  const std::string what = CauseText(cause);
  // The reason often contains this text already.
  const bool said = absl::StartsWith(end.reason(), what);
  std::string text = said ? end.reason() : what;
  // The text of the rank's error file. For other causes `what` contains it.
  if (!cause.detail().empty() && !absl::StrContains(what, cause.detail())) {
    absl::StrAppend(&text, ": ", cause.detail());
  }
  for (absl::string_view line :
       absl::StrSplit(cause.stderr_tail(), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "\n  | ", line);
  }
  if (!said && !end.reason().empty()) {
    absl::StrAppend(&text, "\n", end.reason());
  }
  return text;
}

std::string LeftAliveText(const v1::JobStatus& status) {
  if (status.end_code() == v1::REASON_CODE_SETUP) return "all agents";
  std::vector<std::string> alive;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_RUNNING) alive.push_back(node.node());
  }
  return absl::StrCat("ranks that still live", alive.empty() ? "" : " on ",
                      NameList(alive, kNamesShown));
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  const int64_t minutes = seconds / 60;
  if (minutes < 120) return absl::StrCat(minutes, " min ", seconds % 60, " s");
  return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

}  // namespace rollcall
