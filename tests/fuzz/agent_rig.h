// AgentRig: an Agent with what stands around it on a node, as far as it can
// tell: a stream that is dialled and breaks, preparations and ranks that end
// when they were begun, a clock that only goes on. Who speaks for the daemon
// may say anything.
//
// Holds the Agent's invariants against each Step:
//   1. Generations only grow: prepared for, and started.
//   2. Prepared(g) and Stopped(g) are said only while no rank lives here but
//      those that have said that they wait.
//   3. Ranks of g are started, or given its world where they wait, once, after
//      Prepared(g) was said and Commit(g) came.
//   4. Exit comes last, and only when no rank lives.
// And: it speaks on an open stream alone, and dials one at a time; what it says
// is admitted by a daemon; what it tells a person, and what its ranks get in
// files and environments, is printable.
#ifndef ROLLCALL_TESTS_FUZZ_AGENT_RIG_H_
#define ROLLCALL_TESTS_FUZZ_AGENT_RIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/agent/core/agent.h"

namespace rollcall {

class AgentRig {
 public:
  explicit AgentRig(const v1::Hello& hello);

  // --- What comes in; each does nothing where the shell could not say it -----

  void StreamUp();
  void StreamDown(const absl::Status& status,
                  std::optional<v1::Refusal> refusal);
  void FromDaemon(v1::DaemonMessage message);
  void PreparationDone(rollcall::PreparationDone done);
  void PreparationFailed(const std::string& reason);
  void RankEnded(rollcall::RankEnded ended);
  // Everybody's end has come who was not told to wait.
  void RanksGone();
  // What linked ranks say; `local_rank` is cut to those of the node.
  void Attended(uint32_t local_rank, bool elastic);
  void Unlinked(uint32_t local_rank);
  void Waits(uint32_t local_rank, uint64_t step, bool whole);
  void AtBoundary(uint32_t local_rank);
  void AskedToLeave(uint32_t local_rank);
  void Exchanged(uint32_t local_rank, const std::string& key,
                 const std::string& value);
  void Progressed(uint32_t local_rank, uint64_t step);
  // An answer to the last that was looked at.
  void Here(uint64_t entered, uint64_t left, bool counts);
  void Looked(bool stopped, const std::string& text);
  void Signal(int signal, bool leave);
  void Tick();
  void Wait(absl::Duration time) { now_ += time; }

  absl::Time now() const { return now_; }
  absl::Time NextDeadline() const { return agent_.NextDeadline(); }
  // Prepared for last; 0: none.
  uint64_t generation() const { return prepared_for_; }

 private:
  void Step(const AgentEvent& event);
  void Carry(const std::vector<AgentAction>& actions);
  void Take(const Dial& dial);
  void Take(const Say& say);
  void Take(const Prepare& prepare);
  void Take(const Undo& undo);
  void Take(const StartRanks& start);
  void Take(const AbortRanks& abort);
  void Take(const StopRanks& stop);
  void Take(const PassSignal& pass);
  void Take(const TellNotice& tell);
  void Take(const LookAtRank& look);
  void Take(const RunChecks& run);
  void Take(const RunProbe& run);
  void Take(const AnswerExchange& answer);
  void Take(const AnswerStore& answer);
  void Take(const FailRequests& fail);
  void Take(const Report& report);
  void Take(const Exit& exit);
  void CheckFiles(const StartRanks& start);
  // Whether all that live here wait.
  bool Settled() const { return waiting_.size() == living_.size(); }
  bool Lives(const RankIncarnation& incarnation) const;

  const v1::Hello hello_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Agent agent_;

  enum class Stream { kNone, kDialing, kUp };
  Stream stream_ = Stream::kNone;
  bool greeted_ = false;
  // Welcomed on this stream, so that it may say more than Hello.
  bool welcomed_ = false;

  uint64_t prepared_for_ = 0;  // The highest.
  uint64_t preparing_ = 0;     // Under way or done; 0: none.
  uint64_t prepared_said_ = 0;
  std::set<uint64_t> committed_;
  // By local rank: the generation that its process was started for.
  std::map<uint32_t, uint64_t> living_;
  // Of those, who is told to wait by nobody's abort but the last.
  std::set<uint32_t> waiting_;
  std::optional<LookAtRank> looked_at_;
  uint64_t running_ = 0;  // 0: none, or aborted.
  uint64_t aborted_ = 0;
  // The daemon named one that no daemon's own admission would pass.
  bool odd_generation_ = false;
  bool exited_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_AGENT_RIG_H_
