// Arrivals: when nodes that attend may be taken into a world.
//
// LastCall decides when a gathering with enough nodes stops waiting for more.
// Newcomers decides how long a node gets no seat after it was lost soon after
// it joined. Both follow one rule: nodes that come and go repeatedly must not
// prevent enough other nodes from forming a world or from training.
//
// Not journaled: after a restart of the daemon, counting begins again. Thread
// rule: one thread at a time; in practice the loop thread only.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_ARRIVALS_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_ARRIVALS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"

namespace rollcall {

// The last call of one gathering. While too few nodes attend, each arrival
// counts. After that, only a name that has not attended this gathering before
// counts, and for no longer than arrivals_wait_max.
class LastCall {
 public:
  explicit LastCall(absl::Time began) : began_(began), latest_(began) {}

  // `previous`: when the same name attended before; InfinitePast: never.
  void Arrived(absl::Time previous, absl::Time now, const Limits& limits);
  // Whether enough nodes attend for a world.
  void SetEnough(bool enough, absl::Time now);
  // When the last call ends if no further arrival counts.
  absl::Time Ends(const Limits& limits) const {
    return latest_ + limits.last_call;
  }
  // Whether arrivals were ignored because enough nodes had waited too long.
  bool overdue() const { return overdue_; }

 private:
  absl::Time began_;
  absl::Time latest_;
  absl::Time enough_since_ = absl::InfiniteFuture();
  bool overdue_ = false;
};

// Losses of nodes that had been in worlds for less than newcomer_lasts. The
// first loss delays nothing; each further loss doubles the delay. When a node
// has had no loss for newcomer_lasts after its delay, its count is reset.
//
// The first newcomer_names_max names are counted each by itself, so that a node
// that flaps delays no other node. Losses of all further names are counted
// together. They delay every newcomer that is not counted by itself, because an
// agent with a valid token may use any number of names.
class Newcomers {
 public:
  struct Hold {
    // The node gets no seat before this time.
    absl::Time until = absl::InfinitePast();
    // The delay after the latest loss.
    absl::Duration delay;
    uint32_t losses = 0;
    // Whether the losses of this name are counted by themselves.
    bool own = false;
  };

  // A node that was in a world, or for which a world was ended, was lost or
  // left. `lasted`: how long ago this incarnation's first world was committed.
  // Several losses in one generation count as one, except for names that are
  // counted each by itself.
  void Lost(const std::string& name, uint64_t generation, absl::Duration lasted,
            absl::Time now, const Limits& limits);
  // The same for this node, if it is a member or if a world was ended for it.
  void Lost(Node& node, uint64_t generation, absl::Time now,
            const Limits& limits);
  Hold HoldOf(const std::string& name, absl::Time now,
              const Limits& limits) const;
  // Why this node gets no seat now; empty: not because of losses.
  std::string HoldText(const std::string& name, absl::Time now,
                       const Limits& limits) const;
  size_t names() const { return names_.size(); }

  // When a running world is ended for newcomers that may have a seat.
  absl::Time grow_at() const { return grow_at_; }
  // Sets grow_at() to `at`, unless it is earlier already.
  void GrowBy(absl::Time at) { grow_at_ = std::min(grow_at_, at); }
  // Sets grow_at() to `at`, even if it is earlier already.
  void GrowAt(absl::Time at) { grow_at_ = at; }
  // No world runs that could grow.
  void StopGrowing() { grow_at_ = absl::InfiniteFuture(); }

 private:
  struct Count {
    uint32_t losses = 0;
    uint64_t generation = 0;  // The generation of the latest loss.
    absl::Duration delay;
    absl::Time until = absl::InfinitePast();

    void Add(uint64_t generation, absl::Time now, const Limits& limits);
    bool Forgotten(absl::Time now, const Limits& limits) const {
      return now >= until + limits.newcomer_lasts;
    }
  };

  std::map<std::string, Count> names_;
  Count others_;
  absl::Time grow_at_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_ARRIVALS_H_
