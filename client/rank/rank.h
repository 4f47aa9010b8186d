// Rank: what a training process links to be more than a plain command.
//
// It attends the agent that started it and is told its world; values are
// exchanged with all ranks of that world through it (the store that a
// collective library needs to find its peers); progress goes to the agent, and
// aborts and notices come from it. It runs no collective, touches no GPU,
// starts no process and installs no signal handler.
//
// Thread rule: any thread may call any function. What a training loop asks at
// each step (lost, aborted, noticed) is one atomic load.
//
// A Rank lives in one world: a process that gets another one is started anew.
#ifndef ROLLCALL_CLIENT_RANK_RANK_H_
#define ROLLCALL_CLIENT_RANK_RANK_H_

#include <cstdint>
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

class Rank {
 public:
  // Attends the agent that the environment names, and blocks until the world
  // is known. FAILED_PRECONDITION: no agent started this process, which then
  // is a world of its own. UNAVAILABLE: the agent is gone. ABORTED: a newer
  // process has this place; end. Not to be retried but for UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Rank>> Attend();
  static absl::StatusOr<std::unique_ptr<Rank>> Attend(
      const RankPlace& place, absl::Duration timeout = absl::Seconds(30));

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
  // retry with the same value. INVALID_ARGUMENT: over 4 KiB, or key over 128
  // bytes. ABORTED: the generation has ended. DEADLINE_EXCEEDED: not all were
  // in within `timeout`. UNAVAILABLE: the agent is gone.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                    absl::string_view value,
                                                    absl::Duration timeout);

  // --- To and from the agent --------------------------------------------
  // Publishes that `step` is done. Never blocks; of several that wait, the
  // latest goes out.
  void Progress(uint64_t step, double loss, double tokens_per_second);

  // The stream to the agent broke: nobody watches over this rank any more. End.
  bool lost() const;
  // The generation has ended: stop.
  bool aborted() const;
  // Somebody asked to save and stop; `notice` has kind and deadline.
  bool noticed() const;
  std::optional<v1::RankNotice> notice() const;
  std::optional<v1::RankAbort> abort() const;

 private:
  struct Wire;
  explicit Rank(std::unique_ptr<Wire> wire);

  std::unique_ptr<Wire> wire_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_RANK_H_
