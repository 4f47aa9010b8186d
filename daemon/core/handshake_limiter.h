// HandshakeLimiter: the limiter of TLS handshakes. Decides which connections
// may wait before their handshake, and when each is handed on to gRPC.
//
// A connection waits from its arrival until it has sent the beginning of a
// handshake (it "asks") and the rates allow it to be handed on. Handshakes
// above the rates are not refused but delayed, in turn among addresses. The
// limiter never touches a connection: it returns what the caller has to do.
//
// A connection that was handed on counts as unauthenticated until Release.
// Their number is bounded in total and for each network. Connections of a
// network at its bound wait until one of its unauthenticated connections is
// released or `handshake_time` old; one that is so old is displaced. At the
// total bound, all connections wait. But if a network has clearly fewer
// connections than the network with the most, one of its connections may
// displace the newest connection of that network.
//
// The number of handshakes under way is bounded, so that each one that begins
// ends soon: if thousands shared the processors, all would end too late. A
// handshake is under way until Release, and for at most `handshake_time`, so
// that clients that stop halfway do not delay the others for longer. At
// `handshakes_at_once` all connections wait, except those of a network that has
// clearly fewer unauthenticated connections than the network with the most; at
// twice that number these wait too.
//
// Addresses take turns. At one address, the newest connection is handed on
// first, because it has the most time left until its client gives up. The
// oldest one would often be handed on too late.
//
// Pure: no clock, no socket. The caller passes in the time, which never goes
// backwards. One thread. O(log n) for each event and each verdict.
//
// Invariants, after each call:
// 1. At most waiting_max connections wait, or at most as many as Limit has
//    set. Of one address, at most waiting_per_address_max have not asked.
// 2. An address is remembered only while a connection waits there or is
//    unauthenticated, or while its burst is not whole; Tick removes the others.
//    At most addresses_max are remembered, not counting those with
//    unauthenticated connections.
// 3. After Tick(now), NextDeadline() > now.
// 4. At most unauthenticated_max connections are unauthenticated, at most
//    unauthenticated_per_network_max of one network. At most twice
//    handshakes_at_once handshakes are under way.
#ifndef ROLLCALL_DAEMON_CORE_HANDSHAKE_LIMITER_H_
#define ROLLCALL_DAEMON_CORE_HANDSHAKE_LIMITER_H_

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
#include "daemon/core/rate_bucket.h"

namespace rollcall {

// The source address of a connection, in the form in which connections are
// counted: an IPv6 /64, or an IPv4 address written as an IPv4-mapped one.
using SourceAddress = std::array<uint8_t, 16>;
SourceAddress SourceAddressOfIpv4(const std::array<uint8_t, 4>& address);
SourceAddress SourceAddressOfIpv6(const std::array<uint8_t, 16>& address);

// Reduces `limits` for a process that may open this many descriptors. The
// connections that the limits allow may then take at most 29/32 of the
// descriptors, where a connection that UnauthenticatedConnections watches and
// that is not an agent's takes two. The rest is left for the journal, the log
// and admins' calls.
ConnectionLimits FittedTo(ConnectionLimits limits, size_t descriptors);

// Why a connection no longer waits.
enum class Fate {
  kHandedOn,
  kSilent,     // It sent nothing for too long.
  kGarbage,    // It sent data that does not begin a handshake.
  kCrowded,    // Too many waited: see Arrive.
  kImpatient,  // It asked, but its turn did not come in time.
  kHungUp,     // Its peer closed it.
  // It was handed on and has not authenticated; another connection of its
  // network, or a network with fewer unauthenticated connections, needed its
  // place. Disconnect it.
  kDisplaced,
};

// Totals since the start, except `waiting` and `unauthenticated`.
struct HandshakeCounts {
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

class HandshakeLimiter {
 public:
  // The caller's number of a connection; numbers increase.
  using Id = uint64_t;
  // `id` no longer waits: hand it on, or close it. kDisplaced: it was handed on
  // before, and the caller does not call Release for it.
  struct Verdict {
    Id id;
    Fate fate;
  };
  using Verdicts = std::vector<Verdict>;

  explicit HandshakeLimiter(const ConnectionLimits& limits);

  // A connection was accepted and waits from now on. If too many of its address
  // have not asked, the oldest of those is closed for it. If too many wait in
  // total, one is closed at the address where most wait: the oldest that has
  // not asked, else the oldest that has.
  Verdicts Arrive(Id id, const SourceAddress& from, absl::Time now);
  // From now on at most `waiting_max` connections may wait, and never more than
  // the limits allow. Connections beyond that are closed, chosen as in Arrive.
  Verdicts Limit(size_t waiting_max);
  // The connection has begun its handshake. Returns all connections whose turn
  // it is. No effect if it has asked before or does not wait.
  Verdicts Ask(Id id, absl::Time now);
  // The caller closes the connection itself (kGarbage, kHungUp, kCrowded). No
  // effect if it does not wait.
  void Leave(Id id, Fate why);
  // A connection that was handed on has authenticated or is closed. Returns all
  // connections whose turn it is now. No effect if it was displaced.
  Verdicts Release(Id id, absl::Time now);
  // The client of this connection has shown a valid credential and sends its
  // Hello. Its handshake is no longer under way, and it counts as handed on
  // now, so that it is not displaced within another handshake_time. Returns all
  // connections whose turn it is now.
  Verdicts Introduce(Id id, absl::Time now);
  // The address has sent so many bytes in vain: it loses handshakes for them.
  void Charge(const SourceAddress& from, uint64_t bytes, absl::Time now);
  // Closes one waiting connection, chosen as in Arrive. No effect if none
  // waits.
  Verdicts MakeRoom();
  // Returns the verdicts that are due by `now`. The caller must first call Ask
  // for connections that have sent data, because Ask does not check whether
  // they are late.
  Verdicts Tick(absl::Time now);

  // When to call Tick next; InfiniteFuture: no call is needed.
  absl::Time NextDeadline() const;
  HandshakeCounts counts() const;
  // Number of addresses remembered.
  size_t addresses() const { return places_.size(); }

 private:
  struct Waiting {
    SourceAddress from;
    absl::Time arrived;
    bool asks = false;
  };
  // A connection that was handed on, and the time of that or of an
  // introduction.
  struct Begun {
    SourceAddress from;
    absl::Time at;
  };
  // One address. The ids of its connections are in the order of their arrival.
  struct Place {
    // Waiting connections that have not asked, and those that have.
    std::set<Id> silent;
    std::set<Id> asking;
    // Handed on and not released, by the time of that or of an introduction.
    std::set<std::pair<absl::Time, Id>> unauthenticated;
    RateBucket bucket;
    // The position of an address with connections that ask: its key in queue_,
    // in held_ (if `held` is set) or in cooling_.
    uint64_t turn = 0;
    bool held = false;
    absl::Time cools_until;

    size_t waiting() const { return silent.size() + asking.size(); }
  };
  // Sorts the address with the most waiting connections first; of equal ones,
  // the address that has waited longest.
  using Crowd = std::tuple<int64_t, Id, SourceAddress>;
  // Sorts addresses with the fewest unauthenticated connections first, then by
  // turn.
  using Held = std::tuple<size_t, uint64_t, SourceAddress>;

  static Crowd CrowdOf(const SourceAddress& from, const Place& place);
  Place& PlaceFor(const SourceAddress& from);
  void Enqueue(const SourceAddress& from, Place& place);
  void Dequeue(const SourceAddress& from, Place& place);
  void Requeue(const SourceAddress& from, Place& place);
  // Removes the address from the queue until Unhold puts it back.
  void Hold(const SourceAddress& from, Place& place);
  void Unhold();
  absl::Time RoomAt(const Place& place) const;
  bool HasRoom(const SourceAddress& from, Place& place, Verdicts& verdicts);
  void Displace(Id id, const SourceAddress& from, Place& place,
                Verdicts& verdicts);
  // Whether a network with so many unauthenticated connections has clearly
  // fewer than the network with the most.
  bool HasClearlyFewer(size_t here) const;
  // Whether the handshakes under way, and `before` more that begin first, allow
  // one more to a network with `here` unauthenticated connections.
  bool MayBegin(size_t here, size_t before) const;
  void EndHandshakes();
  void Enter(Id id, const SourceAddress& from, Place& place);
  void Exit(Id id, const SourceAddress& from, Place& place);
  void Retire(const SourceAddress& from, Place& place);
  void Remove(Id id, Fate fate);
  void Close(Id id, Fate fate, Verdicts& verdicts);
  void HandOn(Verdicts& verdicts);
  void CloseLate(std::set<Id>& ids, absl::Duration most, Fate fate,
                 Verdicts& verdicts);
  void Forget();

  const ConnectionLimits limits_;
  size_t waiting_max_;
  absl::Time now_ = absl::InfinitePast();
  Id newest_ = 0;
  uint64_t last_turn_ = 0;
  HandshakeCounts counts_;
  RateBucket all_;

  std::map<Id, Waiting> waiting_;
  // The ids of waiting connections, in the order of their arrival.
  std::set<Id> silent_;
  std::set<Id> asking_;

  std::map<SourceAddress, Place> places_;
  std::set<Crowd> crowd_;
  // Addresses with connections that ask: in turn, or waiting for their bucket
  // or for their bound on unauthenticated connections.
  std::map<uint64_t, SourceAddress> queue_;
  std::set<std::pair<absl::Time, SourceAddress>> cooling_;
  // Addresses whose connections ask while the bound on all unauthenticated
  // connections, or on handshakes under way, is reached.
  std::set<Held> held_;
  // The connections that were handed on and not released; and their addresses,
  // the one with the most connections first.
  std::map<Id, Begun> unauthenticated_;
  std::set<std::pair<int64_t, SourceAddress>> most_;
  // Handshakes under way, by the time at which they began.
  std::set<std::pair<absl::Time, Id>> handshakes_;
  // Addresses where no connection waits, by the time at which their burst is
  // whole again.
  std::set<std::pair<absl::Time, SourceAddress>> idle_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANDSHAKE_LIMITER_H_
