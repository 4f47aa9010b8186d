#include "tests/sim/checker/hang_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall::sim {

void HangChecks::OnSaid(const std::string& node,
                        const v1::AgentMessage& message) {
  if (message.has_rank_exited()) {
    const v1::RankExited& exited = message.rank_exited();
    stalls_.erase({exited.generation(), node, exited.local_rank()});
  }
  if (message.heartbeat().ranks_link()) have_started_.insert(node);
  if (message.heartbeat().step() > 0) {
    stepped_in_ = std::max(stepped_in_, message.heartbeat().generation());
  }
  if (message.has_heartbeat()) {
    std::erase_if(stalls_, [&](const auto& entry) {
      return entry.first.node == node && entry.second.to_say_again;
    });
  }
  if (!message.has_rank_stalled()) return;
  const v1::RankStalled& stalled = message.rank_stalled();
  const Rank rank{stalled.generation(), node, stalled.local_rank()};
  if (stalled.goes_on()) {
    stalls_.erase(rank);
  } else {
    const bool linked = stalled.has_answered();
    const bool begun = linked || stalled.step() > 0;
    if (begun) have_started_.insert(node);
    const int nccl = stalled.has_collective_entered()          ? 0
                     : stalled.nccl() == v1::NCCL_PLACE_BEHIND ? -1
                     : stalled.nccl() == v1::NCCL_PLACE_WAITS  ? 1
                                                               : 0;
    stalls_[rank] =
        Stall{{!stalled.stopped(), begun, !linked || stalled.answered(), nccl,
               linked ? stalled.collective_entered() : UINT64_MAX}};
  }
}

void HangChecks::OnAttended(const std::string& node, absl::Time now) {
  for (auto& [rank, stall] : stalls_) {
    if (rank.node != node) continue;
    stall.to_say_again = true;
    stall.attended_at = now;
  }
}

void HangChecks::OnDaemonDied() {
  stalls_.clear();
  stepped_in_ = 0;
}

Finding HangChecks::Check(const v1::Reform& reform,
                          const std::optional<v1::World>& world, bool isolated,
                          absl::Time now) const {
  bool told = false;
  std::optional<Place> first;   // Furthest behind of all.
  std::optional<Place> blamed;  // The same, on the blamed node.
  // The nodes with stopped ranks; if there are none, with ranks that have not
  // begun. `others`: some ranks are further than those.
  std::set<std::string> last_nodes;
  std::optional<std::pair<bool, bool>> last;
  bool others = false;
  const bool expected = (!world.has_value() || MostHaveStarted(*world)) &&
                        stepped_in_ != reform.generation();
  for (const auto& [rank, stall] : stalls_) {
    if (rank.generation != reform.generation()) continue;
    if (!expected && !stall.place.begun) continue;
    const bool here = rank.node == reform.node();
    told = told || here || reform.node().empty();
    if (!stall.Counts(now, lease_)) continue;
    const Place& place = stall.place;
    first = first.has_value() ? std::min(*first, place) : place;
    const std::pair<bool, bool> stage(place.runs, place.begun);
    others = others || (last.has_value() && stage != *last);
    if (!last.has_value() || stage < *last) last_nodes.clear();
    if (!last.has_value() || stage <= *last) {
      last = stage;
      last_nodes.insert(rank.node);
    }
    if (!here) continue;
    blamed = blamed.has_value() ? std::min(*blamed, place) : place;
  }
  const bool innocent = blamed.has_value() && *first < *blamed;
  const bool one_is_last = others && last_nodes.size() == 1;
  const bool nobody = one_is_last && reform.node().empty();
  Finding finding{one_is_last ? 2 : 1, ""};
  if (!told || innocent || isolated || nobody) {
    finding.broken =
        absl::StrCat("generation ", reform.generation(), " ended by ",
                     reform.ShortDebugString(), ", isolated: ", isolated,
                     innocent ? ", and another one is further behind" : "",
                     nobody ? absl::StrCat(", and only ", *last_nodes.begin(),
                                           " is stopped or has not begun")
                            : "");
  }
  return finding;
}

bool HangChecks::MostHaveStarted(const v1::World& world) const {
  const auto started = std::count_if(
      world.members().begin(), world.members().end(),
      [&](const v1::Member& m) { return have_started_.contains(m.node()); });
  return started * 2 > world.members_size();
}

}  // namespace rollcall::sim
