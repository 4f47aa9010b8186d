// Job: one run of one job, as a value that is stepped.
//
// This is the whole protocol of the daemon: attending, forming worlds in two
// phases (propose, commit), losses, and the end. It does no I/O, reads no
// clock, draws no random number and starts no thread. The shell
// (daemon/server/loop) passes in events with their time and carries out the
// returned actions.
//
// Thread rule: one thread at a time; in practice the loop thread only.
//
// The invariants are in daemon/core/invariants.h; the simulator checks them
// over whole runs. Each Step checks the bounds of its own containers. A Step
// that makes a world also checks that no seat is held twice.
#ifndef ROLLCALL_DAEMON_CORE_JOB_JOB_H_
#define ROLLCALL_DAEMON_CORE_JOB_JOB_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/adoption/claims.h"
#include "daemon/core/arrivals.h"
#include "daemon/core/exchange.h"
#include "daemon/core/failures/failures.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/fence.h"
#include "daemon/core/hangs/hangs.h"
#include "daemon/core/hangs/starts.h"
#include "daemon/core/isolation/isolation.h"
#include "daemon/core/job/events.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/node_epochs.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/reach.h"
#include "daemon/core/network_plan/rounds.h"
#include "daemon/core/notices/notices.h"
#include "daemon/core/ranking.h"
#include "daemon/core/state_source.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The journal's content for the job's last run; see Journal::Kind.
struct JournalState {
  std::string run;
  v1::JobSettings settings;
  // Highest generation that was ever proposed, or that a daemon whose memory
  // was lost may have proposed; 0: none.
  uint64_t generation = 0;
  // The last generation, if it was proposed and has not ended.
  std::optional<v1::Proposal> proposal;
  // Its seal, if it was committed.
  std::optional<v1::Seal> seal;
  // Nodes that are asked to leave and are still here, or that all ranks end.
  std::optional<v1::Notice> leaving;
  // Nodes whose ranks have all exited 0 in the last generation.
  std::optional<v1::FinishedNodes> finished;
  // The last committed world after its end, until the next one is committed:
  // its proposal, its seal, and the nodes whose ranks had all exited 0 or were
  // never started.
  std::optional<v1::Proposal> ran_proposal;
  std::optional<v1::Seal> ran_seal;
  std::optional<v1::FinishedNodes> ran_finished;
  // The run has ended.
  std::optional<v1::End> end;
  uint32_t restarts_charged = 0;
  NodeEpochs node_epochs;
};

class Job {
 public:
  // A new run. `run` is a random id. Unset fields of `settings` get the
  // defaults of limits.h; nodes_min and nodes_max must be set, 1 <= min <= max.
  Job(std::string job, std::string run, const v1::JobSettings& settings,
      const Limits& limits, absl::Time now);

  // OK if Restore accepts this state. INVALID_ARGUMENT: the run has ended, or
  // no daemon can have journaled these settings or this generation.
  static absl::Status CheckJournal(const JournalState& state);

  // Continues a run from its journal, which CheckJournal has passed. If the
  // journaled world is not valid, it is ignored and a new world is formed.
  static Job Restore(std::string job, const JournalState& state,
                     const Limits& limits, absl::Time now);

  // Returns the actions that journal a new run. Call once, before the first
  // Step.
  std::vector<Action> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<Action> Step(const Event& event, absl::Time now);

  // When the next Tick is due at the latest; InfiniteFuture: never.
  absl::Time NextDeadline() const;

  // A snapshot for `status`.
  v1::JobStatus Status(absl::Time now) const;

  // The nodes' latest probes of each other, for `status --pings`.
  v1::Pings Pings(absl::Time now) const;

  // Increases with every change that Status shows, except heartbeats.
  uint64_t revision() const { return revision_; }
  // False if another incarnation has replaced the one whose credential this
  // Hello shows.
  bool CredentialStands(const v1::Hello& hello) const;
  // The epochs that credentials of this run must have. Requires IsRun(run).
  const NodeEpochs& EpochsOf(const std::string& run) const {
    return run == run_ ? node_epochs_ : former_epochs_;
  }
  const NodeEpochs& node_epochs() const { return node_epochs_; }
  // Names of the nodes that this token admitted, including nodes that are gone.
  std::vector<std::string> AdmittedBy(const std::string& token_id) const {
    return node_epochs_.AdmittedBy(token_id);
  }
  // Whether this job may still adopt the run of its agents: the daemon has no
  // memory of the job and has formed no world.
  bool MayAdopt() const { return adoptable_; }
  // Call before the first Step. Without keys, a Welcome has no credential and a
  // commit no proof.
  void UseKeys(JobKeys keys) { keys_ = std::move(keys); }
  // Call before the first Step, if no journal has the job and the daemon has a
  // shared secret.
  void AllowAdoption() { adoptable_ = true; }
  // Call before the first Step, if a Hello created the job: while the job has
  // never run, it ends if no node attends for reattach_grace.
  void EndUnattended() { ends_unattended_ = true; }
  // Whether a world of this run was committed, or may have been.
  bool HasRun() const { return last_world_ != 0 || !knows_all_worlds_; }
  // Whether an agent of this run may know it by this id.
  bool IsRun(const std::string& run) const {
    return run == run_ || (!former_run_.empty() && run == former_run_);
  }
  // Whether the job has a node of this name that is not gone.
  bool Knows(const std::string& node) const;
  // Whether the job has admitted a node of this name and remembers it; the node
  // may be gone. EvictAsked accepts such names.
  bool HasAdmitted(const std::string& node) const {
    return nodes_.contains(node) || node_epochs_.Has(node);
  }
  // Whether evicting this name means its former agent: the next world waits for
  // that one, and another agent has the name now.
  bool EvictsFormer(const std::string& node) const;
  bool Attends(SessionId session) const { return sessions_.contains(session); }
  // Whether a token has already admitted this incarnation of the agent and the
  // agent may not know it: it has sent nothing since its Welcome, which may
  // have been lost.
  bool AwaitsWord(const v1::Hello& hello) const;
  // Whether this incarnation is attended and has its credential.
  bool HasCredential(const v1::Hello& hello) const;

  const std::string& name() const { return job_; }
  const std::string& run() const { return run_; }
  v1::JobState state() const;
  // Set once the job has ended.
  const std::optional<v1::End>& end() const { return end_; }

 private:
  enum class Phase {
    kGathering,  // Too few nodes, or the last call is running.
    kForming,    // Proposed; members prepare.
    kRunning,    // Committed.
    kSettling,   // A failure without restarts left: waits for the root cause.
    kEnded,
  };

  struct Node {
    v1::Hello hello;
    // Facts that it sent while its world ran.
    std::optional<v1::Facts> told_facts;
    // How often its probe results became outdated since its last world.
    int reprobes = 0;
    // Worlds that it has refused.
    int refusals = 0;
    std::string observed_address;
    std::string arrived_at;  // See Attend.
    // See Attend.
    std::optional<absl::Duration> clock_offset;
    // It has sent a message since its Welcome, so it has its credential.
    bool confirmed = false;
    // It attended with a credential, so its Welcome needs none.
    bool by_credential = false;
    // When it was given its latest credential.
    absl::Time credential_at = absl::InfinitePast();
    // For a restored member: its incarnation when its world was committed; 0:
    // not known.
    uint64_t incarnation_committed = 0;
    // The incarnation of the credential with which it attended again.
    uint64_t attended_from = 0;
    // 0: no living stream.
    SessionId session = 0;
    // When this incarnation first attended; InfinitePast: before this daemon
    // started.
    absl::Time attended_at = absl::InfinitePast();
    // When a world with it was first committed; InfiniteFuture: not yet.
    absl::Time joined_at = absl::InfiniteFuture();
    // The world was ended to take it in, and the next one is not formed yet.
    bool called = false;
    // When it is lost unless it is heard before. Also a key of deadlines_.
    absl::Time deadline = absl::InfiniteFuture();
    // When it was last heard. For a restored node: when the wait for it began.
    absl::Time heard_at = absl::InfinitePast();
    // When its lease ends, whatever happens to its stream.
    absl::Time lease_until = absl::InfiniteFuture();
    // It came back with a new stream. Until then, or until its next heartbeat,
    // it may repeat which of its ranks are stalled.
    absl::Time tells_until = absl::InfinitePast();
    // When its stream last broke.
    absl::Time suspect_since = absl::InfinitePast();
    // Its stream broke together with many others.
    bool broke_with_many = false;
    v1::NodeState state = v1::NODE_STATE_ATTENDING;
    int seat = -1;
    // In the current world; -1: not a member.
    int node_rank = -1;
    bool prepared = false;
    bool stopped = false;
    // Its linked rank with the highest step, if one holds the whole state.
    std::optional<v1::RankState> state_held;
    bool quarantined = false;
    // It has no seat because it did not prepare in time.
    bool late = false;
    // It has no seat because its facts differ from those of the others. Holds
    // for the rest of this incarnation.
    bool differs = false;
    // Why it is quarantined or differs.
    std::string excluded_for;
    // The latest warning about its network plan.
    std::string plan_warning;
    // It failed its checks, whichever node is to blame.
    bool unfit = false;
    // Failures in a row that it was to blame for.
    uint32_t blames = 0;
    // The id of its check request, and when the daemon stops waiting for the
    // result.
    uint64_t check = 0;
    absl::Time checked_until = absl::InfinitePast();
    // Local ranks of the current generation that exited 0.
    std::set<uint32_t> done;
    // How many of its ranks are started in the current generation, counted from
    // local rank 0.
    uint32_t started = 0;
    // Generation of the last world that ran with it; 0: none.
    uint64_t served_in = 0;
    // Lost or left for good. The entry is kept only so that messages can name
    // it.
    bool gone = false;
    // The highest step that its ranks have published, and its value when the
    // running world was committed. nullopt: an earlier daemon committed the
    // world, and the node has not reported a step since.
    uint64_t step = 0;
    std::optional<uint64_t> step_before;
    // Set once its ranks have linked or published a step: the longest time that
    // this took.
    std::optional<absl::Duration> start_took;
    std::string reason;

    bool member() const { return node_rank >= 0; }
    bool over(uint32_t local_rank) const {
      return local_rank >= started || done.contains(local_rank);
    }
    // All of its ranks that were started have exited 0.
    bool finished() const { return started > 0 && done.size() == started; }
    // The job's end waits for none of its ranks: all started ones, if any, have
    // exited 0.
    bool ended() const { return member() && done.size() == started; }
  };

  // Reason of a node that gets no seat.
  static constexpr char kSilentText[] =
      "it has not answered a probe of addresses";

  // Nodes that are here, and gone nodes that are kept so that messages can name
  // them.
  static constexpr size_t kKnownMax =
      Limits::nodes_max + Limits::lost_names_max;

  void On(const Attend& attend);
  void On(const Said& said);
  void On(const StreamClosed& closed);
  void On(const StopAsked& stop);
  void On(const DrainAsked& drain);
  void On(const EvictAsked& evict);
  void On(const Tick& tick);

  // Attending (job_attend.cc).
  bool RefuseAttend(const Attend& attend);
  bool DisplaceASpare(const Attend& attend);
  bool RefuseName(const Attend& attend, const Node& node);
  absl::Duration NameGrace(const Node& node) const;
  bool ProvesToBeItsAgent(const Node& node, const v1::Hello& hello) const;
  bool AwaitsItsAgent(const Node& node, const v1::Hello& hello) const;
  void SayRefused(const Attend& attend, const std::string& text);
  bool Continues(const Node& node, const v1::Hello& hello) const;
  bool ContinuesRestored(const Node& node, const v1::Hello& hello) const;
  void NoteGenerationSeen(const v1::Hello& hello);
  struct Entered {
    Node& node;
    bool redialed = false;
    bool moved = false;  // Its addresses have changed.
    bool probed_anew = false;
  };
  Entered Enter(const Attend& attend);
  void TakeUp(Node& node, const v1::Held& held);
  void JournalNodeEpochs();
  // The credential for its next Hello; "" without keys.
  std::string CredentialFor(Node& node);
  // Gives a node that was just heard its next credential, if that is due.
  void RenewCredential(Node& node);
  void SendWelcome(Node& node);

  // Messages of members (job.cc).
  void OnPrepared(Node& node, const v1::Prepared& prepared);
  void TakeUpStates(Node& node, const v1::Prepared& prepared);
  void OnRefused(Node& node, const v1::Refused& refused);
  void OnStopped(Node& node, const v1::Stopped& stopped);
  void TakeStep(Node& node, uint64_t step);
  void TakePace(const v1::Pace& pace);
  bool HasRank(const Node& node, uint32_t local_rank);
  void OnRankExited(Node& node, const v1::RankExited& exited);
  void OnExchange(Node& node, const v1::ExchangeIn& in);

  // Forming (job_form.cc).
  void Gather(bool at_once);
  void MaybeForm();
  bool SeatedSuspect() const;
  // Why a world of other nodes has to wait (job_fence.cc).
  void FenceOff();
  void RestoreFence(const JournalState& state);
  bool IsFenced(const std::vector<Seated>& seated);
  void Unfence();
  // The last answer of IsFenced, so that a heartbeat does not compute it again.
  bool IsStillFenced() const {
    return now_ < fence_asked_until_ && revision_ == fence_asked_at_revision_;
  }
  // How long a world still waits at most; zero: none waits.
  absl::Duration FenceLeft(absl::Time now) const;
  // Text for a person: why a world waits, how long at most, and what to do.
  std::string FenceText(absl::Duration left) const;
  // The nodes that are waited for, and the reason.
  v1::Waiting GatheringWaiting() const;
  std::vector<std::string> AwayFromTakenUp() const;
  std::string WhyNoSeat(const Node& node) const;
  void TellSpare(const Node& node);
  void TellSpares();
  bool WorkIsDone() const;
  bool IsTakenOver(const std::string& node) const;
  bool IsOfFenced(const Node& node) const;
  void NoteStopped(const Node& node);
  void FenceOpened();
  // Whether the job ends if no node attends in time.
  bool MayEndUnattended() const {
    return ends_unattended_ && phase_ == Phase::kGathering && !HasRun() &&
           !isolation_.on() && claimants_.empty();
  }
  void MaybeEndUnattended();
  static Candidate CandidateOf(const Node& node);
  std::vector<Candidate> Candidates() const;
  bool IsHeld(const Node& node) const { return now_ < HeldUntil(node); }
  absl::Time HeldUntil(const Node& node) const;
  void Form(const std::vector<Seated>& seated);
  std::vector<PlanNode> PlanNodes(const std::vector<Seated>& seated) const;
  bool CanDoWithout(const std::vector<std::string>& names) const;
  void Propose(const std::vector<Seated>& seated, v1::World world);
  bool JudgeDifferences(const std::vector<PlanNode>& nodes,
                        const NetworkPlan& plan);
  void BarForDiffering(Node& node, const std::string& text);
  void JudgeNewcomer(Node& node);
  void WarnOfPlan(const std::vector<PlanNode>& nodes, const NetworkPlan& plan);
  void Bar(Node& node, const std::string& reason);
  void DropLaggards();
  void TakeBackLate(Node& node);
  void MaybeCommit();
  void Commit();
  void CountStarted();
  void AddRows(v1::Seal& seal) const;
  v1::DaemonMessage CommitMessage() const;
  void Reform(v1::ReasonCode code, const std::string& reason,
              const std::string& node);
  // `tell`: send Abort to its members. Otherwise their ranks are left running.
  void EndGeneration(v1::ReasonCode code, const std::string& reason,
                     const std::string& node, bool tell = true);
  void TellAbort();
  StateClaim::From OriginOf(const Node& node) const;
  std::optional<v1::StateSource> FindStateSource();

  // Probes before a world is formed and while it runs (job_probe.cc).
  bool AwaitProbes(const std::vector<PlanNode>& nodes,
                   Probing::Pairs which = Probing::Pairs::kUnknown);
  void ForgetProbes(const std::string& name);
  enum class FactsChange { kNone, kPorts, kAddresses };
  FactsChange TakeFacts(Node& node, const v1::Facts& facts);
  void TakeToldFacts();
  void HoldUnreached(const std::string& name);
  void ProbeAnew(Node& node, bool moved);
  void ProbeSoon();
  void MaybeProbe();
  bool OpenRound(bool ping);
  // The address to which most nodes connect; empty: loopback.
  std::string DaemonAddress() const;
  std::vector<ProbeNode> ProbeNodes(const std::vector<PlanNode>& nodes) const;
  void JudgeRound();
  void SetReached(Node& node);
  void SetUnreached(Node& node, const std::string& why);
  // Whether nodes that were not reached are probed again in this phase.
  bool MayProbeUnreached() const {
    return phase_ == Phase::kGathering || phase_ == Phase::kRunning;
  }
  absl::Duration SoonerProbed() const;
  void TakeBackUnreached();
  void EndProbes();
  bool ProbesUnderWay() const {
    return probing_.Open(now_) || now_ < rounds_.repeat_at();
  }
  bool MayProbeAgain(const std::vector<std::string>& nodes);
  bool IsSilentProber(const std::string& name) const;
  // Nodes that are present, without those that have not answered a probe.
  size_t Able() const;
  std::vector<Candidate> WithoutLatecomers(
      std::vector<Candidate> candidates) const;
  void OnProbed(Node& node, const v1::Probed& probed);
  std::string ProbesText() const;

  // Nodes that leave, newcomers, and notices to all ranks (job_notice.cc).
  void OnLeaving(Node& node, const v1::Leaving& leaving);
  void OnNoticeSeen(Node& node, const v1::NoticeSeen& seen);
  void AskToLeave(Node& node, absl::Duration deadline,
                  const std::string& reason);
  void LeaveAtOnce(Node& node, const std::string& reason);
  bool TooFewWithout(const std::string& node) const;
  // `again`: the node has asked before.
  void Ask(v1::NoticeKind kind, absl::Duration deadline,
           const std::string& reason, bool again = false);
  bool NothingIsAsked(uint64_t generation) const;
  void OnEndedForNotice(const Node& node, const v1::RankExited& exited);
  void AskAmidAChange();
  void TellNotice();
  void AtBoundary(Node& node);
  void EndAtBoundary();
  // An isolated daemon aborts no member because of a deadline, except to end
  // the job.
  bool MayEndAtBoundary() const {
    return notices_.pending() &&
           (!isolation_.on() || notices_.end_then().has_value());
  }
  void DropPending();
  bool Leaves(const Node& node) const {
    return notices_.Leaves(node.hello.node());
  }
  void JournalLeaving();
  void MaybeTellLeaving();
  void ForgetLeaving(const std::string& name);
  void SendLeft(const Node& node);
  absl::Time NewcomerDue() const;
  void GrowSoon(Node& node);
  void MaybeGrow();
  std::string CallNewcomers();
  void CountLoss(Node& node);
  void SayHold(Node& node);

  // Silence (job_silence.cc).
  void NoteBreak(Node& node);
  void LeaveToItsLease(Node& node);
  bool IsSilent(const Node& node) const;
  bool MostAreSilent() const;
  void TakeItselfForCutOff();
  void HeardFrom(Node& node);
  void MaybeReunite();
  std::set<std::string> EndIsolation();
  void LoseTheSilent();

  // A run that this daemon has no memory of (job_adopt.cc).
  bool TakeClaim(const Attend& attend);
  void MaybeAdopt(bool time_is_over);
  void SetEpochs(const Claims::Claimed& chosen);
  // As Restore does.
  void Await(Node& node);
  void TakeUpFinished(const v1::FinishedNodes& finished);
  void TakeUpEnded(uint32_t node_rank);
  void TakeUpLeaving(const v1::Notice& leaving);
  void Unclaim(SessionId session);
  std::vector<Attend> TakeClaims();
  void Adopt(const Claims::Claimed& chosen);
  void EndClaims();
  void RefuseClaims();
  // Takes over a world from the journal or from its members' claims; all
  // members are waited for. `seal`: set if it was committed, so it runs.
  void TakeUpWorld(const v1::World& world, const v1::Proposal& proposal,
                   const std::optional<v1::Seal>& seal);

  // Blame and its consequences for a node (job_blame.cc).
  void BlameNode(const v1::RootCause& cause, uint32_t times);
  void AskForChecks(Node& node);
  void OnCheckReport(Node& node, const v1::CheckReport& report);
  bool ChecksPending() const;
  void QuarantineTheBlamed();
  void Quarantine(Node& node, const std::string& reason);
  void PardonTheBlamed();
  void Pardon(Node& node);
  bool HasProgressed(const Node* failing = nullptr) const;
  void MadeProgress();

  // Ranks that run and make no progress (job_hang.cc).
  void OnRankStalled(Node& node, const v1::RankStalled& stalled);
  uint32_t RankOf(const Node& node, uint32_t local_rank) const {
    return world_.members(node.node_rank).first_rank() + local_rank;
  }
  void BeginStarts();
  void NoteStarted(Node& node, absl::Duration took = absl::ZeroDuration());
  void TellRanksLink(std::vector<SessionId> sessions);
  void NoteStep(Node& node);
  void DropStallsOf(const Node& node);
  bool AnyHasStarted() const;
  Hangs::World HangWorld() const;
  // False while a boundary with a deadline is pending, which ends the
  // generation anyway, and while the daemon is isolated, since it has not heard
  // all members.
  bool MayEndHung() const {
    return phase_ == Phase::kRunning && !hangs_.empty() && !isolation_.on() &&
           notices_.until() == absl::InfiniteFuture();
  }
  void MaybeEndHung();

  // Failures and the end (job_end.cc).
  void RankFailed(Node& node, const v1::RankExited& exited);
  // `permanent`: it would fail again, so no restart is spent on it.
  void GenerationFailed(const v1::RootCause& cause, bool permanent = false);
  void Lose(Node& node, v1::ReasonCode code, const std::string& reason);
  // Ends the stream of a node that is lost.
  void CloseLost(const Node& node, v1::ReasonCode code,
                 const std::string& reason);
  void BlameLostNode(const Node& node, v1::ReasonCode code,
                     const std::string& reason);
  void BlameInReform(const v1::RootCause& cause);
  void MaybeSettle();
  void MaybeFinish();
  void NoteFinished(const Node& node);
  void MaybeJournalFinished();
  void JournalFinished();
  void FailRendezvous(v1::ReasonCode code, const std::string& reason);
  void Fail(v1::End end);
  void Finish(v1::End end);
  bool HasOtherCommand(const Node& node) const;
  std::string CommonCommand() const;
  v1::End EndFor(const Node& node) const;
  void SendEnd();
  void MaybeForget();
  // When an ended job stops waiting for agents that have not acknowledged its
  // end.
  bool Lingers() const {
    return end_.has_value() && end_->has_linger() && !end_->now() &&
           !sessions_.empty();
  }
  absl::Time LingersUntil() const {
    return sessions_.empty() ? std::min(linger_until_, redial_until_)
                             : linger_until_;
  }

  // Bookkeeping (job.cc), and status (job_status.cc).
  Node* NodeOf(SessionId session);
  void SetDeadline(Node& node, absl::Time deadline);
  void Renew(Node& node);
  bool AllSilent() const;
  void Detach(Node& node);
  // `evicted`: by a person; such a loss does not delay newcomers.
  void Part(Node& node, v1::NodeState state, const std::string& reason,
            bool evicted = false);
  v1::NodeState StateByPhase(const Node& node) const;
  std::vector<SessionId> MemberSessions() const;
  std::vector<SessionId> AllSessions() const;
  size_t Present() const { return sessions_.size() - barred_.size(); }
  std::vector<std::string> MissingNames() const;
  std::string MissingText() const;
  void TellWaiting();
  void ToNode(const Node& node, v1::DaemonMessage message);
  void Close(SessionId session, absl::StatusCode code, v1::RefusalCode refusal,
             const std::string& text);
  void Say(Log::Level level, std::string text);
  // Logs a line that this node's messages cause; LogQuota limits such lines.
  void SayOf(const Node& node, Log::Level level, const std::string& text);
  void Changed() { ++revision_; }
  void CheckInvariants() const;

  std::string job_;
  std::string run_;
  v1::JobSettings settings_;
  Limits limits_;
  JobKeys keys_;
  uint32_t nodes_min_ = 1;
  uint32_t nodes_max_ = 1;

  absl::Time now_;
  std::vector<Action> actions_;
  uint64_t revision_ = 1;

  Phase phase_ = Phase::kGathering;
  std::map<std::string, Node> nodes_;
  NodeEpochs node_epochs_;
  // Of the run that this job had before adoption; not journaled.
  NodeEpochs former_epochs_;
  // Open streams, by node name.
  std::map<SessionId, std::string> sessions_;
  // Attended nodes that may not have a seat: refused, silent or draining.
  std::set<std::string> barred_;
  // Nodes whose stream broke and that are not given up yet.
  std::set<std::string> suspects_;
  std::set<std::pair<absl::Time, std::string>> deadlines_;
  std::deque<std::string> gone_order_;  // Oldest first; may repeat a name.

  // Gathering.
  absl::Time gathering_since_;
  // When the job fails because too few nodes attend; does not run while a fence
  // holds.
  absl::Time join_until_ = absl::InfiniteFuture();
  // Of the last committed world after its end.
  Fence fence_;
  // Until when it keeps the next world waiting; InfinitePast: it does not.
  // Valid until fence_asked_until_, unless the job changes before.
  absl::Time fenced_until_ = absl::InfinitePast();
  absl::Time fence_asked_until_ = absl::InfinitePast();
  uint64_t fence_asked_at_revision_ = 0;
  LastCall last_call_;
  bool ends_unattended_ = false;
  // Since when no node has attended or was about to come back.
  absl::Time unattended_since_;
  bool reform_now_ = false;
  Rounds rounds_;
  Probing probing_;
  Reach reach_;
  absl::Time next_waiting_ = absl::InfiniteFuture();
  std::string told_waiting_;
  // From the latest formation that found any.
  std::vector<v1::Difference> differences_;

  // The current generation.
  uint64_t generation_ = 0;
  uint64_t generation_seen_ = 0;
  v1::World world_;
  v1::Proposal proposal_;
  std::optional<v1::Seal> seal_;
  v1::Prepared first_prepared_;  // Of node rank 0.
  // Ranks that have exited 0 or are not started.
  size_t ranks_over_ = 0;
  // Node ranks of the members whose ranks have all exited 0, including members
  // that have left since. finished_due_: when a change of it is journaled.
  std::set<uint32_t> finished_;
  absl::Time finished_due_ = absl::InfiniteFuture();
  // Members that have not yet prepared, ended or stopped.
  size_t unprepared_ = 0;
  size_t unfinished_ = 0;
  size_t unstopped_ = 0;
  absl::Time prepare_deadline_ = absl::InfiniteFuture();
  absl::Time running_since_ = absl::InfiniteFuture();
  // Why the next generation is formed. Moved to last_reform_ when it is.
  v1::Reform why_;
  Exchanges exchanges_;
  v1::Reform last_reform_;

  Notices notices_;
  // An earlier daemon committed the running world: this daemon has it from a
  // journal or from its members. Its ranks may be waiting for a notice that
  // this daemon does not know.
  bool world_taken_up_ = false;
  // When newcomers are taken in, unless the world is full.
  absl::Time grow_at_ = absl::InfiniteFuture();
  Newcomers newcomers_;

  Hangs hangs_;
  // Of the running world. Not journaled: after a restart, heartbeats report it
  // again.
  Starts starts_;

  Isolation isolation_;
  // This daemon has seen every world of the run. False after a restart or an
  // adoption: a node may have been in a world that the journal no longer has.
  bool knows_all_worlds_ = true;
  // Generation of the last world that ran; 0: none that this daemon knows.
  uint64_t last_world_ = 0;

  // Agents of a run that this daemon does not know, and how long it waits for
  // them.
  bool adoptable_ = false;
  Claims claims_;
  // Their Hellos, without the worlds.
  std::map<SessionId, Attend> claimants_;
  absl::Time claims_until_ = absl::InfiniteFuture();
  // The run id before adoption.
  std::string former_run_;

  // Nodes whose check results are outstanding.
  std::set<std::string> checking_;
  // A node was blamed since the last check for quarantine.
  bool may_quarantine_ = false;
  uint64_t last_check_ = 0;

  Failures failures_;
  uint64_t highest_step_ = 0;
  std::optional<v1::Pace> pace_;

  std::optional<v1::End> end_;
  // Until when an ended job waits for agents that attend, and, if none is left,
  // for agents whose streams broke.
  absl::Time linger_until_ = absl::InfiniteFuture();
  // Until then agents leave running ranks alone.
  absl::Time lingers_until_ = absl::InfinitePast();
  absl::Time redial_until_ = absl::InfiniteFuture();
  bool forgotten_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_JOB_H_
