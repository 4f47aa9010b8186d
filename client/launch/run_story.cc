#include "client/launch/run_story.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/admin/event_text.h"
#include "client/admin/job_text.h"
#include "client/admin/run_line.h"
#include "daemon/base/durations.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// Without a terminal, a formation is shown only if it takes longer than this.
constexpr absl::Duration kUnpreparedAfter = absl::Seconds(5);
// After this time the nodes that others wait for are named.
constexpr absl::Duration kStragglersAfter = absl::Minutes(1);
constexpr absl::Duration kSummaryAfter = absl::Minutes(1);

// The job's end, from its status.
v1::End EndIn(const v1::JobStatus& status) {
  v1::End end;
  end.set_exit_code(status.exit_code());
  end.set_code(status.end_code());
  end.set_reason(status.end_reason());
  if (status.has_root_cause()) *end.mutable_root_cause() = status.root_cause();
  *end.mutable_causes() = status.causes();
  return end;
}

}  // namespace

RunStory::RunStory(std::string job, bool json, absl::Duration linger)
    : job_(std::move(job)), json_(json), linger_(linger) {}

void RunStory::PutJson(const nlohmann::ordered_json& json) {
  messages_.Put(absl::StrCat(OneLine(json), "\n"));
}

void RunStory::Joinable(const std::string& endpoint,
                        const std::string& join_string,
                        const std::string& join_file, absl::Duration lifetime,
                        const Awaited& awaited) {
  if (json_) {
    PutJson({{"event", "joinable"},
             {"job", job_},
             {"endpoint", endpoint},
             {"join", join_string},
             {"join_file", join_file}});
  } else if (awaited.here < awaited.nodes_max && !taken_back_) {
    line_.Print(absl::StrCat("job ", job_, ": ", NeededText(awaited),
                             "; on each of them:\n\n  rollcall join ",
                             join_string, " -- CMD...\n"));
    if (lifetime != absl::InfiniteDuration()) {
      line_.Print(absl::StrCat("this join string is valid for ",
                               absl::FormatDuration(lifetime),
                               "; a valid one is always in ", join_file));
    }
  }
}

void RunStory::TakenBack(int daemon_pid,
                         const std::vector<std::string>& agents) {
  taken_back_ = true;
  if (json_) {
    nlohmann::ordered_json event = {{"event", "taken_back"}, {"job", job_}};
    if (daemon_pid > 0) event["daemon_pid"] = daemon_pid;
    event["agents"] = agents;
    return PutJson(event);
  }
  line_.Print(absl::StrCat(
      "job ", job_, " goes on: ",
      daemon_pid > 0 ? absl::StrCat("its daemon is process ", daemon_pid)
                     : "its daemon is started again",
      agents.empty()
          ? ""
          : absl::StrCat(
                "; the ranks of ", absl::StrJoin(agents, ", "),
                " run on, and their output goes where it went before")));
}

void RunStory::Heard(v1::JobStatus status, absl::Time now) {
  const bool first = !status_.has_value();
  status_ = std::move(status);
  status_at_ = now;
  steps_.Heard(*status_, now);
  if (json_) PutJson(StatusJson(*status_));
  TellDifferences();
  TellFence();
  TellResumed();
  if (status_->state() == v1::JOB_STATE_FAILED ||
      status_->state() == v1::JOB_STATE_LINGERING) {
    TellLingering();
  }
  const bool forming = status_->state() == v1::JOB_STATE_FORMING;
  if (!forming) forming_since_ = absl::InfiniteFuture();
  if (forming && forming_since_ == absl::InfiniteFuture()) forming_since_ = now;
  if (status_->state() != v1::JOB_STATE_RUNNING) return;
  // On a terminal the live line is replaced anyway.
  if (!line_.terminal()) line_.Clear();
  const uint64_t generation = status_->last_reform().generation();
  if (taken_back_ && first) told_generation_ = generation;
  if (generation > told_generation_) {
    told_generation_ = generation;
    if (!json_) line_.Print(ReformText(*status_));
  }
  const bool waiting = !StragglersText(*status_).empty();
  if (!waiting) stragglers_since_ = absl::InfiniteFuture();
  if (waiting && stragglers_since_ == absl::InfiniteFuture()) {
    stragglers_since_ = now;
  }
}

void RunStory::TellDifferences() {
  std::string table = DifferencesTable(*status_);
  if (table == told_differences_) return;
  told_differences_ = table;
  if (json_ || quiet_ || table.empty()) return;
  line_.Clear();
  table.pop_back();
  line_.Print(table);
}

void RunStory::TellFence() {
  // The message is not repeated when the remaining time shrinks.
  const uint64_t fenced = status_->has_fence() ? status_->generation() : 0;
  const bool told = std::exchange(told_fence_, fenced) == fenced;
  if (told || fenced == 0 || json_ || quiet_) return;
  line_.Clear();
  line_.Print(status_->fence_reason());
}

void RunStory::TellResumed() {
  const uint64_t generation = status_->resumed().generation();
  if (std::exchange(told_resumed_, generation) == generation) return;
  if (generation == 0 || json_ || quiet_) return;
  line_.Clear();
  line_.Print(ResumedText(*status_));
}

void RunStory::TellLingering() {
  const bool kept = linger_ > absl::ZeroDuration() &&
                    status_->end_code() != v1::REASON_CODE_STOPPED &&
                    status_->end_code() != v1::REASON_CODE_REQUEUE;
  if (!kept || quiet_ || told_failure_) return;
  told_failure_ = true;
  line_.Print(FailureText(EndIn(*status_)));
  line_.Print(absl::StrCat(
      LeftAliveText(*status_), " and the daemon are left running for ",
      ShortDuration(status_->has_lingers() ? FromProto(status_->lingers())
                                           : linger_),
      "; Ctrl-C or `rollcall stop --job ", job_, "` ends them at once"));
}

absl::Time RunStory::NextShow(absl::Time now) const {
  absl::Time next = line_.due();
  const bool shown = !json_ && !quiet_ && line_.terminal();
  if (status_ && (shown || status_->state() == v1::JOB_STATE_GATHERING)) {
    // The line shows seconds, so it changes every second.
    next = std::min(next, now + absl::Seconds(1));
  }
  if (forming_since_ != absl::InfiniteFuture()) {
    next = std::min(next, std::max(forming_since_ + kUnpreparedAfter,
                                   now + absl::Seconds(1)));
  }
  if (stragglers_since_ != absl::InfiniteFuture()) {
    const absl::Time named = stragglers_since_ + kStragglersAfter;
    next = std::min(next, std::max(named, now + absl::Seconds(1)));
  }
  return next;
}

void RunStory::Show(absl::Time now) {
  if (!status_ || json_ || quiet_) return;
  if (status_->state() == v1::JOB_STATE_GATHERING) {
    // Short waits are not shown.
    const absl::Duration waited =
        absl::Seconds(status_->waited().seconds()) + (now - status_at_);
    if (waited < absl::Seconds(1)) return;
    const absl::Duration fence =
        FromProto(status_->fence()) - (now - status_at_);
    const uint64_t failed = FailedConnections(*status_);
    if (failed > 0 && failed >= 2 * told_failed_) told_failed_ = failed;
    line_.Show(
        absl::StrCat(
            WaitingText(*status_),
            told_failed_ == 0
                ? ""
                : absl::StrCat("; ", told_failed_,
                               told_failed_ == 1 ? " connection arrived"
                                                 : " connections arrived",
                               " and failed (`rollcall status` "
                               "says how)")),
        status_->has_fence()
            ? absl::StrCat(", at most ",
                           ShortDuration(std::max(fence, absl::ZeroDuration())))
            : absl::StrCat(" (", ShortDuration(waited), ")"));
  } else if (line_.terminal() && !status_->has_exit_code()) {
    line_.ShowOnTerminal([&](size_t columns) {
      return RunLine(*status_, steps_, now, columns);
    });
  } else if (now - forming_since_ >= kUnpreparedAfter &&
             !UnpreparedText(*status_).empty()) {
    line_.Show(UnpreparedText(*status_),
               absl::StrCat(" (", ShortDuration(now - forming_since_), ")"));
  } else if (now - stragglers_since_ >= kStragglersAfter) {
    line_.Show(StragglersText(*status_),
               absl::StrCat(" (", ShortDuration(now - stragglers_since_), ")"));
  }
}

void RunStory::Ended(const std::optional<v1::End>& end, int exit_code,
                     const std::string& why) {
  line_.Clear();
  if (json_) {
    nlohmann::ordered_json last = StatusJson(status_.value_or(v1::JobStatus()));
    last["state"] = end && end->finished() ? "finished" : "failed";
    last["exit_code"] = exit_code;
    last["code"] = end ? Word(end->code()) : "daemon_lost";
    last["reason"] = end ? end->reason() : why;
    PutJson(last);
  }
  if (!end) {
    line_.Print(why.empty() ? "the daemon ended without a message" : why);
  } else if (!end->finished() && !told_failure_) {
    line_.Print(FailureText(*end));
  }
  if (json_ || !status_.has_value()) return;
  // A short run without an interruption has nothing to account for.
  const v1::RunSummary& told = status_->summary();
  if (told.interruption_count() == 0 && told.events_lost() == 0 &&
      FromProto(told.elapsed()) < kSummaryAfter) {
    return;
  }
  const std::string summary = SummaryText(*status_);
  if (!summary.empty()) line_.Print(summary);
}

}  // namespace rollcall
