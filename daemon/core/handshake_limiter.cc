#include "daemon/core/handshake_limiter.h"

#include <algorithm>
#include <limits>

#include "daemon/base/check.h"

namespace rollcall {
namespace {

uint64_t& CountOf(HandshakeCounts& counts, Fate fate) {
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
    case Fate::kDisplaced:
      return counts.displaced;
    case Fate::kHungUp:
      break;
  }
  return counts.hung_up;
}

}  // namespace

SourceAddress SourceAddressOfIpv4(const std::array<uint8_t, 4>& address) {
  SourceAddress source = {};
  source[10] = source[11] = 0xff;
  std::copy(address.begin(), address.end(), source.begin() + 12);
  return source;
}

SourceAddress SourceAddressOfIpv6(const std::array<uint8_t, 16>& address) {
  const SourceAddress mapped =
      SourceAddressOfIpv4({address[12], address[13], address[14], address[15]});
  if (address == mapped) return mapped;
  SourceAddress source = {};
  std::copy_n(address.begin(), 8, source.begin());
  return source;
}

ConnectionLimits FittedTo(ConnectionLimits limits, size_t descriptors) {
  const auto fit = [](size_t& limit, size_t most) {
    limit = std::min(limit, std::max<size_t>(most, 1));
  };
  fit(limits.waiting_and_agents_max, descriptors / 4 * 3);
  fit(limits.agents_max, descriptors / 8 * 5);
  fit(limits.waiting_max, limits.waiting_and_agents_max);
  if (descriptors / 16 < limits.unauthenticated_max) {
    fit(limits.unauthenticated_max, descriptors / 16);
    fit(limits.unauthenticated_per_network_max, limits.unauthenticated_max / 4);
  }
  fit(limits.viewers_max, descriptors / 64);
  fit(limits.viewer_connections_max, limits.viewers_max / 2);
  return limits;
}

HandshakeLimiter::HandshakeLimiter(const ConnectionLimits& limits)
    : limits_(limits),
      waiting_max_(limits.waiting_max),
      all_(limits.handshakes_per_second, limits.handshakes_burst) {
  CHECK_GE(limits.waiting_per_address_max, size_t{1});
  CHECK_GE(limits.waiting_max, size_t{1});
  CHECK_GE(limits.addresses_max, limits.waiting_max);
  CHECK_GE(limits.unauthenticated_max, size_t{1});
  CHECK_GE(limits.unauthenticated_per_network_max, size_t{1});
  CHECK_GE(limits.handshakes_at_once, size_t{1});
  CHECK_GE(limits.bytes_in_vain_per_handshake, size_t{1});
}

HandshakeLimiter::Verdicts HandshakeLimiter::Arrive(Id id,
                                                    const SourceAddress& from,
                                                    absl::Time now) {
  CHECK_GE(now, now_);
  CHECK_GT(id, newest_);
  now_ = now;
  newest_ = id;
  Verdicts verdicts;
  const auto present = places_.find(from);
  if (present != places_.end() &&
      present->second.silent.size() >= limits_.waiting_per_address_max) {
    Close(*present->second.silent.begin(), Fate::kCrowded, verdicts);
  } else if (waiting_.size() >= waiting_max_) {
    verdicts = MakeRoom();
  }
  Place& place = PlaceFor(from);
  if (place.waiting() > 0) crowd_.erase(CrowdOf(from, place));
  place.silent.insert(id);
  crowd_.insert(CrowdOf(from, place));
  waiting_.emplace(id, Waiting{from, now});
  silent_.insert(id);
  ++counts_.arrived;
  CHECK_LE(waiting_.size(), limits_.waiting_max);
  CHECK_LE(places_.size() - most_.size(), limits_.addresses_max);
  return verdicts;
}

HandshakeLimiter::Verdicts HandshakeLimiter::Ask(Id id, absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || found->second.asks) return verdicts;
  found->second.asks = true;
  silent_.erase(id);
  asking_.insert(id);
  const SourceAddress& from = found->second.from;
  Place& place = places_.at(from);
  crowd_.erase(CrowdOf(from, place));
  place.silent.erase(id);
  place.asking.insert(id);
  crowd_.insert(CrowdOf(from, place));
  // An address that is already in the queue keeps its turn.
  if (place.asking.size() == 1) Enqueue(from, place);
  HandOn(verdicts);
  return verdicts;
}

void HandshakeLimiter::Leave(Id id, Fate why) {
  if (waiting_.contains(id)) Remove(id, why);
}

HandshakeLimiter::Verdicts HandshakeLimiter::Release(Id id, absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  const auto found = unauthenticated_.find(id);
  if (found == unauthenticated_.end()) return verdicts;
  const SourceAddress from = found->second.from;
  Place& place = places_.at(from);
  Exit(id, from, place);
  Retire(from, place);
  HandOn(verdicts);
  return verdicts;
}

HandshakeLimiter::Verdicts HandshakeLimiter::Introduce(Id id, absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  const auto found = unauthenticated_.find(id);
  if (found == unauthenticated_.end()) return verdicts;
  const SourceAddress from = found->second.from;
  Place& place = places_.at(from);
  handshakes_.erase({found->second.at, id});
  place.unauthenticated.erase({found->second.at, id});
  place.unauthenticated.emplace(now, id);
  found->second.at = now;
  Requeue(from, place);
  HandOn(verdicts);
  return verdicts;
}

void HandshakeLimiter::Charge(const SourceAddress& from, uint64_t bytes,
                              absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  const uint64_t handshakes = bytes / limits_.bytes_in_vain_per_handshake;
  if (handshakes == 0) return;
  // There is no place to remember it.
  if (!places_.contains(from) && idle_.empty() &&
      places_.size() - most_.size() >= limits_.addresses_max) {
    return;
  }
  Place& place = PlaceFor(from);
  const bool waits = !place.asking.empty() && !place.held;
  place.bucket.Charge(handshakes, limits_.handshakes_per_address_debt, now);
  // An address keeps its turn if it may still take one.
  if (waits && (place.turn == 0 || place.bucket.ready_at() > now)) {
    Dequeue(from, place);
    Enqueue(from, place);
  }
  Retire(from, place);
}

HandshakeLimiter::Verdicts HandshakeLimiter::MakeRoom() {
  Verdicts verdicts;
  if (crowd_.empty()) return verdicts;
  const Place& place = places_.at(std::get<SourceAddress>(*crowd_.begin()));
  Close(place.silent.empty() ? *place.asking.begin() : *place.silent.begin(),
        Fate::kCrowded, verdicts);
  return verdicts;
}

HandshakeLimiter::Verdicts HandshakeLimiter::Limit(size_t waiting_max) {
  waiting_max_ = std::clamp(waiting_max, size_t{1}, limits_.waiting_max);
  Verdicts verdicts;
  while (waiting_.size() > waiting_max_) {
    const Verdicts closed = MakeRoom();
    verdicts.insert(verdicts.end(), closed.begin(), closed.end());
  }
  return verdicts;
}

HandshakeLimiter::Verdicts HandshakeLimiter::Tick(absl::Time now) {
  CHECK_GE(now, now_);
  now_ = now;
  Verdicts verdicts;
  HandOn(verdicts);
  CloseLate(silent_, limits_.silence, Fate::kSilent, verdicts);
  CloseLate(asking_, limits_.patience, Fate::kImpatient, verdicts);
  Forget();
  return verdicts;
}

absl::Time HandshakeLimiter::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  if (!silent_.empty()) {
    next = waiting_.at(*silent_.begin()).arrived + limits_.silence;
  }
  if (!asking_.empty()) {
    next = std::min(next,
                    waiting_.at(*asking_.begin()).arrived + limits_.patience);
  }
  if (!queue_.empty()) {
    next = std::min(next, all_.ready_at());
  } else if (!cooling_.empty()) {
    next = std::min(next, std::max(all_.ready_at(), cooling_.begin()->first));
  }
  if (!held_.empty() && !handshakes_.empty()) {
    next = std::min(next, handshakes_.begin()->first + limits_.handshake_time);
  }
  if (!idle_.empty()) next = std::min(next, idle_.begin()->first);
  return next;
}

HandshakeCounts HandshakeLimiter::counts() const {
  HandshakeCounts counts = counts_;
  counts.waiting = waiting_.size();
  counts.unauthenticated = unauthenticated_.size();
  return counts;
}

HandshakeLimiter::Crowd HandshakeLimiter::CrowdOf(const SourceAddress& from,
                                                  const Place& place) {
  Id first = std::numeric_limits<Id>::max();
  for (const std::set<Id>* ids : {&place.silent, &place.asking}) {
    if (!ids->empty()) first = std::min(first, *ids->begin());
  }
  return {-static_cast<int64_t>(place.waiting()), first, from};
}

HandshakeLimiter::Place& HandshakeLimiter::PlaceFor(const SourceAddress& from) {
  const auto found = places_.find(from);
  if (found != places_.end()) {
    idle_.erase({found->second.bucket.full_at(), from});
    return found->second;
  }
  // Removes the address whose burst is whole again first. This does not happen
  // with the default limits.
  if (places_.size() - most_.size() >= limits_.addresses_max) {
    CHECK(!idle_.empty());  // Fewer wait than addresses_max.
    places_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
  const RateBucket bucket(limits_.handshakes_per_address_per_second,
                          limits_.handshakes_per_address_burst);
  return places_.emplace(from, Place{{}, {}, {}, bucket}).first->second;
}

// Puts the address at the end of the queue. If its bucket and its bound do not
// allow a handshake yet, puts it into cooling_ until then.
void HandshakeLimiter::Enqueue(const SourceAddress& from, Place& place) {
  const absl::Time ready = std::max(place.bucket.ready_at(), RoomAt(place));
  if (ready <= now_) {
    place.turn = ++last_turn_;
    queue_.emplace(place.turn, from);
  } else {
    place.cools_until = ready;
    cooling_.emplace(ready, from);
  }
}

void HandshakeLimiter::Dequeue(const SourceAddress& from, Place& place) {
  if (place.held) {
    held_.erase({place.unauthenticated.size(), place.turn, from});
    place.held = false;
    place.turn = 0;
  } else if (place.turn != 0) {
    queue_.erase(place.turn);
    place.turn = 0;
  } else {
    cooling_.erase({place.cools_until, from});
  }
}

// The address's own bound allows its next connection earlier or later than
// before.
void HandshakeLimiter::Requeue(const SourceAddress& from, Place& place) {
  if (place.asking.empty() || place.held) return;
  const bool in_queue = place.turn != 0;
  if (in_queue && RoomAt(place) <= now_) return;  // It keeps its turn.
  Dequeue(from, place);
  Enqueue(from, place);
}

void HandshakeLimiter::Hold(const SourceAddress& from, Place& place) {
  Dequeue(from, place);
  place.held = true;
  place.turn = ++last_turn_;
  held_.emplace(place.unauthenticated.size(), place.turn, from);
}

// Moves held addresses back into the queue, at most as many as can be handed
// on. So no event goes through all held addresses.
void HandshakeLimiter::Unhold() {
  while (!held_.empty() &&
         unauthenticated_.size() + queue_.size() <
             limits_.unauthenticated_max &&
         MayBegin(std::get<0>(*held_.begin()), queue_.size())) {
    const SourceAddress from = std::get<2>(*held_.begin());
    Place& place = places_.at(from);
    Dequeue(from, place);
    Enqueue(from, place);
  }
}

// When the network's own bound allows one more connection.
absl::Time HandshakeLimiter::RoomAt(const Place& place) const {
  if (place.unauthenticated.size() < limits_.unauthenticated_per_network_max) {
    return absl::InfinitePast();
  }
  return place.unauthenticated.begin()->first + limits_.handshake_time;
}

// Whether one more connection of this network, which RoomAt allows, may be
// handed on. If the network is at its own bound, displaces its oldest
// connection. If all places are taken and another network has clearly more
// connections, displaces the newest one of those.
bool HandshakeLimiter::HasRoom(const SourceAddress& from, Place& place,
                               Verdicts& verdicts) {
  const size_t here = place.unauthenticated.size();
  if (here >= limits_.unauthenticated_per_network_max) {
    if (handshakes_.size() >= limits_.handshakes_at_once) return false;
    Displace(place.unauthenticated.begin()->second, from, place, verdicts);
    return true;
  }
  if (!MayBegin(here, 0)) return false;
  if (unauthenticated_.size() < limits_.unauthenticated_max) return true;
  if (!HasClearlyFewer(here)) return false;
  const SourceAddress other = most_.begin()->second;
  Place& largest = places_.at(other);
  Displace(largest.unauthenticated.rbegin()->second, other, largest, verdicts);
  Retire(other, largest);
  return true;
}

void HandshakeLimiter::Displace(Id id, const SourceAddress& from, Place& place,
                                Verdicts& verdicts) {
  Exit(id, from, place);
  ++counts_.displaced;
  verdicts.push_back({id, Fate::kDisplaced});
}

void HandshakeLimiter::Enter(Id id, const SourceAddress& from, Place& place) {
  CHECK(!place.held);
  const auto count = static_cast<int64_t>(place.unauthenticated.size());
  if (count > 0) most_.erase({-count, from});
  most_.emplace(-count - 1, from);
  place.unauthenticated.emplace(now_, id);
  unauthenticated_.emplace(id, Begun{from, now_});
  handshakes_.emplace(now_, id);
  CHECK_LE(unauthenticated_.size(), limits_.unauthenticated_max);
}

void HandshakeLimiter::Exit(Id id, const SourceAddress& from, Place& place) {
  const size_t count = place.unauthenticated.size();
  most_.erase({-static_cast<int64_t>(count), from});
  if (count > 1) most_.emplace(1 - static_cast<int64_t>(count), from);
  if (place.held) {
    held_.erase({count, place.turn, from});
    held_.emplace(count - 1, place.turn, from);
  }
  const auto begun = unauthenticated_.find(id);
  place.unauthenticated.erase({begun->second.at, id});
  handshakes_.erase({begun->second.at, id});
  unauthenticated_.erase(begun);
  Requeue(from, place);
}

bool HandshakeLimiter::HasClearlyFewer(size_t here) const {
  return !most_.empty() &&
         -most_.begin()->first > static_cast<int64_t>(here) + 1;
}

bool HandshakeLimiter::MayBegin(size_t here, size_t before) const {
  const size_t under_way = handshakes_.size() + before;
  if (under_way < limits_.handshakes_at_once) return true;
  return under_way < 2 * limits_.handshakes_at_once && HasClearlyFewer(here);
}

void HandshakeLimiter::EndHandshakes() {
  while (!handshakes_.empty() &&
         handshakes_.begin()->first + limits_.handshake_time <= now_) {
    handshakes_.erase(handshakes_.begin());
  }
}

// Removes the address if nothing but its bucket is left. Must follow Exit.
void HandshakeLimiter::Retire(const SourceAddress& from, Place& place) {
  if (place.waiting() == 0 && place.unauthenticated.empty()) {
    if (place.bucket.full_at() > now_) {
      idle_.emplace(place.bucket.full_at(), from);
    } else {
      places_.erase(from);
    }
  }
  // Only if connections of tens of thousands of addresses end at once.
  if (places_.size() - most_.size() > limits_.addresses_max) {
    CHECK(!idle_.empty());  // At most addresses_max wait.
    places_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
}

void HandshakeLimiter::Remove(Id id, Fate fate) {
  const auto found = waiting_.find(id);
  CHECK(found != waiting_.end());
  const SourceAddress from = found->second.from;
  Place& place = places_.at(from);
  crowd_.erase(CrowdOf(from, place));
  place.silent.erase(id);
  if (place.asking.erase(id) > 0 && place.asking.empty()) Dequeue(from, place);
  silent_.erase(id);
  asking_.erase(id);
  waiting_.erase(found);
  ++CountOf(counts_, fate);
  if (place.waiting() > 0) crowd_.insert(CrowdOf(from, place));
  Retire(from, place);
}

void HandshakeLimiter::Close(Id id, Fate fate, Verdicts& verdicts) {
  Remove(id, fate);
  verdicts.push_back({id, fate});
}

void HandshakeLimiter::HandOn(Verdicts& verdicts) {
  EndHandshakes();
  while (!cooling_.empty() && cooling_.begin()->first <= now_) {
    const SourceAddress from = cooling_.begin()->second;
    Place& place = places_.at(from);
    Dequeue(from, place);
    Enqueue(from, place);
  }
  Unhold();
  while (!queue_.empty() && all_.ready_at() <= now_) {
    const SourceAddress from = queue_.begin()->second;
    Place& place = places_.at(from);
    if (!HasRoom(from, place, verdicts)) {
      Hold(from, place);
      continue;
    }
    all_.Take(now_);
    place.bucket.Take(now_);
    const Id id = *place.asking.rbegin();
    Enter(id, from, place);
    const bool more = place.asking.size() > 1;
    if (more) {
      Dequeue(from, place);
      Enqueue(from, place);
    }
    Close(id, Fate::kHandedOn, verdicts);
  }
}

void HandshakeLimiter::CloseLate(std::set<Id>& ids, absl::Duration most,
                                 Fate fate, Verdicts& verdicts) {
  while (!ids.empty() && waiting_.at(*ids.begin()).arrived + most <= now_) {
    Close(*ids.begin(), fate, verdicts);
  }
}

void HandshakeLimiter::Forget() {
  while (!idle_.empty() && idle_.begin()->first <= now_) {
    places_.erase(idle_.begin()->second);
    idle_.erase(idle_.begin());
  }
}

}  // namespace rollcall
