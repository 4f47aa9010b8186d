#include "daemon/core/network_plan/probing/slow_paths.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rollcall {
namespace {

struct Path {
  const std::string* from;
  const std::string* to;
  absl::Duration took;
  absl::Time at;
};

// The paths between members that were probed. One that was not reached takes
// forever.
std::vector<Path> PathsOf(const v1::World& world, const Probing& probing) {
  std::vector<Path> paths;
  if (world.one_machine()) return paths;
  std::set<std::string_view> members;
  for (const v1::Member& member : world.members()) {
    members.insert(member.node());
  }
  for (const v1::Member& target : world.members()) {
    const auto* by = probing.Of(target.node());
    if (by == nullptr) continue;
    for (const auto& [prober, report] : *by) {
      if (!report.answered || !members.contains(prober)) continue;
      const auto found = report.found.find(target.address());
      const bool reached = found != report.found.end() && found->second.reached;
      // Unset if the prober reported no time.
      if (reached && found->second.round_trip == absl::InfiniteDuration()) {
        continue;
      }
      paths.push_back(
          {&prober, &target.node(),
           reached ? found->second.round_trip : absl::InfiniteDuration(),
           report.at});
    }
  }
  return paths;
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(duration));
}

}  // namespace

void SlowPaths::Take(const v1::World& world, const Probing& probing,
                     bool slow) {
  if (!slow) {
    rounds_ = 0;
    standing_.clear();
  }
  const std::vector<Path> paths = PathsOf(world, probing);
  absl::Time latest = absl::InfinitePast();
  for (const Path& path : paths) latest = std::max(latest, path.at);
  if (latest <= last_) return;
  last_ = latest;
  std::map<std::string, absl::Duration> best;
  for (const Path& path : paths) {
    // A round for newcomers leaves the members' earlier reports.
    if (slow && path.at != latest) continue;
    for (const std::string* node : {path.from, path.to}) {
      absl::Duration& least = best.try_emplace(*node, path.took).first->second;
      least = std::min(least, path.took);
    }
  }
  if (slow) return TakeSlow(best);
  for (const auto& [node, took] : best) {
    absl::Duration& usual = usual_.try_emplace(node, took).first->second;
    usual = std::min(usual, took);
  }
}

void SlowPaths::TakeSlow(const std::map<std::string, absl::Duration>& best) {
  if (best.size() < 3) return;
  ++rounds_;
  std::vector<absl::Duration> sorted;
  for (const auto& [node, took] : best) sorted.push_back(took);
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = (sorted.size() - 2) / 2;
  for (const auto& [node, took] : best) {
    // The median without this node.
    const absl::Duration others =
        sorted[took <= sorted[middle] ? middle + 1 : middle];
    const auto usual = usual_.find(node);
    const absl::Duration before =
        usual == usual_.end() ? others : std::max(others, usual->second);
    if (before == absl::InfiniteDuration() || took < before * kFactor ||
        took < before + kMore) {
      continue;
    }
    Standing& standing = standing_[node];
    ++standing.rounds;
    standing.best = took;
    standing.others = others;
  }
}

std::vector<std::pair<std::string, std::string>> SlowPaths::Named() const {
  std::vector<std::pair<std::string, std::string>> named;
  for (const auto& [node, standing] : standing_) {
    if (standing.rounds < kRoundsMin || 2 * standing.rounds <= rounds_) {
      continue;
    }
    named.emplace_back(
        node, standing.best == absl::InfiniteDuration()
                  ? "not reached by the other nodes"
                  : absl::StrCat("round trips of ", Milliseconds(standing.best),
                                 " or more, median of the other nodes ",
                                 Milliseconds(standing.others)));
  }
  return named;
}

}  // namespace rollcall
