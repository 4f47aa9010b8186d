#include "daemon/core/job/acts/first_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
void BeginStarts(JobState& job) {
  job.steps.Begin(job.world(), job.vetting.probes().results());
  job.starts = Starts(job.world(), job.membership);
  if (job.starts.expected())
    TellRanksLink(job, job.membership.StreamsOf(job.world()));
}

void NoteStarted(JobState& job, Node& node, absl::Duration took) {
  // The agent has attended again and has not been in a world since, so nothing
  // bounds the time that it reports. It reports the time again in a world.
  if (node.joined_at == absl::InfiniteFuture()) return;
  // A start takes no longer than the node has been in worlds.
  took = std::min(took, job.now - node.joined_at);
  const bool known = node.ranks.start_took.has_value();
  node.ranks.start_took = std::max(took, node.ranks.start_took.value_or(took));
  if (known || !job.IsRunning() || !node.member()) return;
  job.out.Changed();  // Status shows the node's first step.
  if (!job.starts.Add(took)) return;
  job.out.Say(
      Log::Level::kInfo,
      absl::StrCat(
          "event=ranks-link generation=", job.generation(),
          " start_timeout=", absl::FormatDuration(job.limits.start_timeout),
          " starts_took=", absl::FormatDuration(job.starts.more())));
  TellRanksLink(job, job.membership.StreamsOf(job.world()));
}

void TellRanksLink(JobState& job, std::vector<SessionId> sessions) {
  if (job.limits.start_timeout <= absl::ZeroDuration()) return;
  v1::DaemonMessage message;
  v1::RanksLink& link = *message.mutable_ranks_link();
  link.set_generation(job.generation());
  ToProto(job.limits.start_timeout + job.starts.more(),
          link.mutable_start_timeout());
  job.out.SendTo(std::move(sessions), std::move(message));
}

}  // namespace rollcall
