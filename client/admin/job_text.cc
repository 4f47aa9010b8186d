#include "client/admin/job_text.h"

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

// How many names fit in one readable line.
constexpr size_t kNamesShown = 8;

std::string Lower(const std::string& name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string Names(const std::vector<std::string>& names) {
  if (names.size() <= kNamesShown) return absl::StrJoin(names, ", ");
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + kNamesShown, ", "), " and ",
      names.size() - kNamesShown, " more");
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

}  // namespace

std::string Word(v1::ReasonCode code) {
  return Lower(v1::ReasonCode_Name(code), "REASON_CODE_");
}
std::string Word(v1::JobState state) {
  return Lower(v1::JobState_Name(state), "JOB_STATE_");
}
std::string Word(v1::NodeState state) {
  return Lower(v1::NodeState_Name(state), "NODE_STATE_");
}

std::string Counted(uint64_t count, absl::string_view thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

std::string CauseText(const v1::RootCause& cause) {
  const std::string rank =
      absl::StrCat("rank ", cause.rank(), " on ", cause.node());
  switch (cause.code()) {
    case v1::REASON_CODE_RANK_EXIT:
    case v1::REASON_CODE_RANK_COMMUNICATION:
      return absl::StrCat(rank, " exited with code ", cause.value());
    case v1::REASON_CODE_GPU_ERROR:
      return absl::StrCat(rank, " failed with a GPU error, code ",
                          cause.value());
    case v1::REASON_CODE_NOT_STARTED:
      return absl::StrCat(rank, " could not be started (code ", cause.value(),
                          ")");
    case v1::REASON_CODE_RANK_SIGNAL: {
      const char* name = sigabbrev_np(cause.value());
      return absl::StrCat(
          rank, " was ended by signal ", cause.value(),
          name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
    }
    case v1::REASON_CODE_HANG:
      return absl::StrCat(cause.rank() < 0
                              ? "no rank made progress"
                              : absl::StrCat(rank, " made no progress"),
                          cause.detail().empty() ? "" : ": ", cause.detail());
    default:
      return cause.detail().empty()
                 ? absl::StrCat("node ", cause.node(), ": ", Word(cause.code()))
                 : absl::StrCat("node ", cause.node(), ": ", cause.detail());
  }
}

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
  const std::vector<std::string> missing(status.missing().begin(),
                                         status.missing().end());
  const uint64_t count =
      std::max<uint64_t>(status.missing_count(), missing.size());
  if (count == 0 && status.has_fence()) {
    return absl::StrCat("waiting for the ranks of generation ",
                        status.generation(), " to stop");
  }
  if (count == 0) {
    return absl::StrCat(Word(status.state()), " generation ",
                        status.generation());
  }
  std::string text = absl::StrCat("waiting for ", count, " of ",
                                  Counted(status.nodes_max(), "node"));
  if (!missing.empty()) absl::StrAppend(&text, ": ", Names(missing));
  if (!missing.empty() && missing.size() < count) {
    absl::StrAppend(&text, " and ", count - missing.size(), " of any name");
  }
  return text + SeatlessText(status);
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
  return absl::StrCat(Counted(finished, "node"),
                      " finished; still running: ", Names(running));
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
  // What the rank wrote into its error file; other causes have it in `what`.
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
  std::vector<std::string> alive;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_RUNNING) alive.push_back(node.node());
  }
  return absl::StrCat("ranks that still live", alive.empty() ? "" : " on ",
                      Names(alive));
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  return absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
}

}  // namespace rollcall
