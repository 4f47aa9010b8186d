// Rank: what a training process links to be more than a plain command.
//
// It attends the agent that started it and is told its world; values are
// exchanged with all ranks of that world through it (the store that a
// collective library needs to find its peers); progress goes to the agent, and
// aborts and notices come from it. It runs no collective, touches no GPU,
// starts no process and installs no signal handler.
//
// A rank that attends as elastic lives on over a change of world:
//
//   aborted()         the world has ended: tear the communicator down, then
//   Stopped(...)      say what state is held, and
//   NextWorld()       wait for the next world; world() is that one from then on
//   noticed()         somebody asked for a boundary: agree with the other ranks
//                     on a step in-band, stop after it, say
//   NoticeSeen(step)  and wait: AwaitAbort.
//
// One that is not is stopped by a signal, and its successor started anew.
//
// Thread rule: any thread may call any function, but for NextWorld, beside
// which nobody may use what it replaces (world() and what is read from it).
// What a training loop asks at each step (lost, aborted, noticed) is one atomic
// load.
#ifndef ROLLCALL_CLIENT_RANK_RANK_H_
#define ROLLCALL_CLIENT_RANK_RANK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/rank/place.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

struct RankOptions {
  // For the first world.
  absl::Duration timeout = absl::Seconds(30);
  // Stays alive over a change of world: see above.
  bool elastic = false;
};

// Which collective of this world a rank has entered last, and which it has left
// last, by their numbers (1, 2, ...): equal on all ranks that are equally far.
// By them the one is found that the others wait for.
struct RankCollectives {
  uint64_t entered = 0;
  uint64_t left = 0;
};

class Rank {
 public:
  // Attends the agent that the environment names, and blocks until the world
  // is known. FAILED_PRECONDITION: no agent started this process, which then
  // is a world of its own. UNAVAILABLE: the agent is gone. ABORTED: a newer
  // process has this place; end. Not to be retried but for UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Rank>> Attend(
      const RankOptions& options = RankOptions());
  static absl::StatusOr<std::unique_ptr<Rank>> Attend(
      const RankPlace& place, const RankOptions& options = RankOptions());

  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // --- The world --------------------------------------------------------
  // Its members, the seal (master address and port, NCCL ids), this rank.
  const v1::RankWorld& world() const;
  uint64_t generation() const;
  uint32_t rank() const;
  uint32_t world_size() const;
  uint32_t local_rank() const;
  // The row of the node that this rank runs on.
  const v1::Member& member() const;
  // How many ranks of the world share this node's address, this one included.
  uint32_t ranks_here() const;

  // --- Values to and from all ranks -------------------------------------
  // Gives `value` for `key` and returns the values of all ranks, by rank, once
  // all have given theirs. Every rank must call it with the same key. Safe to
  // retry with the same value. INVALID_ARGUMENT: over 4 KiB, or the key is not
  // 1 to 128 bytes of printable ASCII. ABORTED: the generation has ended.
  // DEADLINE_EXCEEDED: not all were in within `timeout`. UNAVAILABLE: the agent
  // is gone.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                    absl::string_view value,
                                                    absl::Duration timeout);

  // --- To and from the agent --------------------------------------------
  // Publishes that `step` is done. Never blocks; of several that wait, the
  // latest goes out.
  void Progress(uint64_t step, double loss, double tokens_per_second);

  // What the agent is told when it asks where this rank is, since it has made
  // no progress for long. `where` is called on a thread of its own, and must
  // not block: a rank whose training thread is stuck answers all the same. The
  // last one given counts; nullptr: none. When this returns, the one before
  // runs no more. Not to be called by `where`.
  void WhenAsked(std::function<RankCollectives()> where);

  // The stream to the agent broke: nobody watches over this rank any more. End.
  bool lost() const;
  // The generation has ended.
  bool aborted() const;
  // Somebody asked for a boundary in this generation; `notice` says why.
  bool noticed() const;
  std::optional<v1::RankNotice> notice() const;
  std::optional<v1::RankAbort> abort() const;

  // Calls `wake` once, from any thread, when this generation ends or the agent
  // is lost; at once where that has been. It must not block: it is for what
  // would wait otherwise (a collective). The last one given counts, and only
  // until NextWorld; it may still run when another takes its place.
  void WhenOver(std::function<void()> wake);

  // Blocks until this generation ends. DEADLINE_EXCEEDED: not within `timeout`.
  // UNAVAILABLE: the agent is gone.
  absl::Status AwaitAbort(absl::Duration timeout = absl::InfiniteDuration());
  // Blocks until there is a notice. ABORTED: the generation has ended first.
  absl::Status AwaitNotice();

  // --- From world to world (elastic) --------------------------------------
  // Answers an abort: the communicator is torn down, and this is what is held.
  void Stopped(uint64_t completed_step, bool whole_state);
  // Blocks for the next world. UNAVAILABLE: the agent is gone. INTERNAL: what
  // it sent is no world. CANCELLED: CancelNextWorld.
  absl::Status NextWorld();
  // Ends the wait for the next world, now or when it begins: this process is
  // about to end.
  void CancelNextWorld();
  // Answers the notice: this rank stands at the boundary after `step`.
  void NoticeSeen(uint64_t step);
  // This process was asked to go (SIGTERM, SIGUSR1), and so its node is: a
  // notice follows. Never blocks.
  void AskToLeave();

 private:
  struct Wire;
  explicit Rank(std::unique_ptr<Wire> wire);

  std::unique_ptr<Wire> wire_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_RANK_H_
