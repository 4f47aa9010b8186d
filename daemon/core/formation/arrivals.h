// Arrivals: when nodes that attend are taken into a world.
//
// LastCall says when a gathering that has enough nodes stops waiting for more.
// Newcomers says how long a node that was lost soon after it joined gets no
// seat. Both keep one rule: nodes that come and go repeatedly do not prevent a
// world of enough other nodes from being formed, or from training.
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

// Losses of nodes that had not been in a world for newcomer_lasts yet. The
// first loss delays nothing; each further one doubles the delay. The count is
// reset when a node has had no loss for newcomer_lasts after its delay.
//
// The first newcomer_names_max names are counted each by itself, so that a node
// that flaps delays no other. Losses of all further names are counted together,
// and delay every newcomer that is not counted by itself, since an agent with a
// valid token may use as many names as it likes.
class Newcomers {
 public:
  struct Hold {
    // The node gets no seat before then.
    absl::Time until = absl::InfinitePast();
    // The delay after the latest loss.
    absl::Duration delay;
    uint32_t losses = 0;
    // Counted for this name alone.
    bool own = false;
  };

  // A node that was in a world, or for which a world was ended, was lost or
  // left. `lasted`: how long ago this incarnation's first world was committed.
  // Several losses in one generation count as one, except for names that are
  // counted each by itself.
  void Lost(const std::string& name, uint64_t generation, absl::Duration lasted,
            absl::Time now, const Limits& limits);
  // The same for this node, if it is a member or a world was ended for it; of a
  // member, once in each generation.
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
  // At `at`, or at a time before that was set already.
  void GrowBy(absl::Time at) { grow_at_ = std::min(grow_at_, at); }
  // At `at`, whatever was set before.
  void GrowAt(absl::Time at) { grow_at_ = at; }
  // No world runs that could grow.
  void StopGrowing() { grow_at_ = absl::InfiniteFuture(); }

 private:
  struct Count {
    uint32_t losses = 0;
    uint64_t generation = 0;  // Of the latest loss.
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
