// RankGroup: the ranks of one generation on this node, from fork to the sweep.
//
// A part of Processes: it is told what its poller saw and what time it is, and
// says when it is gone. It never waits, but for a sweep (half a second at
// most).
//
// A rank that has ended stays unreaped until the whole group has been swept: so
// long, its number names it and its session alone, and a signal to its process
// group can hit nobody else.
//
// Thread rule: one thread, which outlives the ranks (fork_exec.h).
#ifndef ROLLCALL_CLIENT_AGENT_RANK_GROUP_H_
#define ROLLCALL_CLIENT_AGENT_RANK_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/agent/cgroup.h"
#include "client/agent/exit_watch.h"
#include "client/agent/fork_exec.h"
#include "client/agent/guard.h"
#include "client/agent/output.h"
#include "client/agent/poller.h"
#include "client/agent/processes.h"

namespace rollcall {

class RankGroup {
 public:
  // What it works with; all of it outlives the group.
  struct House {
    const ProcessesOptions& options;
    const Processes::Callbacks& callbacks;
    Poller& poller;
    OutputWriter& writer;
    Guard& guard;
  };

  // Forks all, tells the guard, and only then lets them go: all or none.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Start(
      const House& house, uint64_t generation,
      const std::vector<RankCommand>& commands);

  // Kills what is left and sweeps once, telling nobody.
  ~RankGroup();

  uint64_t generation() const { return generation_; }

  // See Processes.
  void Stop(absl::Duration grace, absl::Time now);
  void Signal(int signal);

  // The poller saw this token.
  void OnReadable(uint64_t token, absl::Time now);

  // Does what is due. To be called after every wait.
  void Advance(absl::Time now);
  absl::Time NextDeadline() const;

  // Everything has ended and been written.
  bool gone() const { return phase_ == Phase::kGone; }

 private:
  enum class Phase {
    kRunning,   // Leaders live.
    kLeaving,   // They have ended; others of their groups have their grace.
    kSweeping,  // What is left is being killed.
    kWriting,   // Nobody is left; the last output is on its way.
    kGone,
  };

  struct Rank {
    RankCommand command;
    ForkedRank process;
    std::unique_ptr<ExitWatch> watch;
    std::unique_ptr<RankStream> out;
    std::unique_ptr<RankStream> err;
    bool ended = false;
  };

  // Tokens: which * 4 + kind.
  enum Kind : uint64_t { kExit, kOut, kErr, kLeaver };

  RankGroup(const House& house, uint64_t generation);

  absl::Status ForkAll(const std::vector<RankCommand>& commands);
  absl::Status Watch(Rank& rank, uint64_t which);
  void Abandon();
  std::unique_ptr<RankStream> MakeStream(const RankCommand& command, Fd pipe,
                                         bool is_err);
  void OnExit(Rank& rank, absl::Time now);
  void ReadStream(RankStream& stream, absl::Time now);
  void CloseStream(RankStream& stream);
  void SetPaused(bool paused);
  void SignalGroups(int signal, bool ended_too);
  bool AwaitLeavers();
  void DropLeavers();
  void SweepOnce(absl::Time now);
  void Settle(absl::Time now);
  void Warn(const std::string& text);
  Kin TheirKin() const;

  const House house_;
  const uint64_t generation_;
  const std::shared_ptr<OutputTarget> stdout_;
  const std::shared_ptr<OutputTarget> stderr_;
  std::optional<RankCgroup> cgroup_;
  std::vector<Rank> ranks_;
  size_t living_ = 0;
  Phase phase_ = Phase::kRunning;
  bool stopping_ = false;
  bool killed_ = false;
  bool paused_ = false;
  bool warned_left_ = false;
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Time sweep_at_ = absl::InfiniteFuture();
  absl::Time written_by_ = absl::InfiniteFuture();
  // Processes of the ranks' groups that are still using their grace.
  std::vector<Fd> leavers_;
  size_t leavers_living_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_GROUP_H_
