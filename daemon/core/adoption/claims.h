// Claims: the worlds that agents say they run in, of a run that this daemon has
// no memory of, and which of them it goes on with.
//
// An agent brings its world and the commit of it along. Over half of a world's
// members have to bring the same bytes before the run is adopted. Of several
// such worlds the one with the highest generation counts; while a higher one is
// claimed by fewer, the rest of its members are waited for.
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
  // A world, once for all who claim it.
  struct Claimed {
    std::string world_bytes;
    std::string seal_bytes;
    v1::World world;
    v1::Seal seal;
    // The streams of the nodes that claim it.
    std::map<std::string, uint64_t> by;

    bool most() const {
      return by.size() * 2 > static_cast<size_t>(world.members_size());
    }
  };

  // Of a job with this many nodes. Keeps the claim of this Hello, whose
  // credential and proof of the commit the shell has verified; `epoch`: the
  // credential's. False: it runs in no world that can be this job's, or
  // Limits::claimed_worlds_max other worlds are claimed.
  bool Take(uint64_t session, const v1::Hello& hello, uint64_t epoch,
            uint32_t nodes_min, uint32_t nodes_max);
  // The stream by which this node claims a world.
  std::optional<uint64_t> StreamOf(const std::string& node) const;
  void Drop(uint64_t session);
  void Clear() { claimed_.clear(); }

  // What the job goes on with; nullptr: nothing yet. `time_is_over`: no further
  // claim is waited for. Valid until the next call that changes this.
  const Claimed* Chosen(bool time_is_over) const;
  size_t size() const { return claimed_.size(); }

 private:
  Claimed* Find(const v1::Hello& hello, uint64_t epoch, uint32_t nodes_min,
                uint32_t nodes_max);

  std::vector<Claimed> claimed_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADOPTION_CLAIMS_H_
