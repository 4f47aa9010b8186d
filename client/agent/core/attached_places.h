// AttachedPlaces: which local ranks of an agent that starts no ranks itself
// (join --attach) have a process, and when such a rank counts as gone.
//
// A process enters its place in the running world if no process has entered
// that place in this world. Otherwise it waits as the newcomer of the place and
// enters in the next world. A place whose process has gone stays empty until
// the next world, so that no world has two processes for one rank.
//
// The agent cannot kill such a process. A place is free for the next world once
// its process has answered the abort, or its connection has ended: the kernel
// closes the connection of a process that dies. The agent keeps the connection
// of a process that does not answer open, because its end is the only proof
// that the process has died.
//
// Pure; one thread at a time. The caller owns the connections.
//
// Invariant: a place has at most one process that was given a world.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_ATTACHED_PLACES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_ATTACHED_PLACES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class AttachedPlaces {
 public:
  explicit AttachedPlaces(uint32_t ranks) : places_(ranks) {}

  uint32_t ranks() const { return static_cast<uint32_t>(places_.size()); }

  // A world begins. Processes that are in their places stay. Returns the local
  // ranks whose newcomers enter.
  std::vector<uint32_t> Open(uint64_t generation);
  // The world of `generation`, or an older one, has ended.
  void Close(uint64_t generation);

  // A process attaches for `local_rank` (less than ranks()). True: it enters
  // the running world. False: it is now the newcomer of the place; an earlier
  // newcomer is replaced.
  bool Arrive(uint32_t local_rank);
  // The place has a process that was given a world.
  bool Lives(uint32_t local_rank) const { return places_[local_rank].lives; }

  // The process has answered the abort of `generation`. True: Stop was called
  // for it, so the caller ends its connection now.
  bool Answered(uint32_t local_rank, uint64_t generation);
  // The process has reported how it ends. Requires an exit code of at most 255.
  void Finished(uint32_t local_rank, const v1::RankFinished& finished);

  struct Departure {
    RankEnded ended;
    // Set if Stop was called for this rank.
    std::optional<RanksGone> gone;
  };
  // The connection of the process in this place has ended. `pid`: the pid that
  // the process sent. `why`: the status with which the agent ended the
  // connection; OK: the agent did not end it.
  Departure Leave(uint32_t local_rank, int32_t pid, const absl::Status& why);
  // The newcomer's connection has ended.
  void NewcomerLeft(uint32_t local_rank) {
    places_[local_rank].newcomer = false;
  }

  enum class Stopping {
    kGone,    // The place has no process, and gets none in this world.
    kEndIt,   // The process has answered the abort: end its connection.
    kAwaited  // Leave() returns RanksGone when it is gone.
  };
  // Asks for the end of this rank.
  Stopping Stop(const RankIncarnation& rank);

 private:
  struct Place {
    // A process has entered in the running world, or none may enter any more.
    bool taken = false;
    bool lives = false;
    uint64_t born = 0;  // The generation in which the process entered.
    bool answered = false;
    bool stopping = false;
    std::optional<RankEnded> finished;
    bool newcomer = false;
  };

  std::vector<Place> places_;
  uint64_t generation_ = 0;
  bool open_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_ATTACHED_PLACES_H_
