// RankGroup: the ranks of this node, from fork to the sweep.
//
// A part of Processes. Its caller passes in which descriptors are readable and
// what time it is; RankGroup reports which ranks are gone. It blocks only in a
// sweep: half a second at most, not counting its searches (see Sweep).
//
// Ranks start in batches and may end one by one. Ranks that were told to stop
// are swept together once all of them have ended, while others run, by signs
// that only they have (session, cgroup, marker). Ranks that ended without being
// told to stop wait for the last rank to end; then the marker that all ranks
// share is used too.
//
// An ended rank is not reaped before it has been swept. Until then its pid
// identifies only this rank and its session, and a signal to its process group
// can reach no other process.
//
// While ranks run, it looks every two seconds for processes that have left
// their rank's session. It keeps these for the sweep and sends them to the
// guard, which could not find them after their parent and the agent have ended.
// It also reaps orphans that were reparented to the agent: children that are
// not ranks, not the guard and not in the agent's own session. No other code
// waits for them.
//
// Thread rule: one thread, which outlives the ranks (fork_exec.h).
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_RANK_GROUP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_RANK_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/agent/processes/guard.h"
#include "client/agent/processes/output/output.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "client/agent/processes/process_tree/exit_watch.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "client/agent/processes/process_tree/oom_kill.h"
#include "client/agent/processes/processes.h"
#include "daemon/base/files/poller.h"

namespace rollcall {

class RankGroup {
 public:
  // Borrowed objects; all of them outlive the group.
  struct Dependencies {
    const ProcessesOptions& options;
    const Processes::Callbacks& callbacks;
    Poller& poller;
    OutputWriter& writer;
    Guard& guard;
  };

  explicit RankGroup(const Dependencies& dependencies);
  // Kills the remaining processes and sweeps once; calls no callbacks.
  ~RankGroup();

  // Forks all ranks, tells the guard, then releases them: all or none. See
  // Processes.
  absl::Status Start(uint64_t generation,
                     const std::vector<RankCommand>& commands);

  // See Processes. Ranks that do not exist here are reported as gone at once.
  void Stop(const std::vector<RankIncarnation>& ranks, absl::Duration grace,
            absl::Time now);
  void Signal(const std::vector<RankIncarnation>& ranks, int signal);
  void Rename(uint32_t local_rank, uint32_t rank);
  RankSession SessionOf(const RankIncarnation& incarnation);
  void Say(const RankIncarnation& incarnation, const std::string& text,
           absl::Time now);

  // The poller reported this token.
  void OnReadable(uint64_t token, absl::Time now);

  // Does what is due at `now`. Call it after every wait.
  void Advance(absl::Time now);
  absl::Time NextDeadline() const;

 private:
  struct Rank {
    RankIncarnation incarnation;
    RankCommand command;
    ForkedRank process;
    std::optional<RankCgroup> cgroup;
    OomWatch oom_watch;
    std::unique_ptr<ExitWatch> watch;
    std::unique_ptr<RankPipe> out;
    std::unique_ptr<RankPipe> err;
    bool ended = false;
    bool stopping = false;
    bool killed = false;
    absl::Time kill_at = absl::InfiniteFuture();
    // Since when the rank has ended but is still held by a tracer.
    absl::Time held_since = absl::InfiniteFuture();
    absl::Time peek_at = absl::InfiniteFuture();
    bool told_held = false;
    // The rank's processes outside its session, as of the latest look.
    std::vector<FoundProcess> detached;
    // Set when the rank is reaped: the time until which its last output may be
    // written.
    std::optional<absl::Time> written_by;

    bool swept() const { return written_by.has_value(); }
  };
  using Ranks = std::map<uint64_t, Rank>;

  // The state of the ranks that are to go.
  enum class Phase {
    kRunning,  // Not all of them have ended.
    // All have ended; other processes of their groups have their grace period.
    kLeaving,
    kSweeping,  // Their remaining processes are being killed.
  };

  // Tokens: number * 4 + kind.
  enum Kind : uint64_t { kExit, kOut, kErr, kLeaver };

  absl::Status Fork(uint64_t generation, const RankCommand& command,
                    Ranks& forked);
  absl::Status Watch(uint64_t number, Rank& rank);
  void Abandon(Ranks& forked);
  std::unique_ptr<RankPipe> MakeStream(const Rank& rank, Fd pipe, bool is_err);
  Rank* Find(const RankIncarnation& incarnation);
  const SystemUser* RankUser() const {
    return dependencies_.options.user ? &*dependencies_.options.user : nullptr;
  }
  bool AnyLives() const;
  // The ranks that are to go: those told to stop, or all ranks once all have
  // ended.
  std::vector<Rank*> Going();
  void OnExit(Rank& rank, absl::Time now);
  std::string ExplainKill(const Rank& rank, const ExitStatus& status,
                          uint64_t peak_bytes);
  void AwaitTracer(Rank& rank, absl::Time now);
  void ReadStream(RankPipe& stream, absl::Time now);
  void CloseStream(RankPipe& stream);
  void SetPaused(bool paused);
  void SignalGroup(const Rank& rank, int signal);
  void Depart(absl::Time now);
  bool AwaitLeavers(const std::vector<Rank*>& going);
  void DropLeavers();
  void SweepOnce(const std::vector<Rank*>& going, absl::Time now);
  std::vector<Rank*> Unswept();
  void LookForDetached(absl::Time now);
  void ReapOrphans(const std::vector<pid_t>& ended);
  void Settle(Rank& rank, absl::Time now);
  void TellGone(absl::Time now);
  void Warn(const std::string& text);
  ProcessMatcher MatcherOf(const std::vector<Rank*>& ranks) const;

  const Dependencies dependencies_;
  const std::shared_ptr<OutputTarget> stdout_;
  const std::shared_ptr<OutputTarget> stderr_;
  // Null: no --log-dir.
  std::shared_ptr<LogFolder> logs_;
  // By an internal number that is used only once.
  Ranks ranks_;
  uint64_t numbers_ = 0;
  Phase phase_ = Phase::kRunning;
  bool paused_ = false;
  bool warned_left_ = false;
  absl::Time sweep_at_ = absl::InfiniteFuture();
  // When to look for detached processes, while any rank is unswept.
  absl::Time look_at_ = absl::InfinitePast();
  // Processes of the ranks' groups that still have their grace period.
  std::vector<Fd> leavers_;
  size_t leavers_living_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_RANK_GROUP_H_
