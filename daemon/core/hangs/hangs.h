// Hangs: the ranks of the world that runs which live and stand still, and when
// it is judged which of them began it.
//
// When one rank hangs, all others soon wait for it in a collective, and all are
// said to stand still. So nothing is judged until all have been, or
// hang_settlement is over; then HangVerdict says which one is to blame. Nobody
// is where all ranks wait at one place: they wait for none of them, or for one
// that cannot be seen to stand still, as before it attends.
//
// A rank that has not begun (neither linked nor published a step) counts for
// nothing once a rank of its world has published a step: ranks that make steps
// together do not wait for it, and not every rank of a job needs to publish.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_HANGS_HANGS_H_
#define ROLLCALL_DAEMON_CORE_HANGS_HANGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/hangs/hang_verdict.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Hangs {
 public:
  // What Judge needs to know of a node of the world.
  struct Member {
    std::string node;
    uint32_t first_rank = 0;
    // How many of its ranks were started, and those of them that have exited 0.
    uint32_t ranks = 0;
    std::set<uint32_t> done;
    // Ranks of it have linked or published a step.
    bool has_begun = false;
    // Its stream is broken, and what it has said may be out of date.
    bool away = false;
    // Until then it may still say again what stands: it has just come back.
    absl::Time tells_until = absl::InfinitePast();
  };
  struct World {
    uint64_t generation = 0;
    uint32_t world_size = 0;
    // Ranks that are over or were not started, also of nodes that have left.
    size_t ranks_over = 0;
    std::vector<Member> members;
  };
  struct Decision {
    // Why the generation ends.
    v1::RootCause cause;
    // Of a claim that is not believed, though another rank is to blame: what to
    // log. Empty reason: there is none.
    uint32_t disbelieved_rank = 0;
    std::string disbelieved_node;
    std::string disbelieved_reason;
  };

  // This rank is said to stand still, or to go on (`said.goes_on`). Returns
  // whether it is the first one that stands.
  bool Take(uint32_t rank, const std::string& node, int node_rank,
            const v1::RankStalled& said, absl::Time now, const Limits& limits);
  // A rank of this generation has published a step.
  void NoteStep(uint64_t generation);
  bool HasStepped(uint64_t generation) const {
    return stepped_in_ == generation;
  }
  // Nothing is said of these ranks any more.
  void Drop(uint32_t rank);
  void DropAll();

  // A member is back and says again what stands: it is given the time for that,
  // however often it comes back up to two leases in all.
  void AwaitMember(absl::Time now, const Limits& limits);
  // The daemon was cut off: what has become of the ranks is on its way.
  void BeginAgain(absl::Time now, const Limits& limits);
  // The daemon itself was held up for that long.
  void PutOff(absl::Duration late) {
    until_ += late;
    at_latest_ += late;
  }

  // When Judge is to be asked again, if nothing changes before.
  absl::Time due() const { return until_; }
  bool empty() const { return stalls_.empty(); }
  size_t size() const { return stalls_.size(); }
  // Whether Judge could say more than that it is too early: all ranks stand or
  // are over, or due() has come. Costs little, whatever the size of the world.
  bool MayJudge(size_t ranks_over, uint32_t world_size, absl::Time now) const {
    return !stalls_.empty() &&
           (now >= until_ ||
            (!may_be_old_ && stalls_.size() + ranks_over >= world_size));
  }
  // nullopt: it is too early to say.
  std::optional<Decision> Judge(const World& world, absl::Time now,
                                const Limits& limits);

 private:
  void WaitFrom(absl::Time now, const Limits& limits);

  // A rank that stands still.
  struct Stall {
    std::string node;
    int node_rank = 0;
    v1::RankStalled said;
    // Grows with each rank that is said to.
    uint64_t number = 0;
  };

  bool AllStand(const World& world) const {
    return stalls_.size() + world.ranks_over >= world.world_size;
  }
  bool AllStandAtOnePlace(const World& world) const;
  std::string WhereAllStand(const World& world) const;
  std::string WhoHasNotBegun(const World& world) const;
  std::string WhereItStands(const Stall& stall, uint64_t believed_max) const;
  Decision Blame(const World& world) const;

  // By their number in the world.
  std::map<uint32_t, Stall> stalls_;
  uint64_t last_number_ = 0;
  absl::Time until_ = absl::InfiniteFuture();
  // Who is away, or has just come back, is waited for no longer.
  absl::Time at_latest_ = absl::InfiniteFuture();
  // The daemon was cut off since some were said, and until until_ may hear what
  // has become of them.
  bool may_be_old_ = false;
  // The last generation of which a rank has published a step; 0: none.
  uint64_t stepped_in_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_HANGS_H_
