// Arrivals: from when on nodes that attend are taken into a world.
//
// LastCall says when a gathering that has enough nodes waits for no more.
// Newcomers says how long a node that was lost soon after it joined gets no
// seat. Both keep one rule: nodes that come and go again and again keep no
// world of enough other nodes from being formed, or from training.
//
// Not journaled: after a restart of the daemon the counting begins again.
// Thread rule: one thread at a time; in practice the loop thread only.
#ifndef ROLLCALL_DAEMON_CORE_ARRIVALS_H_
#define ROLLCALL_DAEMON_CORE_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

// Of one gathering. While too few nodes attend, each arrival counts. From then
// on only a name that has not attended this gathering before counts, and for
// no longer than arrivals_wait_max.
class LastCall {
 public:
  explicit LastCall(absl::Time began) : began_(began), latest_(began) {}

  // `previous`: when the same name attended before; InfinitePast: never.
  void Arrived(absl::Time previous, absl::Time now, const Limits& limits);
  // Whether enough nodes attend for a world.
  void SetEnough(bool enough, absl::Time now);
  // When it ends, where no further arrival counts.
  absl::Time Ends(const Limits& limits) const {
    return latest_ + limits.last_call;
  }
  // Arrivals were left out because enough nodes had waited for too long.
  bool overdue() const { return overdue_; }

 private:
  absl::Time began_;
  absl::Time latest_;
  absl::Time enough_since_ = absl::InfiniteFuture();
  bool overdue_ = false;
};

// Losses of nodes that had not lasted in a world for newcomer_lasts yet. The
// first loss delays nothing; each further one doubles the delay, until a node
// has had no loss for newcomer_lasts after its delay.
//
// The first newcomer_names_max names are counted each by itself, so that one
// that flaps delays no other. The losses of all further names are counted
// together, and delay every newcomer that is not counted by itself: an agent
// with a valid token may use as many names as it likes.
class Newcomers {
 public:
  struct Hold {
    // No seat before then; in the past: it may have one.
    absl::Time until = absl::InfinitePast();
    // Since the latest loss.
    absl::Duration delay;
    uint32_t losses = 0;
    // Of this name alone.
    bool own = false;
  };

  // A node that was in a world, or for which a world was ended, is out.
  // `lasted`: how long it had been in worlds in this life. Several losses in
  // one generation count as one, but for those counted by name.
  void Lost(const std::string& name, uint64_t generation, absl::Duration lasted,
            absl::Time now, const Limits& limits);
  Hold HoldOf(const std::string& name, absl::Time now,
              const Limits& limits) const;
  size_t names() const { return names_.size(); }

 private:
  struct Count {
    uint32_t losses = 0;
    uint64_t generation = 0;  // Of the latest.
    absl::Duration delay;
    absl::Time until = absl::InfinitePast();

    void Add(uint64_t generation, absl::Time now, const Limits& limits);
    bool Forgotten(absl::Time now, const Limits& limits) const {
      return now >= until + limits.newcomer_lasts;
    }
  };

  std::map<std::string, Count> names_;
  Count others_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ARRIVALS_H_
