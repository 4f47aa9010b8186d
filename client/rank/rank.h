// Rank: makes a training process a linked rank.
//
// It attends the agent that started the process and gets its world from it. It
// exchanges values with all ranks of that world (the store that a collective
// library needs to find its peers), sends progress to the agent, and receives
// aborts and notices. It runs no collective, uses no GPU, starts no process and
// installs no signal handler.
//
// An elastic rank process stays alive over a change of world:
//
//   aborted()         the world has ended: tear the communicator down, then
//   Stopped(...)      report the state that this rank has, and
//   NextWorld()       wait for the next world; then world() returns that one
//   noticed()         a boundary was asked for: agree with the other ranks on a
//                     step in-band, stop after it, call
//   NoticeSeen(step)  and wait: AwaitAbort.
//
// A process that is not elastic is stopped by a signal, and a new one started.
//
// Thread rule: any thread may call any function. While NextWorld runs, no other
// thread may use what it replaces (world() and everything that is read from
// it). The functions that a training loop calls at each step (lost, aborted,
// noticed) are one atomic load each.
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
#include "client/rank/rank_location.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

struct RankOptions {
  // How long Attend waits for the first world.
  absl::Duration timeout = absl::Seconds(30);
  // The process stays alive over a change of world; see the top of this file.
  bool elastic = false;
  // Attend returns CANCELLED once this descriptor is readable, if no world has
  // come before. It must stay open until Attend returns. -1: none.
  int cancel_fd = -1;
};

// The numbers (1, 2, ...) of two collectives of this world: the one that a rank
// has entered last, and the one that it has left last. A collective has the
// same number on all ranks, so the daemon can find the rank that the others
// wait for.
struct RankCollectives {
  uint64_t entered = 0;
  uint64_t left = 0;
};

// A step that is done, and what is known of it. A number that is not finite or
// is below zero is not shown, nor is a share above 1; unset: unknown.
struct RankStep {
  uint64_t step = 0;
  uint64_t steps = 0;  // Of the whole training; 0: unknown.
  double loss = 0;
  double tokens_per_second = 0;         // Of the whole world.
  std::optional<double> gradient_norm;  // Before clipping.
  // Floating-point operations of the model a second, as a share of what the
  // device can do at most (MFU); 0 to 1.
  std::optional<double> flops_utilization;
  std::optional<double> validation_loss;  // Of the latest validation.
  // The most memory used so far: on this rank's device, or by its process on a
  // CPU; 0: unknown.
  uint64_t memory_bytes = 0;
};

class Rank {
 public:
  // Attends the agent that the environment names, and blocks until the world is
  // known. FAILED_PRECONDITION: no agent started this process, so it is a world
  // of its own; or the agent has another version. UNAVAILABLE: the agent is
  // gone; a retry is safe. DEADLINE_EXCEEDED: no world came within the options'
  // timeout. CANCELLED: see the options. After both, the agent may have given
  // this process a place in a world meanwhile, which then ends because its rank
  // is gone: to wait for long, give a long timeout. ABORTED: a newer process
  // has this local rank, or the world that this process was started for no
  // longer exists; end the process. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the
  // agent does not accept this process; the message has the reason.
  //
  // A forked child must neither use nor destroy the object; it must execute
  // another program or call _exit.
  static absl::StatusOr<std::unique_ptr<Rank>> Attend(
      const RankOptions& options = RankOptions());
  static absl::StatusOr<std::unique_ptr<Rank>> Attend(
      const RankLocation& place, const RankOptions& options = RankOptions());

  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // --- The world --------------------------------------------------------
  // The members, the world commit (master address and port, NCCL ids), and this
  // rank.
  const v1::RankWorld& world() const;
  uint64_t generation() const;
  uint32_t rank() const;
  uint32_t world_size() const;
  uint32_t local_rank() const;
  // The row of the node that this rank runs on.
  const v1::Member& member() const;
  // The number of ranks of the world that share this node's address, including
  // this one.
  uint32_t ranks_here() const;

  // --- Values to and from all ranks -------------------------------------
  // Gives `value` for `key`, waits until all ranks have given theirs, and
  // returns all values, by rank. Every rank must call it with the same key.
  // Safe to retry with the same value. INVALID_ARGUMENT: the value is over 4
  // KiB, or the key is not 1 to 128 bytes of printable ASCII. ABORTED: the
  // generation has ended. DEADLINE_EXCEEDED: not all ranks gave a value within
  // `timeout`. UNAVAILABLE: the agent is gone. CANCELLED: another thread of
  // this process has begun an exchange of the same key.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                    absl::string_view value,
                                                    absl::Duration timeout);

  // --- The key-value store of the generation -----------------------------
  // Runs one operation on the store that all ranks share; see store.proto. GET
  // and WAIT block until the key exists. The store outlives every rank, and
  // restarts of the daemon; each change is applied once. DEADLINE_EXCEEDED:
  // there is no answer within `timeout`; a change may still be applied, so do
  // not repeat an ADD. UNAVAILABLE: the agent is gone (`lost`), or it has too
  // many requests; in that case try again. Other codes: those of StoreResult.
  absl::StatusOr<v1::StoreResult> Store(
      v1::StoreOperation operation,
      absl::Duration timeout = absl::InfiniteDuration());

  // --- To and from the agent --------------------------------------------
  // Publishes that a step is done. Never blocks. If several messages wait to be
  // sent, only the latest is sent.
  void Progress(const RankStep& done);
  // Reports that the checkpoint of this step is complete, so that the ranks
  // could continue from it after a loss. One rank of the world is enough: the
  // one whose steps `status` shows (rank 0, if it publishes any). Never blocks.
  void Saved(uint64_t step);

  // Sets the function that answers when the agent asks where this rank is,
  // which it does if the rank has made no progress for long. `where` is called
  // on a separate thread, so a rank whose training thread is stuck answers too.
  // It must not block. Each call replaces the previous function; nullptr: none.
  // When this returns, the previous function no longer runs. `where` must not
  // call this.
  void WhenAsked(std::function<RankCollectives()> where);

  // The connection to the agent has ended, so no agent supervises this rank any
  // more. End the process.
  bool lost() const;
  // Once lost: the reason, as a message and a code; see RankEnd in rank.proto.
  // UNAVAILABLE: the agent is gone.
  absl::Status lost_reason() const;
  // The generation has ended.
  bool aborted() const;
  // A boundary was asked for in this generation; `notice` has the reason.
  bool noticed() const;
  std::optional<v1::RankNotice> notice() const;
  std::optional<v1::RankAbort> abort() const;

  // Calls `wake` once, from any thread, when this generation ends or the agent
  // is lost, or at once if that has already happened. `wake` must not block;
  // use it to wake code that waits (a collective). Each call replaces the
  // previous function, which may still run at that moment. NextWorld removes
  // the function.
  void WhenOver(std::function<void()> wake);

  // Blocks until this generation ends. DEADLINE_EXCEEDED: it has not ended
  // within `timeout`. UNAVAILABLE: the agent is gone.
  absl::Status AwaitAbort(absl::Duration timeout = absl::InfiniteDuration());
  // Blocks until there is a notice. ABORTED: the generation has ended first.
  absl::Status AwaitNotice();

  // --- From world to world (elastic) --------------------------------------
  // Answers an abort: the communicator is torn down; the arguments describe the
  // state that this rank has.
  void Stopped(uint64_t completed_step, bool whole_state);
  // Blocks until there is a next world. CANCELLED: CancelNextWorld was called.
  // INTERNAL: the agent sent an invalid world. Other codes: the agent is gone;
  // see lost_reason.
  absl::Status NextWorld();
  // Ends the current or next call of NextWorld, because this process is about
  // to end.
  void CancelNextWorld();
  // Answers the notice: this rank is at the boundary after `step`.
  void NoticeSeen(uint64_t step);
  // Reports that this process was asked to leave (SIGTERM, SIGUSR1). Its node
  // then leaves too, and a notice follows. Never blocks.
  void AskToLeave();

  // Reports that this process is about to end with this exit code (0 to 255).
  // Needed only if the agent did not start the process (`join --attach`);
  // without it the process counts as failed. `permanent`: the process failed
  // and would fail again, so the job fails, even if restarts are left. Call it
  // right before this object is destroyed. Never blocks.
  void Finished(int exit_code, absl::string_view reason = "",
                bool permanent = false);

 private:
  struct Wire;
  explicit Rank(std::unique_ptr<Wire> wire);

  std::unique_ptr<Wire> wire_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_RANK_H_
