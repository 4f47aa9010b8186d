#include "daemon/core/network_plan/probing/rounds.h"

#include <cstdint>

namespace rollcall {
namespace {

// A gathering has at most this many rounds, with a pause between them.
constexpr int kRoundsMax = 3;
constexpr absl::Duration kRepeatPause = absl::Seconds(1);
// The pause between two rounds while a world runs, for each node of the job. A
// network plan takes about 50 microseconds for each node (scripts/bench.sh
// facts); the pause is ten times that.
constexpr absl::Duration kRoundPause = absl::Microseconds(500);

}  // namespace

void Rounds::Reset() {
  nodes_.clear();
  failed_ = 0;
  repeat_at_ = absl::InfinitePast();
}

void Rounds::Open(std::set<std::string> nodes, absl::Time now) {
  nodes_ = std::move(nodes);
  opened_at_ = now;
}

bool Rounds::MayRepeat() const { return failed_ + 1 < kRoundsMax; }

void Rounds::Repeat(absl::Time now) {
  ++failed_;
  repeat_at_ = now + kRepeatPause;
}

void Rounds::ProbeBy(absl::Time at) {
  probe_at_ = std::min(probe_at_, std::max(at, pause_ends_));
}

void Rounds::PingLater(absl::Time now, const Limits& limits) {
  absl::Duration interval = limits.ping_interval;
  if (interval <= absl::ZeroDuration()) interval = absl::InfiniteDuration();
  if (often_) interval = std::min(interval, kOften);
  ping_at_ = now + std::max(interval, limits.probe_timeout);
}

void Rounds::PingOften(bool often, absl::Time now, const Limits& limits) {
  if (std::exchange(often_, often) == often) return;
  if (often) {
    ping_at_ = std::min(ping_at_, std::max(now, pause_ends_));
  } else {
    PingLater(now, limits);
  }
}

void Rounds::PutOff(absl::Time until) {
  probe_at_ = until;
  ping_at_ = std::max(ping_at_, until);
}

bool Rounds::OpenFor(std::set<std::string> newcomers, bool ping, size_t present,
                     absl::Time now) {
  nodes_ = std::move(newcomers);
  if (nodes_.empty() && !ping) return false;
  opened_at_ = now;
  pause_ends_ = now + static_cast<int64_t>(present) * kRoundPause;
  return true;
}

std::set<std::string> Rounds::EndWorld() {
  probe_at_ = absl::InfiniteFuture();
  ping_at_ = absl::InfiniteFuture();
  often_ = false;
  pause_ends_ = absl::InfinitePast();
  return TakeNodes();
}

}  // namespace rollcall
