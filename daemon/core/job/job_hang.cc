// Job: input to Hangs and Starts, and the consequences of their decisions.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::OnRankStalled(Node& node, const v1::RankStalled& stalled) {
  if (!HasRank(node, stalled.local_rank()) || !IsRunning() ||
      stalled.generation() != generation() || !node.member() ||
      node.over(stalled.local_rank())) {
    return;
  }
  if (HasBegun(stalled)) NoteStarted(node);
  const uint32_t rank = RankOf(node, stalled.local_rank());
  if (hangs_.Take(rank, node.name(), node.node_rank, stalled, now_, limits_)) {
    out_.SayOf(node, Log::Level::kWarning,
               absl::StrCat("event=stalled generation=", generation(),
                            " rank=", rank, " node=", node.name(), " step=",
                            stalled.step(), " text=", Quoted(stalled.text())));
  }
  // If the verdict is due, it waits for the next Tick. The Tick tells how late
  // the daemon is: reports about other ranks may still be queued.
  if (now_ < hangs_.due()) MaybeEndHung();
}

// A world has begun to run.
void Job::BeginStarts() {
  steps_.Begin(world(), vetting_.probes().results());
  starts_ = Starts(world(), membership_);
  if (starts_.expected()) TellRanksLink(membership_.StreamsOf(world()));
}

void Job::NoteStarted(Node& node, absl::Duration took) {
  // The agent has attended again and has not been in a world since, so nothing
  // bounds the time that it reports. It reports the time again in a world.
  if (node.joined_at == absl::InfiniteFuture()) return;
  // A start takes no longer than the node has been in worlds.
  took = std::min(took, now_ - node.joined_at);
  const bool known = node.start_took.has_value();
  node.start_took = std::max(took, node.start_took.value_or(took));
  if (known || !IsRunning() || !node.member()) return;
  out_.Changed();  // Status shows the node's first step.
  if (!starts_.Add(took)) return;
  out_.Say(Log::Level::kInfo,
           absl::StrCat(
               "event=ranks-link generation=", generation(),
               " start_timeout=", absl::FormatDuration(limits_.start_timeout),
               " starts_took=", absl::FormatDuration(starts_.more())));
  TellRanksLink(membership_.StreamsOf(world()));
}

void Job::TellRanksLink(std::vector<SessionId> sessions) {
  if (limits_.start_timeout <= absl::ZeroDuration()) return;
  v1::DaemonMessage message;
  v1::RanksLink& link = *message.mutable_ranks_link();
  link.set_generation(generation());
  ToProto(limits_.start_timeout + starts_.more(), link.mutable_start_timeout());
  out_.SendTo(std::move(sessions), std::move(message));
}

void Job::MaybeEndHung() {
  if (!MayEndHung() ||
      !hangs_.MayJudge(completion_.ranks_over(), world().world_size(), now_)) {
    return;
  }
  const auto hang = hangs_.Judge(
      Hangs::World::Of(world(), completion_, membership_), now_, limits_);
  if (!hang.has_value()) return;
  // Here running for some time is not progress: the ranks may have stalled
  // since their start.
  if (HasProgressed(membership_)) MadeProgress();
  if (!hang->disbelieved_reason.empty()) {
    out_.Say(Log::Level::kWarning,
             absl::StrCat("event=disbelieved generation=", generation(),
                          " rank=", hang->disbelieved_rank,
                          " node=", hang->disbelieved_node,
                          " reason=", Quoted(hang->disbelieved_reason)));
  }
  GenerationFailed(hang->cause);
}

}  // namespace rollcall
