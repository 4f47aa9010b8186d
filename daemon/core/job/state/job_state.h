// JobState: all that a Job remembers, as the values that hold its rules, and
// the questions that several of them answer together.
//
// The groups of functions in acts/ and handlers/ change it; they say which
// value is asked when. JobReport reads it for people and waiting agents.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_STATE_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_STATE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/adoption/adoption.h"
#include "daemon/core/exchange.h"
#include "daemon/core/failures/failures.h"
#include "daemon/core/failures/quarantine.h"
#include "daemon/core/failures/step_account.h"
#include "daemon/core/formation/completion.h"
#include "daemon/core/formation/formation.h"
#include "daemon/core/formation/gathering.h"
#include "daemon/core/formation/generations.h"
#include "daemon/core/formation/seats.h"
#include "daemon/core/hangs/hangs.h"
#include "daemon/core/hangs/starts.h"
#include "daemon/core/isolation/isolation.h"
#include "daemon/core/job/state/ending.h"
#include "daemon/core/job/state/outbox.h"
#include "daemon/core/job/state/waiting_news.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/membership/name_rules.h"
#include "daemon/core/membership/run_credentials.h"
#include "daemon/core/notices/notices.h"
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
enum class JobPhase {
  kGathering,    // Too few nodes attend, or the last call is running.
  kForming,      // A world is proposed; its members prepare.
  kRunning,      // A world is committed.
  kBlameWindow,  // A failure left no restart: waits for the root cause.
  kEnded,
};

struct JobState {
  // A new run; see Job::Job.
  JobState(std::string job, std::string run, const v1::JobSettings& settings,
           const Limits& limits, absl::Time now);

  const std::string& name() const { return out.job(); }
  const std::string& run() const { return credentials.run(); }
  // The generation that was proposed last, or that was taken up since; 0: none.
  uint64_t generation() const { return generations.current(); }
  // The world that is proposed or runs, or that ran last.
  const v1::World& world() const { return formation.world(); }
  const Fence& fence() const { return gathering.fence(); }

  bool IsRunning() const { return phase == JobPhase::kRunning; }
  bool HasEnded() const { return phase == JobPhase::kEnded; }
  // A world is proposed or running.
  bool HasWorld() const { return phase == JobPhase::kForming || IsRunning(); }
  // Whether a world of this run was committed, or may have been.
  bool HasRun() const { return generations.may_have_run(); }
  // Whether the job gathers for its first world, and no member of a former run
  // has come back. Then it may end because of its nodes.
  bool AwaitsFirstWorld() const {
    return phase == JobPhase::kGathering && !HasRun() && !isolation.on() &&
           !adoption.waiting();
  }
  bool Lingers() const { return ending.Lingers(!membership.streams().empty()); }
  // False while a boundary with a deadline is pending, because the generation
  // ends there anyway. Also false while the daemon is isolated, because then it
  // has not heard from all members.
  bool MayEndHung() const {
    return IsRunning() && !hangs.empty() && !isolation.on() &&
           notices.until() == absl::InfiniteFuture();
  }
  // How long the next world must still wait for the fence at most. Zero: it
  // need not, or the job does not gather: the fence may have opened since it
  // was last asked.
  absl::Duration FenceLeft(absl::Time at) const;

  // Whether an agent of this run may know it by this id.
  bool IsRun(const std::string& id) const { return credentials.IsRun(id); }
  // Whether the job has a node of this name that is not gone.
  bool Knows(const std::string& node) const { return membership.Has(node); }
  // Whether the node was asked to leave.
  bool Leaves(const Node& node) const {
    return notices.Leaves(node.hello.node());
  }
  // The node's state if nothing is wrong with it.
  v1::NodeState StateByPhase(const Node& node) const;
  // The changes of the node's facts, for RootCause.node_changes.
  std::string ChangesOf(const std::string& node) const;
  uint32_t RankOf(const Node& node, uint32_t local_rank) const {
    return world().members(node.node_rank).first_rank() + local_rank;
  }
  // The End of a job that has ended, as this node's agent is told it.
  v1::End EndFor(const Node& node) const;

  // Views for the values that decide on more than their own fields.
  NameRules Names() const;
  Seats SeatsNow() const;
  Vetting::View ForVetting() const;

  Outbox out;
  v1::JobSettings settings;
  Limits limits;
  absl::Time now;

  JobPhase phase = JobPhase::kGathering;
  Membership membership;
  RunCredentials credentials;

  Gathering gathering;
  Vetting vetting;
  WaitingNews waiting;

  Generations generations;
  Formation formation;
  Completion completion;
  Exchanges exchanges;
  GenerationStore store;

  Notices notices;
  Newcomers newcomers;
  Isolation isolation;
  Hangs hangs;
  // Start times in the running world. Not journaled: after a restart of the
  // daemon, heartbeats report them again.
  Starts starts;
  StepAccount steps;

  Adoption adoption;

  Failures failures;
  Quarantine quarantine;
  Ending ending;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_STATE_H_
