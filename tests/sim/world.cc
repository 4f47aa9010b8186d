#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

#include "daemon/base/check.h"

namespace rollcall::sim {
namespace {

uint64_t Rotated(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

bool Later(const Wake& a, const Wake& b) {
  return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
}

}  // namespace

Chance::Chance(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t Chance::Next() {
  const uint64_t result = Rotated(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = Rotated(state_[3], 45);
  return result;
}

uint64_t Chance::Below(uint64_t bound) {
  CHECK_GT(bound, 0u);
  return static_cast<uint64_t>(
      (static_cast<unsigned __int128>(Next()) * bound) >> 64);
}

Nanos Chance::Between(Nanos low, Nanos high) {
  CHECK_LE(low, high);
  return low + static_cast<Nanos>(Below(static_cast<uint64_t>(high - low) + 1));
}

Nanos Chance::Skewed(Nanos low, Nanos high) {
  // Draws the number of doublings first, then a value within the last doubling.
  // No libm is used, so that a seed means the same on every machine.
  uint64_t doublings = 0;
  while ((low << (doublings + 1)) <= high) ++doublings;
  const Nanos from = low << Below(doublings + 1);
  return Between(from, std::min(2 * from, high));
}

Nanos Clock::Local(Nanos world) const {
  return offset_ + world +
         static_cast<Nanos>(static_cast<__int128>(world) * drift_ppm_ /
                            1000000);
}

absl::Time Clock::At(Nanos world) const {
  return absl::UnixEpoch() + absl::Nanoseconds(Local(world));
}

Nanos Clock::WorldAt(absl::Time local) const {
  if (local == absl::InfiniteFuture()) return kNever;
  // A Duration is finer than a nanosecond, so it is rounded up.
  const Nanos wanted =
      ToNanos(absl::Ceil(local - absl::UnixEpoch(), absl::Nanoseconds(1)));
  const auto since = static_cast<__int128>(wanted - offset_);
  Nanos world = static_cast<Nanos>(since * 1000000 / (1000000 + drift_ppm_));
  world = std::max<Nanos>(world - 2, 0);
  while (Local(world) < wanted) ++world;
  return world;
}

void World::Schedule(Nanos at, Wake::Kind kind, uint32_t who, uint64_t tag) {
  if (at == kNever) return;
  CHECK_GE(at, now_);
  queue_.push_back(Wake{at, ++sequence_, tag, who, kind});
  std::push_heap(queue_.begin(), queue_.end(), Later);
}

bool World::Next(Wake& wake) {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), Later);
  wake = queue_.back();
  queue_.pop_back();
  now_ = wake.at;
  ++events_;
  return true;
}

void World::Print(std::string_view line) const {
  std::printf("%12.6f %.*s\n", static_cast<double>(now_) / kSecond,
              static_cast<int>(line.size()), line.data());
}

}  // namespace rollcall::sim
