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
  if (!HasRank(node, stalled.local_rank()) || phase_ != Phase::kRunning ||
      stalled.generation() != generation_ || !node.member() ||
      node.over(stalled.local_rank())) {
    return;
  }
  if (HasBegun(stalled)) NoteStarted(node);
  const uint32_t rank = RankOf(node, stalled.local_rank());
  if (hangs_.Take(rank, node.hello.node(), node.node_rank, stalled, now_,
                  limits_)) {
    SayOf(node, Log::Level::kWarning,
          absl::StrCat("event=stalled generation=", generation_, " rank=", rank,
                       " node=", node.hello.node(), " step=", stalled.step(),
                       " text=", Quoted(stalled.text())));
  }
  // A verdict that is due waits for the next tick, which tells how late the
  // daemon is: messages about the other ranks may still be queued.
  if (now_ < hangs_.due()) MaybeEndHung();
}

// A world has begun to run.
void Job::BeginStarts() {
  std::vector<absl::Duration> took;
  for (const auto& [name, node] : nodes_) {
    if (node.member() && node.start_took) took.push_back(*node.start_took);
  }
  starts_ = Starts(static_cast<size_t>(world_.members_size()), std::move(took));
  if (starts_.expected()) TellRanksLink(MemberSessions());
}

void Job::NoteStarted(Node& node, absl::Duration took) {
  // No start takes longer than the node has been in worlds.
  took = std::min(took, now_ - node.joined_at);
  const bool known = node.start_took.has_value();
  node.start_took = std::max(took, node.start_took.value_or(took));
  if (known || phase_ != Phase::kRunning || !node.member()) return;
  Changed();  // Its first step shows.
  if (!starts_.Add(took)) return;
  Say(Log::Level::kInfo,
      absl::StrCat(
          "event=ranks-link generation=", generation_,
          " start_timeout=", absl::FormatDuration(limits_.start_timeout),
          " starts_took=", absl::FormatDuration(starts_.more())));
  TellRanksLink(MemberSessions());
}

void Job::TellRanksLink(std::vector<SessionId> sessions) {
  if (limits_.start_timeout <= absl::ZeroDuration()) return;
  v1::DaemonMessage message;
  v1::RanksLink& link = *message.mutable_ranks_link();
  link.set_generation(generation_);
  ToProto(limits_.start_timeout + starts_.more(), link.mutable_start_timeout());
  actions_.push_back(Send{std::move(sessions), std::move(message)});
}

// The running generation has published a step.
void Job::NoteStep(Node& node) {
  NoteStarted(node);
  hangs_.NoteStep(generation_);
}

void Job::DropStallsOf(const Node& node) {
  if (hangs_.empty() || !node.member()) return;
  for (uint32_t i = 0; i < node.hello.ranks(); ++i) {
    hangs_.Drop(RankOf(node, i));
  }
}

// Whether ranks of any member have linked or published a step.
bool Job::AnyHasStarted() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
    return entry.second.member() && entry.second.start_took.has_value();
  });
}

Hangs::World Job::HangWorld() const {
  Hangs::World world{generation_, world_.world_size(), ranks_over_, {}};
  for (const auto& [name, node] : nodes_) {
    if (!node.member()) continue;
    world.members.push_back({name, RankOf(node, 0), node.started, node.done,
                             node.start_took.has_value(), node.session == 0,
                             node.tells_until});
  }
  return world;
}

void Job::MaybeEndHung() {
  if (!MayEndHung() ||
      !hangs_.MayJudge(ranks_over_, world_.world_size(), now_)) {
    return;
  }
  const auto hang = hangs_.Judge(HangWorld(), now_, limits_);
  if (!hang.has_value()) return;
  // The time that it has run is not progress here: the ranks may have stalled
  // all along.
  if (HasProgressed()) MadeProgress();
  if (!hang->disbelieved_reason.empty()) {
    Say(Log::Level::kWarning,
        absl::StrCat("event=disbelieved generation=", generation_, " rank=",
                     hang->disbelieved_rank, " node=", hang->disbelieved_node,
                     " reason=", Quoted(hang->disbelieved_reason)));
  }
  GenerationFailed(hang->cause);
}

}  // namespace rollcall
