// Agent: what one node does in a run, as a value that takes events (Step).
//
// The counterpart of daemon/core/job: it attends, prepares for proposals,
// starts and stops ranks, and ends. It does no I/O, reads no clock, draws no
// random number and starts no thread. The shell (client/agent/session) passes
// in what happened and carries out the returned actions in order.
//
// Thread rule: one thread at a time.
//
// Invariants:
//   1. It never acts on a generation older than one that it has seen.
//   2. It sends Prepared(g) and Stopped(g) only when the only ranks left here
//      are linked ones that have torn their communicator down and wait.
//   3. It starts the ranks of g, and gives the world of g to ranks that wait,
//      once: after Commit(g), and only if it has sent Prepared(g).
//   4. It runs the set-up command before it may get a seat, and not again.
//   5. Exit is the last action, and comes only when no rank and no process of
//      the set-up command is left. A rank that the agent did not start delays
//      it by its grace period at most.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_H_

#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/core/node_exchanges.h"
#include "client/agent/core/node_store.h"
#include "client/agent/core/rank_starts.h"
#include "client/agent/core/redial.h"
#include "client/agent/core/setup.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class Agent {
 public:
  // `hello`: everything that does not change between streams (job, node, token,
  // ranks, settings, launcher, incarnation); the shell adds the current facts.
  // `join_timeout`: how long to redial a daemon that has never welcomed this
  // agent. `preempt_signal`: the signal that announces a notice to a plain
  // rank. `attach`: ranks are processes that others start (--attach).
  // `setup_retries`: how often the set-up command, which Hello.setting_up says
  // there is, may be run again.
  Agent(const v1::Hello& hello, absl::Duration join_timeout,
        const Limits& limits, absl::Time now, int preempt_signal = SIGTERM,
        bool attach = false, uint32_t setup_retries = 0);

  // Returns the first actions: dial.
  std::vector<AgentAction> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<AgentAction> Step(const AgentEvent& event, absl::Time now);

  // The latest time at which the next AgentTick is due.
  absl::Time NextDeadline() const;

 private:
  enum class Link {
    kDown,      // No stream; dials at redial_.dial_at().
    kDialing,   // Dial was sent, or Hello awaits its Welcome.
    kAttending  // Welcomed.
  };

  // A generation from its Proposal to its Commit.
  struct Preparing {
    v1::World world;
    std::string world_bytes;
    uint32_t node_rank = 0;
    std::optional<v1::Prepared> done;
    bool said = false;
    // Prepared was sent at least once. `said` is reset when it must be sent
    // again.
    bool promised = false;
    // `world_commit` is set: committed, but a rank that waited has ended. The
    // start waits until the descendants of that rank are gone.
    std::string world_commit_bytes;
    std::string proof;
    std::optional<v1::WorldCommit> world_commit;
    // The latest notice that arrived between the Commit and the start.
    std::optional<v1::Notice> notice;
  };

  // A generation from its Commit to its end.
  struct Running {
    uint64_t generation = 0;
    uint32_t ranks = 0;
    uint32_t first_rank = 0;
    std::string world_bytes;
    std::string world_commit_bytes;
    std::string proof;
    std::vector<v1::RankExited> exits;
    uint64_t step = 0;
    uint64_t saved = 0;
    std::optional<v1::Pace> pace;  // The pace of rank 0, if rank 0 runs here.
  };

  // A rank that makes no progress, and what is known of it so far.
  struct Stall {
    v1::RankStalled message;
    // The deadline for the rank's own answer; infinite: it has answered or is
    // no longer awaited.
    absl::Time answer_by = absl::InfiniteFuture();
    bool looked = false;
    bool said = false;  // Sent on this stream.

    bool known() const { return looked && answer_by == absl::InfiniteFuture(); }
  };

  // A rank's process, from its start until its descendants are swept. With
  // `attach`: a rank of a world, whether a process has attached for it or not.
  struct RankProcess {
    uint64_t born = 0;  // The generation for which it was started.
    bool ended = false;
    bool linked = false;
    bool elastic = false;
    // It has closed its connection: it has finished, and its process is about
    // to end.
    bool unlinked = false;
    bool stopping = false;
    absl::Time kill_at = absl::InfiniteFuture();
    absl::Time started_at;
    // It has linked or published a step.
    bool begun = false;
    // The preempt signal for the notice was sent to it.
    bool signalled = false;
    bool at_boundary = false;
    // The deadline for its answer to an abort.
    absl::Time answer_by = absl::InfiniteFuture();
    std::optional<v1::RankState> waits;
    // Its highest step in the running generation.
    uint64_t step = 0;
    // The time at which the rank counts as stalled if it makes no progress;
    // infinite: no progress is expected of it.
    absl::Time hangs_at = absl::InfiniteFuture();
    std::optional<Stall> stall;
  };

  // The latest notice for the running generation.
  struct Notice {
    uint64_t number = 0;
    // Plain ranks are killed at this time.
    absl::Time kill_at = absl::InfiniteFuture();
    bool over = false;  // The plain ranks were killed.
    bool said = false;  // NoticeSeen was sent.
  };

  // Which ranks survive the end of a generation.
  enum class Keep { kElastic, kNobody };

  // The credential that the daemon issued in Welcome or NewCredential.
  struct Credential {
    std::string bytes;         // Empty: none.
    uint64_t incarnation = 0;  // The one for which it was issued.
  };

  // The ended generation for which Stopped is to be sent once no rank is left
  // here except those that wait.
  struct ToSay {
    uint64_t generation = 0;  // 0: none.
    bool said = false;        // It was sent on this stream.
  };

  // The request that this node leaves.
  struct LeaveRequest {
    int signal = 0;  // 0: there was none.
    // A linked rank asked for it, and no signal has reached the agent yet.
    bool by_rank = false;
    // The agent waits until then for the daemon to act on the request.
    absl::Time until = absl::InfiniteFuture();
  };

  void On(const StreamUp& up);
  void On(const StreamDown& down);
  void On(const FromDaemon& from);
  void On(const PreparationDone& done);
  void On(const PreparationFailed& failed);
  void On(const RankEnded& ended);
  void On(const RanksGone& gone);
  void On(const RankAttended& attended);
  void On(const RankUnlinked& unlinked);
  void On(const RankDoubled& doubled);
  void On(const RankWaits& waits);
  void On(const RankAtBoundary& at);
  void On(const RankExchanged& exchanged);
  void On(const RankAsksStore& asks);
  void On(const StoreCancelled& gave_up);
  void On(const RankProgressed& progressed);
  void On(const RankSaved& saved);
  void On(const RankIsHere& here);
  void On(const RankLooked& looked);
  void On(const LeaveAsked& leave);
  void On(const RankAskedToLeave& asked);
  void On(const ChecksDone& done);
  void On(const ProbeDone& done);
  void On(const GroupCheckSaid& said);
  void On(const FactChanged& changed);
  void On(const FactWatchEnded& ended);
  void On(const SignalCame& came);
  void On(const SetupShellEnded& ended);
  void On(const SetupGone& gone);
  void On(const AgentTick& tick);

  void TakeCredential(const std::string& credential);
  void OnWelcome(const v1::Welcome& welcome);
  void OnProposal(const v1::Proposal& proposal);
  void OnCommit(const v1::Commit& commit);
  void OnAbort(const v1::Abort& abort);
  void OnNotice(const v1::Notice& notice);
  void OnEnd(const v1::End& end);
  void EndLinger();
  void OnExchange(const v1::ExchangeOut& exchange);
  void Carry(NodeStore::Outcome outcome);
  void OnWaiting(const v1::Waiting& waiting);
  void OnRanksLink(const v1::RanksLink& link);

  // The set-up command (agent_setup.cc).
  void MaybeBeginSetup(const v1::Welcome& welcome);
  void AdvanceSetup();
  void StopSetup(absl::Duration grace);
  void SaySetupEnded();
  // The job's set-up failed, and its agents stay for the time of --linger,
  // although no rank runs.
  bool LingersWithoutRanks() const {
    return linger_until_ != absl::InfiniteFuture() &&
           exit_->end->code() == v1::REASON_CODE_SETUP;
  }

  // Decides what a refused or broken stream means.
  void Refused(const StreamDown& down);
  void AttendAgain(uint64_t incarnation, const std::string& why);
  void AttendOtherRun(uint64_t incarnation);
  // The agent has been in a committed world.
  bool HasRun() const { return running_.has_value() || ended_generation_ > 0; }
  v1::ResumeState ResumeStateNow() const;
  void SayExits();
  void Refuse(uint64_t generation, const std::string& reason);
  void SayRefused();
  void SayPreparedIfReady();
  void SayStoppedIfSettled();
  void SayNoticeSeenIfThere();
  void SayLeaving();
  void DropPreparation();
  std::optional<uint32_t> LostSource() const;
  void StartIfSettled();
  // No rank is left here except those that wait for a world.
  bool Settled() const;
  RankProcess* Find(uint64_t born, uint32_t local_rank);
  // Finds a linked rank of the running generation; null: there is none.
  RankProcess* Attending(uint64_t generation, uint32_t local_rank);
  // Whether the agent ended this rank itself, so that its end need not be
  // reported.
  bool OnOrder(const RankProcess& rank, const RankEnded& ended) const;
  void SayExited(const RankProcess& rank, const RankEnded& ended);
  // The watchdog (agent_hang.cc).
  void Watch(uint32_t local_rank, RankProcess& rank);
  bool ExpectsStarts() const;
  void WatchStart(RankProcess& rank);
  void NoteBegun(uint32_t local_rank, RankProcess& rank);
  void Unwatch(uint32_t local_rank, RankProcess& rank);
  void UnwatchAll();
  void LookForHangs();
  void SayStalledIfKnown(uint32_t local_rank, RankProcess& rank);
  void SayStallsAgain();
  void Forgive(absl::Duration late);
  absl::Time NextHang() const;
  void KillTheHung(uint32_t local_rank);

  // With `attach`: no process has attached for this rank yet.
  bool Awaited(const RankProcess& rank) const {
    return attach_ && !rank.linked && !rank.ended;
  }
  absl::Time NextLeftAlone() const;
  void LeaveTheUnendedAlone();

  void KillWhoseNoticeIsOver();
  void StopWhoDidNotAnswer();
  void EndGroupCheck();
  // Ends the committed generation on this node.
  void EndGeneration(v1::ReasonCode code, const std::string& reason, Keep keep);
  void Stop(absl::Duration grace, Keep keep = Keep::kNobody);
  // Stops the ranks for which `which` is true.
  void StopThose(absl::Duration grace,
                 const std::function<bool(const RankProcess&)>& which);
  // Stops all ranks, then exits.
  void Leave(int code, const std::string& reason,
             std::optional<v1::End> end = std::nullopt);
  void MaybeExit();
  void SayFactChanges();
  void Tell(v1::AgentMessage message);
  void Tell(Report::Kind kind, std::string text);
  void Tell(std::optional<Report> news);

  v1::Hello hello_;
  Limits limits_;
  absl::Time now_;
  std::vector<AgentAction> actions_;

  Credential credential_;

  Link link_ = Link::kDown;
  Redial redial_;
  absl::Duration heartbeat_;
  absl::Time next_heartbeat_ = absl::InfiniteFuture();

  uint64_t generation_seen_ = 0;
  std::optional<Preparing> preparing_;
  // The refusal of the latest proposal, kept because the stream may have been
  // down.
  std::optional<v1::Refused> refused_;
  std::optional<Running> running_;
  // The last generation that has ended here; 0: none.
  uint64_t ended_generation_ = 0;
  // Keyed by local rank.
  std::map<uint32_t, RankProcess> rank_processes_;
  RankStarts starts_;
  std::optional<Notice> notice_;
  // A notice named this node as one that leaves.
  bool drained_ = false;
  ToSay stopped_;
  Setup setup_;
  // The daemon awaits SetupEnded on this stream.
  bool owes_setup_ended_ = false;
  NodeExchanges exchanges_;
  NodeStore store_;
  // The round of the paired check that this node works on; 0: none.
  uint64_t check_round_ = 0;
  // Those that were not sent yet, oldest first; at most
  // Limits::fact_changes_per_node.
  std::deque<v1::FactChange> fact_changes_;
  // Welcome.takes_fact_changes.
  bool takes_fact_changes_ = false;

  const int preempt_signal_;
  // The agent starts no rank and cannot kill one.
  const bool attach_;
  LeaveRequest leave_;
  std::optional<Exit> exit_;
  // The agent keeps the ranks and files of an ended job until then (linger).
  absl::Time linger_until_ = absl::InfiniteFuture();
  bool exited_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_H_
