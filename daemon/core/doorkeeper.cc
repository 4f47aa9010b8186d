#include "daemon/core/doorkeeper.h"

#include <algorithm>

#include "daemon/core/check.h"

namespace rollcall {
namespace {

uint64_t& CountOf(DoorCounts& counts, Fate fate) {
  switch (fate) {
    case Fate::kHandedOn:
      return counts.handed_on;
    case Fate::kSilent:
      return counts.silent;
    case Fate::kGarbage:
      return counts.garbage;
    case Fate::kCrowded:
      return counts.crowded;
    case Fate::kImpatient:
      return counts.impatient;
    case Fate::kHungUp:
      break;
  }
  return counts.hung_up;
}

}  // namespace

DoorAddress DoorAddressOfIpv4(const std::array<uint8_t, 4>& address) {
  DoorAddress door = {};
  door[10] = door[11] = 0xff;
  std::copy(address.begin(), address.end(), door.begin() + 12);
  return door;
}

DoorAddress DoorAddressOfIpv6(const std::array<uint8_t, 16>& address) {
  const DoorAddress mapped =
      DoorAddressOfIpv4({address[12], address[13], address[14], address[15]});
  if (address == mapped) return mapped;
  DoorAddress door = {};
  std::copy_n(address.begin(), 8, door.begin());
  return door;
}

HandshakeBucket::HandshakeBucket(uint32_t per_second, uint32_t burst)
    : one_(absl::Seconds(1) / per_second), whole_(one_ * burst) {}

void HandshakeBucket::Take(absl::Time now) {
  CHECK_LE(ready_at(), now);
  full_at_ = std::max(full_at_, now) + one_;
}

Doorkeeper::Doorkeeper(const DoorLimits& limits)
    : limits_(limits),
      all_(limits.handshakes_per_second, limits.handshakes_burst) {
  CHECK_GE(limits.waiting_per_address_max, size_t{1});
  CHECK_GE(limits.waiting_max, size_t{1});
  CHECK_GE(limits.addresses_max, limits.waiting_max);
}

Doorkeeper::Verdicts Doorkeeper::Arrive(Id id, const DoorAddress& from,
                                        absl::Time now) {
  CHECK_GE(now, now_);
  CHECK_GT(id, newest_);
  now_ = now;
  newest_ = id;
  Verdicts verdicts;
  const auto present = places_.find(from);
  if (present != places_.end() &&
      present->second.waiting.size() >= limits_.waiting_per_address_max) {
    Close(*present->second.waiting.begin(), Fate::kCrowded, verdicts);
  } else if (waiting_.size() >= limits_.waiting_max) {
    verdicts = MakeRoom();
  }
  Place& place = PlaceFor(from);
  if (!place.waiting.empty()) crowd_.erase(CrowdOf(from, place));
  place.waiting.insert(id);
  crowd_.insert(CrowdOf(from, place));
  waiting_.emplace(id, Waiting{from, now});
  silent_.insert(id);
  ++counts_.arrived;
  CHECK_LE(waiting_.size(), limits_.waiting_max);
  CHECK_LE(places_.size(), limits_.addresses_max);
  return verdicts;
}

Doorkeeper::Verdicts Doorkeeper::Ask(Id id, absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || found->second.asks) return verdicts;
  found->second.asks = true;
  silent_.erase(id);
  asking_.insert(id);
  const DoorAddress& from = found->second.from;
  Place& place = places_.at(from);
  place.asking.insert(id);
  // One that stands in the row already keeps its turn.
  if (place.asking.size() == 1) StandInRow(from, place);
  HandOn(verdicts);
  return verdicts;
}

void Doorkeeper::Leave(Id id, Fate why) {
  if (waiting_.contains(id)) Remove(id, why);
}

Doorkeeper::Verdicts Doorkeeper::MakeRoom() {
  Verdicts verdicts;
  if (!crowd_.empty()) {
    Close(std::get<Id>(*crowd_.begin()), Fate::kCrowded, verdicts);
  }
  return verdicts;
}

Doorkeeper::Verdicts Doorkeeper::Tick(absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  HandOn(verdicts);
  CloseLate(silent_, limits_.silence, Fate::kSilent, verdicts);
  CloseLate(asking_, limits_.patience, Fate::kImpatient, verdicts);
  Forget();
  return verdicts;
}

absl::Time Doorkeeper::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  if (!silent_.empty()) {
    next = waiting_.at(*silent_.begin()).arrived + limits_.silence;
  }
  if (!asking_.empty()) {
    next = std::min(next,
                    waiting_.at(*asking_.begin()).arrived + limits_.patience);
  }
  if (!row_.empty()) {
    next = std::min(next, all_.ready_at());
  } else if (!cooling_.empty()) {
    next = std::min(next, std::max(all_.ready_at(), cooling_.begin()->first));
  }
  if (!idle_.empty()) next = std::min(next, idle_.begin()->first);
  return next;
}

DoorCounts Doorkeeper::counts() const {
  DoorCounts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

Doorkeeper::Crowd Doorkeeper::CrowdOf(const DoorAddress& from,
                                      const Place& place) {
  return {-static_cast<int64_t>(place.waiting.size()), *place.waiting.begin(),
          from};
}

Doorkeeper::Place& Doorkeeper::PlaceFor(const DoorAddress& from) {
  const auto found = places_.find(from);
  if (found != places_.end()) {
    idle_.erase({found->second.bucket.full_at(), from});
    return found->second;
  }
  // The one that loses least by it. The defaults never come here.
  if (places_.size() >= limits_.addresses_max) {
    CHECK(!idle_.empty());  // Fewer wait than addresses_max.
    places_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
  const HandshakeBucket bucket(limits_.handshakes_per_address_per_second,
                               limits_.handshakes_per_address_burst);
  return places_.emplace(from, Place{{}, {}, bucket}).first->second;
}

// At the end of the row, or aside until the bucket of the address lets it.
void Doorkeeper::StandInRow(const DoorAddress& from, Place& place) {
  if (place.bucket.ready_at() <= now_) {
    place.turn = ++last_turn_;
    row_.emplace(place.turn, from);
  } else {
    place.cools_until = place.bucket.ready_at();
    cooling_.emplace(place.cools_until, from);
  }
}

void Doorkeeper::StepOut(const DoorAddress& from, Place& place) {
  if (place.turn != 0) {
    row_.erase(place.turn);
    place.turn = 0;
  } else {
    cooling_.erase({place.cools_until, from});
  }
}

void Doorkeeper::Remove(Id id, Fate fate) {
  const auto found = waiting_.find(id);
  CHECK(found != waiting_.end());
  const DoorAddress from = found->second.from;
  Place& place = places_.at(from);
  crowd_.erase(CrowdOf(from, place));
  place.waiting.erase(id);
  if (place.asking.erase(id) > 0 && place.asking.empty()) StepOut(from, place);
  silent_.erase(id);
  asking_.erase(id);
  waiting_.erase(found);
  ++CountOf(counts_, fate);
  if (!place.waiting.empty()) {
    crowd_.insert(CrowdOf(from, place));
  } else if (place.bucket.full_at() > now_) {
    idle_.emplace(place.bucket.full_at(), from);
  } else {
    places_.erase(from);
  }
}

void Doorkeeper::Close(Id id, Fate fate, Verdicts& verdicts) {
  Remove(id, fate);
  verdicts.push_back({id, fate});
}

void Doorkeeper::HandOn(Verdicts& verdicts) {
  while (!cooling_.empty() && cooling_.begin()->first <= now_) {
    const DoorAddress from = cooling_.begin()->second;
    Place& place = places_.at(from);
    StepOut(from, place);
    StandInRow(from, place);
  }
  while (!row_.empty() && all_.ready_at() <= now_) {
    const DoorAddress from = row_.begin()->second;
    Place& place = places_.at(from);
    all_.Take(now_);
    place.bucket.Take(now_);
    const Id id = *place.asking.begin();
    const bool more = place.asking.size() > 1;
    if (more) {
      StepOut(from, place);
      StandInRow(from, place);
    }
    Close(id, Fate::kHandedOn, verdicts);
  }
}

void Doorkeeper::CloseLate(std::set<Id>& ids, absl::Duration most, Fate fate,
                           Verdicts& verdicts) {
  while (!ids.empty() && waiting_.at(*ids.begin()).arrived + most <= now_) {
    Close(*ids.begin(), fate, verdicts);
  }
}

void Doorkeeper::Forget() {
  while (!idle_.empty() && idle_.begin()->first <= now_) {
    places_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
}

}  // namespace rollcall
