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
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/adoption/adoption.h"
#include "daemon/core/events.h"
#include "daemon/core/exchange.h"
#include "daemon/core/failures/failures.h"
#include "daemon/core/failures/quarantine.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/failures/step_account.h"
#include "daemon/core/formation/arrivals.h"
#include "daemon/core/formation/completion.h"
#include "daemon/core/formation/formation.h"
#include "daemon/core/formation/gathering.h"
#include "daemon/core/formation/generations.h"
#include "daemon/core/formation/seats.h"
#include "daemon/core/formation/state_source.h"
#include "daemon/core/hangs/hangs.h"
#include "daemon/core/hangs/starts.h"
#include "daemon/core/isolation/isolation.h"
#include "daemon/core/job/ending.h"
#include "daemon/core/job/job_keys.h"
#include "daemon/core/job/journal_state.h"
#include "daemon/core/job/outbox.h"
#include "daemon/core/job/waiting_news.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/membership/name_rules.h"
#include "daemon/core/membership/node_epochs.h"
#include "daemon/core/membership/run_credentials.h"
#include "daemon/core/network_plan/facts_change.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/notices/notices.h"
#include "daemon/core/ranking.h"
#include "daemon/core/store/generation_store.h"
#include "daemon/core/vetting/vetting.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The phases. Each arrow is one or more Steps.
//
//            enough nodes, fence open          all prepared
//   gathering ----------------------> forming --------------> running
//    |   ^  ^                            |                    |  |  |
//    |   |  +----------------------------+                    |  |  |
//    |   |        refused, late, lost                         |  |  |
//    |   +----------------------------------------------------+  |  |
//    |   |  lost, failed with restarts left, drained, grown      |  |
//    |   +------------ blame window <----------------------------+  |
//    |     a lost node     |          failed, no restart left       |
//    |     began it        v                                        v
//    +-----------------> ended <------------------------------------+
//      join timeout                   all ranks exited 0, or stopped
//
// Isolation is an overlay over gathering, forming and running: see
// isolation.h. While it is on, no node is given up and no world is formed.
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

  // When the next Tick is due at the latest; InfiniteFuture: none is due.
  absl::Time NextDeadline() const;

  // A snapshot for `status`.
  v1::JobStatus Status(absl::Time now) const;

  // The nodes' latest probes of each other, for `status --pings`.
  v1::Pings Pings(absl::Time now) const;

  // Increases with every change that Status shows, except heartbeats.
  uint64_t revision() const { return out_.revision(); }
  // False if another incarnation has replaced the one whose credential this
  // Hello shows.
  bool CredentialStands(const v1::Hello& hello) const;
  // The epochs that credentials of this run must have. Requires IsRun(run).
  const NodeEpochs& EpochsOf(const std::string& run) const {
    return credentials_.EpochsOf(run);
  }
  const NodeEpochs& node_epochs() const { return credentials_.epochs(); }
  // Names of the nodes that this token admitted, including nodes that are gone.
  std::vector<std::string> AdmittedBy(const std::string& token_id) const {
    return credentials_.epochs().AdmittedBy(token_id);
  }
  // Whether this job may still adopt the run of its agents: the daemon has no
  // memory of the job and has formed no world.
  bool MayAdopt() const { return adoption_.possible(); }
  // Call before the first Step. Without keys, a Welcome has no credential and a
  // commit no proof.
  void UseKeys(const JobKeys& keys) {
    credentials_.UseKey(keys.credential);
    formation_.UseKey(keys.commit_proof);
    vetting_.UseKey(keys.probe_secret);
  }
  // Call before the first Step, if no journal has the job and the daemon has a
  // shared secret.
  void AllowAdoption() { adoption_.Allow(); }
  // Call before the first Step, if a Hello created the job: while the job has
  // never run, it ends if no node attends for reattach_grace.
  void EndUnattended() { gathering_.unattended().Allow(); }
  // Call before the first Step: what was recorded before this daemon began to
  // take steps. The run may be this one or the one before it. A recorded step
  // that is too high causes one false warning, and nothing else.
  void UseLastStep(LastStep last) { steps_.UseLast(std::move(last)); }
  // Whether a world of this run was committed, or may have been.
  bool HasRun() const { return generations_.may_have_run(); }
  // Whether an agent of this run may know it by this id.
  bool IsRun(const std::string& run) const { return credentials_.IsRun(run); }
  // Whether the job has a node of this name that is not gone.
  bool Knows(const std::string& node) const { return membership_.Has(node); }
  // Whether the job has admitted a node of this name and remembers it; the node
  // may be gone. EvictAsked accepts such names.
  bool HasAdmitted(const std::string& node) const {
    return membership_.Find(node) != nullptr || credentials_.epochs().Has(node);
  }
  // Whether EvictAsked for this name must evict its former agent: the next
  // world waits for the former agent, and another agent has the name now.
  bool EvictsFormer(const std::string& node) const {
    return FenceLeft(now_) > absl::ZeroDuration() &&
           fence().IsTakenOver(node, membership_);
  }
  bool Attends(SessionId session) const { return membership_.Attends(session); }
  // Whether a token has admitted this incarnation of the agent and the agent
  // may not know that: it has sent nothing since its Welcome, so the Welcome
  // may be lost.
  bool AwaitsWord(const v1::Hello& hello) const;
  // Whether the incarnation in `hello` is known to have its credential: it
  // attended with one, or it has sent a message since its Welcome. For a
  // restored node: whether it is the incarnation in the world commit.
  bool HasCredential(const v1::Hello& hello) const;

  const std::string& name() const { return out_.job(); }
  const std::string& run() const { return credentials_.run(); }
  v1::JobState state() const;
  // The generation that was proposed last, or that was taken up since; 0: none.
  uint64_t generation() const { return generations_.current(); }
  // Why the current world was formed; while the next one is awaited, why the
  // last one ended.
  const v1::Reform& last_reform() const;
  // Set once the job has ended.
  const std::optional<v1::End>& end() const { return ending_.end(); }

 private:
  friend class JobReport;

  enum class Phase {
    kGathering,    // Too few nodes attend, or the last call is running.
    kForming,      // A world is proposed; its members prepare.
    kRunning,      // A world is committed.
    kBlameWindow,  // A failure left no restart: waits for the root cause.
    kEnded,
  };

  static constexpr char kSettingUpText[] = "its set-up command runs";

  void On(const Attend& attend);
  void On(const Said& said);
  void On(const StreamClosed& closed);
  void On(const StopAsked& stop);
  void On(const DrainAsked& drain);
  void On(const EvictAsked& evict);
  void On(const Tick& tick);

  // Attending (job_attend.cc).
  std::optional<Refused> RefusalOf(const Attend& attend);
  bool DisplaceASpare(const v1::Hello& hello);
  NameRules Names() const;
  struct Entered {
    Node& node;
    bool redialed = false;
    bool moved = false;  // Its addresses have changed.
    bool probed_again = false;
  };
  Entered Enter(const Attend& attend);
  void TakeUp(Node& node, const v1::ResumeState& resume_state);
  v1::NodeState StateByPhase(const Node& node) const;

  // Messages of members (job.cc).
  void OnPrepared(Node& node, const v1::Prepared& prepared);
  void TakeUpStates(Node& node, const v1::Prepared& prepared);
  void OnRefused(Node& node, const v1::Refused& refused);
  void OnStopped(Node& node, const v1::Stopped& stopped);
  void OnFactChange(Node& node, const v1::FactChange& change);
  // For RootCause.node_changes.
  std::string ChangesOf(const std::string& node) const;

  // Of ranks (job_ranks.cc).
  void OnHeartbeat(Node& node, const v1::Heartbeat& heartbeat);
  bool HasRank(const Node& node, uint32_t local_rank);
  void OnRankExited(Node& node, const v1::RankExited& exited);
  void OnExchange(Node& node, const v1::ExchangeIn& in);
  void OnStore(Node& node, const v1::StoreIn& in);
  void SendStoreMessages();

  // Forming (job_form.cc).
  void Gather(bool at_once);
  void MaybeForm();
  bool IsFenced(const std::vector<Seated>& seated);
  // How long the next world must still wait for the fence at most; zero: it
  // need not.
  absl::Duration FenceLeft(absl::Time now) const;
  void NoteStopped(const Node& node);
  void FenceOpened();
  // Whether the job gathers for its first world, and no member of a former run
  // has come back. Then it may end because of its nodes.
  bool AwaitsFirstWorld() const {
    return phase_ == Phase::kGathering && !HasRun() && !isolation_.on() &&
           !adoption_.waiting();
  }
  void MaybeEndUnattended();
  Seats SeatsNow() const;
  void Form(const std::vector<Seated>& seated);
  void Propose(const std::vector<Seated>& seated, v1::World world);
  void WarnOfPlan(const std::vector<PlanNode>& nodes, const NetworkPlan& plan);
  void Exclude(Node& node, const std::string& reason);
  void ExcludeForNow(Node& node, const std::string& reason,
                     std::set<std::string> partners = {});
  void DropLaggards();
  void TakeBackLate(Node& node);
  void MaybeCommit();
  void Commit();
  void Reform(v1::ReasonCode code, const std::string& reason,
              const std::string& node);
  // `tell`: send Abort to the members. Otherwise their ranks are left running.
  void EndGeneration(v1::ReasonCode code, const std::string& reason,
                     const std::string& node, bool tell = true);
  void TellAbort();
  std::optional<v1::StateSource> FindStateSource();

  // Probes and checks of nodes before they get a seat (job_vetting.cc).
  Vetting::View ForVetting() const;
  // Whether a world may be proposed.
  bool CarryOut(Vetting::Decision decision);
  FactsChange TakeFacts(Node& node, const v1::Facts& facts);
  void TakeToldFacts();
  void ProbeAgain(Node& node, bool moved);
  void MaybeProbe();
  void TakeBackUnreached();
  void SetReached(Node& node);
  void SetUnreached(Node& node, const std::string& why);
  void SayUnchecked(Node& node);

  // Nodes that leave, newcomers, and notices to all ranks (job_notice.cc).
  void OnLeaving(Node& node, const v1::Leaving& leaving);
  void OnNoticeSeen(Node& node, const v1::NoticeSeen& seen);
  void AskToLeave(Node& node, absl::Duration deadline,
                  const std::string& reason);
  void LeaveAtOnce(Node& node, const std::string& reason);
  // `again`: the node had asked to leave before.
  void Ask(v1::NoticeKind kind, absl::Duration deadline,
           const std::string& reason, bool again = false);
  void OnEndedForNotice(const Node& node, const v1::RankExited& exited);
  void AskDuringChange();
  void TellNotice();
  void AtBoundary(Node& node);
  void EndAtBoundary();
  void DropPending();
  bool Leaves(const Node& node) const {
    return notices_.Leaves(node.hello.node());
  }
  void JournalLeaving();
  void MaybeTellLeaving();
  void ForgetLeaving(const std::string& name);
  void SendLeft(const Node& node);
  void GrowSoon(Node& node);
  void MaybeGrow();
  void SayHold(Node& node);

  // Silence (job_silence.cc).
  void NoteBreak(Node& node);
  void MaybeTakeItselfForCutOff();
  void HeardFrom(const std::string& name);
  std::set<std::string> EndIsolation();
  void LoseTheSilent();

  // A run that this daemon has no memory of (job_adopt.cc).
  bool TakeClaim(const Attend& attend);
  void MaybeAdopt(bool time_is_over);
  void Adopt(const Claims::Claimed& chosen);
  void EndClaims();
  void RefuseClaims();

  // What a daemon takes up, from its journal or by adoption (job_restore.cc).
  // Takes over a world from the journal or from its members' claims, and waits
  // for all members. `world_commit`: set if the world was committed, so that it
  // runs.
  void TakeUpWorld(const v1::World& world, const v1::Proposal& proposal,
                   const std::optional<v1::WorldCommit>& world_commit);
  void Await(Node& node);
  void TakeUpLeaving(const v1::Notice& leaving);

  // Blame and its consequences for a node (job_blame.cc).
  void BlameNode(const v1::RootCause& cause, uint32_t times);
  void AskForChecks(Node& node);
  void OnCheckReport(Node& node, const v1::CheckReport& report);
  void SetQuarantined(Node& node, const std::string& reason);
  void ReleaseTheBlamed(size_t missing);
  void Release(Node& node);
  void MadeProgress();

  // Set-up commands (job_setup.cc).
  void OnSetupEnded(Node& node, const v1::SetupEnded& ended);
  void SetupFailed(Node& node, const v1::RootCause& cause);

  // Ranks that run and make no progress (job_hang.cc).
  void OnRankStalled(Node& node, const v1::RankStalled& stalled);
  uint32_t RankOf(const Node& node, uint32_t local_rank) const {
    return world().members(node.node_rank).first_rank() + local_rank;
  }
  void BeginStarts();
  void NoteStarted(Node& node, absl::Duration took = absl::ZeroDuration());
  void TellRanksLink(std::vector<SessionId> sessions);
  // False while a boundary with a deadline is pending, because the generation
  // ends there anyway. Also false while the daemon is isolated, because then it
  // has not heard from all members.
  bool MayEndHung() const {
    return phase_ == Phase::kRunning && !hangs_.empty() && !isolation_.on() &&
           notices_.until() == absl::InfiniteFuture();
  }
  void MaybeEndHung();

  // Failures and the end (job_end.cc).
  void RankFailed(Node& node, const v1::RankExited& exited);
  // `permanent`: another try would fail too, so no restart is spent on it.
  void GenerationFailed(v1::RootCause cause, bool permanent = false);
  void Lose(Node& node, v1::ReasonCode code, const std::string& reason);
  void BlameLostNode(const Node& node, v1::ReasonCode code,
                     const std::string& reason);
  void BlameInReform(const v1::RootCause& cause);
  void MaybeEndBlameWindow();
  void FinishAll();
  void MaybeJournalFinished();
  void JournalFinished();
  void FailRendezvous(v1::ReasonCode code, const std::string& reason);
  void Fail(v1::End end);
  void Finish(v1::End end);
  v1::End EndFor(const Node& node) const;
  void SendEnd();
  void MaybeForget();
  bool Lingers() const {
    return ending_.Lingers(!membership_.streams().empty());
  }

  // Bookkeeping (job.cc), and what waiting nodes are told (job_waiting.cc).
  const v1::World& world() const { return formation_.world(); }
  const Fence& fence() const { return gathering_.fence(); }
  bool IsRunning() const { return phase_ == Phase::kRunning; }
  bool HasEnded() const { return phase_ == Phase::kEnded; }
  // A world is proposed or running.
  bool HasWorld() const {
    return phase_ == Phase::kForming || phase_ == Phase::kRunning;
  }
  void Renew(Node& node);
  void Detach(Node& node);
  // `evicted`: a person evicted the node; such a loss does not delay newcomers.
  void Part(Node& node, v1::NodeState state, const std::string& reason,
            bool evicted = false);
  void JournalNodeEpochs();
  void TellWaiting();
  void TellSpare(const Node& node);
  void TellSpares();
  void CheckInvariants() const;

  Outbox out_;
  v1::JobSettings settings_;
  Limits limits_;
  absl::Time now_;

  Phase phase_ = Phase::kGathering;
  Membership membership_;
  RunCredentials credentials_;

  Gathering gathering_;
  Vetting vetting_;
  WaitingNews waiting_;

  Generations generations_;
  Formation formation_;
  Completion completion_;
  Exchanges exchanges_;
  GenerationStore store_;

  Notices notices_;
  Newcomers newcomers_;
  Isolation isolation_;
  Hangs hangs_;
  // Start times in the running world. Not journaled: after a restart of the
  // daemon, heartbeats report them again.
  Starts starts_;
  StepAccount steps_;

  Adoption adoption_;

  Failures failures_;
  Quarantine quarantine_;
  Ending ending_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_JOB_H_
