// Claims: the worlds in which agents report to run, of a run that this daemon
// has no memory of, and which of these worlds the daemon adopts.
//
// An agent sends its world and the commit of that world. Over half of a world's
// members have to send the same bytes before the run is adopted. Of several
// such worlds, the one with the highest generation is adopted. While fewer
// members claim a world with a higher generation, the daemon waits for the rest
// of its members.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_ADOPTION_CLAIMS_H_
#define ROLLCALL_DAEMON_CORE_ADOPTION_CLAIMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Claims {
 public:
  // A claimed world, stored once for all agents that claim it.
  struct Claimed {
    std::string world_bytes;
    std::string world_commit_bytes;
    v1::World world;
    v1::WorldCommit world_commit;
    // The streams of the nodes that claim it, by node name.
    std::map<std::string, uint64_t> by;

    bool most() const {
      return by.size() * 2 > static_cast<size_t>(world.members_size());
    }
  };

  // Keeps the claim of this Hello, for a job with this many nodes. The shell
  // has verified the credential and the proof of the commit. `epoch`: that of
  // the credential. False: the claimed world cannot be a world of this job, or
  // Limits::claimed_worlds_max other worlds are claimed.
  bool Take(uint64_t session, const v1::Hello& hello, uint64_t epoch,
            uint32_t nodes_min, uint32_t nodes_max);
  // The stream by which this node claims a world.
  std::optional<uint64_t> StreamOf(const std::string& node) const;
  void Drop(uint64_t session);
  void Clear() { claimed_.clear(); }

  // The world to adopt; nullptr: none yet. `time_is_over`: do not wait for
  // further claims. Valid until the next non-const call.
  const Claimed* Chosen(bool time_is_over) const;
  size_t size() const { return claimed_.size(); }

 private:
  Claimed* Find(const v1::Hello& hello, uint64_t epoch, uint32_t nodes_min,
                uint32_t nodes_max);

  std::vector<Claimed> claimed_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADOPTION_CLAIMS_H_
