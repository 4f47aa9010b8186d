// WorldChange: a generation on this node from its Proposal to the start of its
// ranks: prepared, promised to the daemon, committed.
//
// It does not know the ranks: the caller says when they have stopped or wait.
//
// Invariants:
//   1. Prepared is sent once on each stream, and again when it has become wrong
//      because a rank that waited has ended.
//   2. A Commit counts only after Prepared was sent, and once.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_WORLD_CHANGE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_WORLD_CHANGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class WorldChange {
 public:
  // What the start of the ranks needs.
  struct Committed {
    v1::World world;
    std::string world_bytes;
    v1::WorldCommit world_commit;
    std::string world_commit_bytes;
    std::string proof;
    // The latest notice that arrived between the Commit and the start.
    std::optional<v1::Notice> notice;
  };

  // `world_bytes`: `world` as the daemon sent it. `node_rank`: this node's.
  WorldChange(v1::World world, std::string world_bytes, uint32_t node_rank);

  uint64_t generation() const { return world().generation(); }
  const v1::World& world() const { return change_.world; }
  uint32_t node_rank() const { return node_rank_; }
  // This node's row.
  const v1::Member& member() const {
    return world().members(static_cast<int>(node_rank_));
  }

  // The preparation on this node is done.
  void Done(v1::Prepared prepared) { prepared_ = std::move(prepared); }
  bool prepared() const { return prepared_.has_value(); }

  // Prepared is to be sent once all ranks that are left wait.
  bool owes_prepared() const { return prepared() && !said_ && !committed(); }
  // Prepared is sent. Requires owes_prepared().
  v1::Prepared TakePrepared();
  // It must be sent again: the stream is new, or a rank that waited has ended.
  void SayAgain() { said_ = false; }

  // Whether a Commit of this generation counts now.
  bool Awaits(uint64_t generation) const {
    return promised_ && !committed() && generation == this->generation();
  }
  // Takes the Commit. Requires Awaits. Returns false if it does not fit the
  // world; nothing has changed then.
  bool Commit(const v1::Commit& commit);
  // The start waits until the descendants of ranks that have ended are gone.
  bool committed() const { return committed_; }
  // The world cannot start, but the daemon does not know this yet. It may send
  // the Commit again.
  void ForgetCommit() { committed_ = false; }

  // Keeps a notice for the start. Returns false if the notice is not for this
  // generation, or nothing is committed yet.
  bool Keep(const v1::Notice& notice);
  // The local rank from whose state all ranks start; nullopt: it is on another
  // node, or there is none. Requires committed().
  std::optional<uint32_t> LocalSource() const;
  // Requires committed().
  Committed Start() &&;

 private:
  uint32_t node_rank_;
  std::optional<v1::Prepared> prepared_;
  bool said_ = false;  // On the current stream.
  // Prepared was sent at least once.
  bool promised_ = false;
  bool committed_ = false;
  Committed change_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_WORLD_CHANGE_H_
