// Doorkeeper: who may wait at the daemon's front door, and who is let in when.
//
// A connection waits from its arrival until it has shown that it begins a
// handshake (it "asks") and the rates let it be handed on. Handshakes above
// the rates are delayed, in turn among addresses, and not refused. The
// doorkeeper never touches a connection: it returns what is to be done.
//
// A connection that was handed on counts as unauthenticated until Release. They
// are bounded in all and for each network. A network at its bound waits, and so
// do all at the bound of all; a network that has clearly fewer of them than the
// one that has most takes the place of that one's newest.
//
// Only so many handshakes are under way at once, so that each that begins ends
// soon: thousands that share the processors would all end too late. A handshake
// is under way until Release, and for at most `handshake_time`, so that clients
// that stop halfway do not hold up the others for longer. While so many are
// under way, all wait but a network that has clearly fewer unauthenticated
// connections than the one that has most.
//
// Addresses take turns. Of one address the connection that came last is handed
// on first: it has the most time left until its client gives up. The one that
// came first would often be handed on in vain.
//
// Pure: no clock, no socket; time comes in and never goes backwards. One
// thread. O(log n) for each event and each verdict.
//
// Invariants, after each call:
// 1. At most waiting_max wait, or as many as Limit said; at most
//    waiting_per_address_max of an address have not asked.
// 2. An address is remembered only while a connection waits there or is
//    unauthenticated, or its burst is not whole; Tick forgets the others. At
//    most addresses_max are, beside those with unauthenticated connections.
// 3. After Tick(now), NextDeadline() > now.
// 4. At most guests_max are unauthenticated, at most guests_per_network_max of
//    a network.
#ifndef ROLLCALL_DAEMON_CORE_DOORKEEPER_H_
#define ROLLCALL_DAEMON_CORE_DOORKEEPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

// Where a connection comes from, as far as it is counted: an IPv6 /64, or an
// IPv4 address written as an IPv4-mapped one.
using DoorAddress = std::array<uint8_t, 16>;
DoorAddress DoorAddressOfIpv4(const std::array<uint8_t, 4>& address);
DoorAddress DoorAddressOfIpv6(const std::array<uint8_t, 16>& address);

// `limits` for a process that may open so many descriptors: all connections
// that they allow, with two descriptors for each that Guests watches and that
// is no agent's, take at most 29/32 of them. The rest is left for the journal,
// the log and admins' calls.
DoorLimits FittedTo(DoorLimits limits, size_t descriptors);

// How a connection left the door.
enum class Fate {
  kHandedOn,
  kSilent,     // It said nothing for too long.
  kGarbage,    // What it said begins no handshake.
  kCrowded,    // Too many waited: see Arrive.
  kImpatient,  // It asked, and its turn did not come in time.
  kHungUp,     // Its peer closed it.
  // It was handed on and had not authenticated when a network with fewer
  // unauthenticated connections needed the place. Disconnect it.
  kDisplaced,
};

// Since the start, but for `waiting` and `unauthenticated`.
struct DoorCounts {
  uint64_t arrived = 0;
  uint64_t handed_on = 0;
  uint64_t silent = 0;
  uint64_t garbage = 0;
  uint64_t crowded = 0;
  uint64_t impatient = 0;
  uint64_t hung_up = 0;
  uint64_t displaced = 0;
  size_t waiting = 0;
  // Handed on and not released.
  size_t unauthenticated = 0;
};

// A rate with a burst, kept as the moment at which the whole burst is there
// again.
class HandshakeBucket {
 public:
  HandshakeBucket(uint32_t per_second, uint32_t burst);
  // From then on one may be taken.
  absl::Time ready_at() const { return full_at_ + one_ - whole_; }
  absl::Time full_at() const { return full_at_; }
  void Take(absl::Time now);

 private:
  absl::Duration one_;
  absl::Duration whole_;
  absl::Time full_at_ = absl::InfinitePast();
};

class Doorkeeper {
 public:
  // The caller's number of a connection; later ones have larger ones.
  using Id = uint64_t;
  // `id` no longer waits: hand it on, or close it. kDisplaced: it was handed on
  // before; no Release follows for it.
  struct Verdict {
    Id id;
    Fate fate;
  };
  using Verdicts = std::vector<Verdict>;

  explicit Doorkeeper(const DoorLimits& limits);

  // A connection was accepted. It waits from now on. Where too many of its
  // address have not asked, it takes the place of the first of them. Where too
  // many wait in all, it takes a place at the address where most wait: of the
  // first that has not asked, or else of the first that has.
  Verdicts Arrive(Id id, const DoorAddress& from, absl::Time now);
  // From now on at most so many may wait, and at most waiting_max. Closes those
  // beyond, as Arrive does.
  Verdicts Limit(size_t waiting_max);
  // The connection has begun its handshake. Returns all whose turn it is.
  // Nothing happens where it has asked before or does not wait.
  Verdicts Ask(Id id, absl::Time now);
  // The caller closes the connection itself (kGarbage, kHungUp, kCrowded).
  // Nothing happens where it does not wait.
  void Leave(Id id, Fate why);
  // A connection that was handed on has authenticated or is gone. Returns all
  // whose turn it is now. Nothing happens where it was displaced.
  Verdicts Release(Id id, absl::Time now);
  // Makes room by one, as Arrive does. Nothing where no connection waits.
  Verdicts MakeRoom();
  // What is due by `now`. The caller lets connections Ask with what they have
  // said so far first: Ask never judges how late they are.
  Verdicts Tick(absl::Time now);

  // When to call Tick next; InfiniteFuture: no need.
  absl::Time NextDeadline() const;
  DoorCounts counts() const;
  // How many are remembered.
  size_t addresses() const { return places_.size(); }

 private:
  struct Waiting {
    DoorAddress from;
    absl::Time arrived;
    bool asks = false;
  };
  // A connection that was handed on, and when.
  struct Begun {
    DoorAddress from;
    absl::Time at;
  };
  // An address. Its connections in the order of their arrival.
  struct Place {
    // Waiting ones, without and with an Ask.
    std::set<Id> silent;
    std::set<Id> asking;
    // Handed on and not released.
    std::set<Id> unauthenticated;
    HandshakeBucket bucket;
    // Where it stands, if anybody asks: its key in row_, in held_ (where `held`
    // is set), or in cooling_.
    uint64_t turn = 0;
    bool held = false;
    absl::Time cools_until;

    size_t waiting() const { return silent.size() + asking.size(); }
  };
  // The most crowded first, then the one that has waited longest.
  using Crowd = std::tuple<int64_t, Id, DoorAddress>;
  // Those with the fewest unauthenticated connections first, then in turn.
  using Held = std::tuple<size_t, uint64_t, DoorAddress>;

  static Crowd CrowdOf(const DoorAddress& from, const Place& place);
  Place& PlaceFor(const DoorAddress& from);
  void StandInRow(const DoorAddress& from, Place& place);
  void StepOut(const DoorAddress& from, Place& place);
  // Out of the row until Release makes room for it.
  void Hold(const DoorAddress& from, Place& place);
  void Unhold();
  bool HasRoom(const Place& place, Verdicts& verdicts);
  // Too many handshakes are under way.
  bool Busy(size_t more) const;
  void EndHandshakes();
  void Enter(Id id, const DoorAddress& from, Place& place);
  void Exit(Id id, const DoorAddress& from, Place& place);
  void Retire(const DoorAddress& from, Place& place);
  void Remove(Id id, Fate fate);
  void Close(Id id, Fate fate, Verdicts& verdicts);
  void HandOn(Verdicts& verdicts);
  void CloseLate(std::set<Id>& ids, absl::Duration most, Fate fate,
                 Verdicts& verdicts);
  void Forget();

  const DoorLimits limits_;
  size_t waiting_max_;
  absl::Time now_ = absl::InfinitePast();
  Id newest_ = 0;
  uint64_t last_turn_ = 0;
  DoorCounts counts_;
  HandshakeBucket all_;

  std::map<Id, Waiting> waiting_;
  // Of those who wait, in the order of their arrival.
  std::set<Id> silent_;
  std::set<Id> asking_;

  std::map<DoorAddress, Place> places_;
  std::set<Crowd> crowd_;
  // Addresses with somebody who asks: in turn, or until their bucket lets them.
  std::map<uint64_t, DoorAddress> row_;
  std::set<std::pair<absl::Time, DoorAddress>> cooling_;
  // Addresses whose connections ask to be handed on while their bound is
  // reached.
  std::set<Held> held_;
  // Handed on and not released; and their addresses, with most of them first.
  std::map<Id, Begun> unauthenticated_;
  std::set<std::pair<int64_t, DoorAddress>> most_;
  // Handshakes that are under way, by their beginning.
  std::set<std::pair<absl::Time, Id>> handshakes_;
  // Addresses where no connection waits, by the time their burst is whole again.
  std::set<std::pair<absl::Time, DoorAddress>> idle_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_DOORKEEPER_H_
