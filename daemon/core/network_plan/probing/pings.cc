#include "daemon/core/network_plan/probing/pings.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/durations.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// One direction of a pair, by node ranks.
struct PingFound {
  uint32_t from;
  uint32_t to;
  const ProbeFinding* finding;
  absl::Time at;
};

const ProbeFinding& NotReached() {
  static const ProbeFinding kNone;
  return kNone;
}

std::vector<PingFound> PingsFound(const v1::World& world,
                                  const Probing& probing) {
  std::map<std::string_view, uint32_t> ranks;
  for (const v1::Member& member : world.members()) {
    ranks[member.node()] = member.node_rank();
  }
  std::vector<PingFound> pings;
  // The world's members use 127.0.0.1, which no other machine can probe.
  if (world.one_machine()) return pings;
  for (const v1::Member& target : world.members()) {
    const auto* by = probing.Of(target.node());
    if (by == nullptr) continue;
    for (const auto& [prober, report] : *by) {
      const auto rank = ranks.find(prober);
      if (rank == ranks.end() || !report.answered) continue;
      const auto found = report.found.find(target.address());
      pings.push_back(
          {rank->second, target.node_rank(),
           found == report.found.end() ? &NotReached() : &found->second,
           report.at});
    }
  }
  return pings;
}

}  // namespace

v1::Pings PingsOf(const v1::World& world, const Probing& probing,
                  absl::Time now) {
  std::vector<PingFound> found = PingsFound(world, probing);
  v1::Pings pings;
  for (const v1::Member& member : world.members()) {
    pings.add_nodes(member.node());
  }
  pings.set_pairs(static_cast<uint32_t>(found.size()));
  pings.set_unreached(static_cast<uint32_t>(std::count_if(
      found.begin(), found.end(),
      [](const PingFound& ping) { return !ping.finding->reached; })));
  if (found.empty()) return pings;
  const absl::Time oldest =
      std::min_element(
          found.begin(), found.end(),
          [](const PingFound& a, const PingFound& b) { return a.at < b.at; })
          ->at;
  ToProto(now - oldest, pings.mutable_age());
  const size_t shown = std::min(found.size(), Limits::pings_shown_max);
  std::partial_sort(
      found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown),
      found.end(), [](const PingFound& a, const PingFound& b) {
        return std::pair(!a.finding->reached, a.finding->round_trip) >
               std::pair(!b.finding->reached, b.finding->round_trip);
      });
  found.resize(shown);
  for (const PingFound& one : found) {
    v1::Ping& ping = *pings.add_pings();
    ping.set_from(one.from);
    ping.set_to(one.to);
    // Unset if the prober reached the target and reported no round trip time.
    if (one.finding->round_trip != absl::InfiniteDuration()) {
      ToProto(one.finding->round_trip, ping.mutable_round_trip());
    }
    ping.set_reached(one.finding->reached);
    ping.set_error(one.finding->error);
  }
  return pings;
}

}  // namespace rollcall
