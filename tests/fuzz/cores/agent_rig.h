// AgentRig: an Agent with the shell that surrounds it on a node. The rig has a
// stream that is dialled and breaks, preparations and ranks that end after they
// began, and a clock that only goes on. The daemon may send anything.
//
// Checks the Agent's invariants after each Step:
//   1. The generations for which it prepares and starts ranks only grow.
//   2. It says Prepared(g) and Stopped(g) only while no rank process exists on
//      the node except those that have said that they wait.
//   3. It starts the ranks of g, or gives the world of g to those that wait,
//      once, after it said Prepared(g) and Commit(g) came.
//   4. Exit comes last, and only when no rank process exists.
// It also checks that the agent speaks only on an open stream, and dials one at
// a time; that a daemon admits what it says; and that the texts that it shows,
// and that its ranks get in files and environments, are printable.
#ifndef ROLLCALL_TESTS_FUZZ_CORES_AGENT_RIG_H_
#define ROLLCALL_TESTS_FUZZ_CORES_AGENT_RIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/agent/core/agent/agent.h"

namespace rollcall {

class AgentRig {
 public:
  explicit AgentRig(const v1::Hello& hello);

  // --- Events; each does nothing if the shell could not produce it now -------

  void StreamUp();
  void StreamDown(const absl::Status& status,
                  std::optional<v1::Refusal> refusal);
  void FromDaemon(v1::DaemonMessage message);
  void PreparationDone(rollcall::PreparationDone done);
  void PreparationFailed(const std::string& reason);
  void RankEnded(rollcall::RankEnded ended);
  // All ranks that do not wait have ended.
  void RanksGone();
  // Messages of linked ranks; `local_rank` is taken modulo the node's ranks.
  void Attended(uint32_t local_rank, bool elastic);
  void Unlinked(uint32_t local_rank);
  void Waits(uint32_t local_rank, uint64_t step, bool whole);
  void AtBoundary(uint32_t local_rank);
  void AskedToLeave(uint32_t local_rank);
  void Exchanged(uint32_t local_rank, const std::string& key,
                 const std::string& value);
  void Progressed(uint32_t local_rank, uint64_t step);
  // An answer to the latest LookAtRank.
  void Here(uint64_t entered, uint64_t left, bool counts);
  void Looked(bool stopped, const std::string& text);
  void Signal(int signal, bool leave);
  void Tick();
  void Wait(absl::Duration time) { now_ += time; }

  absl::Time now() const { return now_; }
  absl::Time NextDeadline() const { return agent_.NextDeadline(); }
  // The generation that was prepared for last; 0: none.
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
  void Take(const RunGroupCheck& run);
  void Take(const AnswerExchange& answer);
  void Take(const AnswerStore& answer);
  void Take(const FailRequests& fail);
  // This agent has no set-up command.
  void Take(const RunSetup&) {}
  void Take(const StopSetupCommand&) {}
  void Take(const Report& report);
  void Take(const Exit& exit);
  void CheckFiles(const StartRanks& start);
  // Whether all rank processes of the node wait.
  bool Settled() const { return waiting_.size() == living_.size(); }
  bool Lives(const RankIncarnation& incarnation) const;

  const v1::Hello hello_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Agent agent_;

  enum class Stream { kNone, kDialing, kUp };
  Stream stream_ = Stream::kNone;
  bool greeted_ = false;
  // The stream has got its Welcome, so the agent may say more than Hello.
  bool welcomed_ = false;

  uint64_t prepared_for_ = 0;  // The highest.
  uint64_t preparing_ = 0;     // In progress or done; 0: none.
  uint64_t prepared_said_ = 0;
  std::set<uint64_t> committed_;
  // The rank processes, by local rank, with the generation of their start.
  std::map<uint32_t, uint64_t> living_;
  // Those that wait for a world, since the latest abort.
  std::set<uint32_t> waiting_;
  std::optional<LookAtRank> looked_at_;
  uint64_t running_ = 0;  // 0: none, or aborted.
  uint64_t aborted_ = 0;
  // The daemon named a generation that no daemon's own admission accepts.
  bool odd_generation_ = false;
  bool exited_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_CORES_AGENT_RIG_H_
