// Hangs: the ranks of the running world that are alive and stalled, and when to
// decide which of them is the root cause.
//
// When one rank hangs, all others soon wait for it in a collective, and all are
// reported as stalled. So the verdict waits until all have been reported, or
// until hang_blame_window has passed. Then HangVerdict decides which rank is to
// blame. No rank is to blame if all ranks wait at one position. In that case
// they wait for none of these ranks, or for a rank that cannot be reported yet,
// for example because its node has not attended.
//
// A rank that has not begun (it has neither linked nor published a step) is
// ignored once a rank of its world has published a step: ranks that complete
// steps together do not wait for it, and not every rank of a job has to
// publish.
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
#include "daemon/core/formation/completion.h"
#include "daemon/core/hangs/hang_verdict.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Hangs {
 public:
  // A member of the world, as far as Judge needs it.
  struct Member {
    std::string node;
    uint32_t first_rank = 0;
    // How many of its ranks were started, and which of them have exited 0.
    uint32_t ranks = 0;
    std::set<uint32_t> done;
    // Some of its ranks have linked or published a step.
    bool has_begun = false;
    // Its stream is broken, so its last report may be outdated.
    bool away = false;
    // The member has just come back, and may report its stalled ranks until
    // this time.
    absl::Time tells_until = absl::InfinitePast();
  };
  struct World {
    uint64_t generation = 0;
    uint32_t world_size = 0;
    // Ranks that have ended or were not started, including those of nodes that
    // left.
    size_t ranks_over = 0;
    std::vector<Member> members;

    // The running world, with the members that have not left.
    static World Of(const v1::World& world, const Completion& completion,
                    const Membership& membership);
  };
  struct Decision {
    // The reason for the generation's end.
    v1::RootCause cause;
    // A claim that is not believed although another rank is to blame; it is
    // logged. An empty reason: there is no such claim.
    uint32_t disbelieved_rank = 0;
    std::string disbelieved_node;
    std::string disbelieved_reason;
  };

  // An agent reports that this rank is stalled, or continues (`said.goes_on`).
  // Returns whether it is the first stalled rank.
  bool Take(uint32_t rank, const std::string& node, int node_rank,
            const v1::RankStalled& said, absl::Time now, const Limits& limits);
  // A rank of this generation has published a step.
  void NoteStep(uint64_t generation);
  bool HasStepped(uint64_t generation) const {
    return stepped_in_ == generation;
  }
  // Removes the reports of these ranks.
  void Drop(uint32_t first_rank, uint32_t ranks = 1);
  void DropAll();

  // A member is back and reports its stalled ranks again. The verdict waits for
  // it, at most two leases in total however often members come back.
  void AwaitMember(absl::Time now, const Limits& limits);
  // The daemon was isolated, so newer reports about the ranks may be on their
  // way.
  void BeginAgain(absl::Time now, const Limits& limits);
  // The daemon itself was delayed by this time.
  void PutOff(absl::Duration late) {
    until_ += late;
    at_latest_ += late;
  }

  // When to call Judge again, if nothing changes before.
  absl::Time due() const { return until_; }
  bool empty() const { return stalls_.empty(); }
  size_t size() const { return stalls_.size(); }
  // Whether Judge may reach a verdict: all ranks are stalled or have ended, or
  // due() has come. O(1) in the size of the world.
  bool MayJudge(size_t ranks_over, uint32_t world_size, absl::Time now) const {
    return !stalls_.empty() &&
           (now >= until_ ||
            (!may_be_old_ && stalls_.size() + ranks_over >= world_size));
  }
  // nullopt: it is too early for a verdict.
  std::optional<Decision> Judge(const World& world, absl::Time now,
                                const Limits& limits);

 private:
  void WaitFrom(absl::Time now, const Limits& limits);

  // A stalled rank.
  struct Stall {
    std::string node;
    int node_rank = 0;
    v1::RankStalled said;
    // Increases with each rank that is reported.
    uint64_t number = 0;
  };

  bool AllStand(const World& world) const {
    return stalls_.size() + world.ranks_over >= world.world_size;
  }
  bool AllStandAtOnePlace(const World& world) const;
  std::string WhereAllStand(const World& world) const;
  template <typename Predicate>
  std::vector<std::string> NamesOf(const Predicate& holds) const;
  std::string WhoHasNotBegun(const World& world) const;
  std::string WhoIsBehindInNccl() const;
  std::string WhereItStands(const Stall& stall, uint64_t believed_max) const;
  Decision Blame(const World& world) const;

  // By rank.
  std::map<uint32_t, Stall> stalls_;
  uint64_t last_number_ = 0;
  absl::Time until_ = absl::InfiniteFuture();
  // After this time, the verdict does not wait for members that are away or
  // have just come back.
  absl::Time at_latest_ = absl::InfiniteFuture();
  // Some reports are from before the daemon was isolated, and newer ones may
  // arrive until until_.
  bool may_be_old_ = false;
  // The last generation in which a rank has published a step; 0: none.
  uint64_t stepped_in_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_HANGS_H_
