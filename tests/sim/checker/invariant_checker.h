// InvariantChecker: checks a run against the invariants
// (daemon/core/invariants.h), event by event.
//
// It observes only from outside: what the daemon is told and answers, what its
// journal holds when it sends, what each agent hears and does. It decides
// nothing and changes nothing. The first violated invariant ends the run.
#ifndef ROLLCALL_TESTS_SIM_CHECKER_INVARIANT_CHECKER_H_
#define ROLLCALL_TESTS_SIM_CHECKER_INVARIANT_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent/agent.h"
#include "daemon/core/events.h"
#include "daemon/core/invariants.h"
#include "daemon/core/job/job.h"
#include "tests/sim/checker/finding.h"
#include "tests/sim/checker/hang_checks.h"
#include "tests/sim/checker/restart_checks.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

// What one life of a node's agent has heard and done.
struct LifeRecord {
  uint32_t node = 0;
  std::string name;
  uint64_t incarnation = 0;  // In its latest Hello.
  uint64_t generation_heard = 0;
  uint64_t prepared_said = 0;
  uint64_t committed_heard = 0;
  uint64_t started = 0;
  bool exited = false;
  std::string run;  // In its latest Welcome.
  // The first End that it got, for the job or for this node alone, and the run
  // of that End.
  std::optional<v1::End> end;
  std::string end_of;
  // The signal that first asked it to leave; 0: none did.
  int leave_signal = 0;
  // The agent was asked twice, so it leaves at once and ignores all messages
  // but an End.
  bool goes_at_once = false;
};

// A run that begins without memory of earlier runs counts its generations from
// its own multiple of this number.
inline constexpr uint64_t kGenerationsARun = 1'000'000;

class InvariantChecker {
 public:
  // `settings`: must have lease, daemon_grace and reconnect_grace.
  InvariantChecker(World& world, const v1::JobSettings& settings);

  void Broken(Invariant which, const std::string& found);
  // An event occurred that could have violated the invariant.
  void Tested(Invariant which) { ++tested_[static_cast<size_t>(which) - 1]; }
  // How often each invariant was tested, in the order of kInvariants.
  const std::vector<uint64_t>& tested() const { return tested_; }
  bool broken() const { return broken_.has_value(); }
  // The violated invariant's number, name and sentence, and what was found.
  std::string Verdict() const;

  // --- The daemon ------------------------------------------------------------

  void BeforeStep(const Job& job, const Event& event, absl::Time now);
  void AfterStep(const Job& job, const Event& event, absl::Time now,
                 const std::vector<Action>& actions);
  // A Hello is about to be judged. `epoch`: the epoch of its credential, if it
  // has one.
  void Tries(const v1::Hello& hello, std::optional<uint64_t> epoch);
  // The journal holds the entries of all steps so far.
  void Durable();
  // A message is sent while the journal holds `durable`.
  void Sent(const v1::DaemonMessage& message, const JournalState& durable);
  // A daemon restores this journal: called before, after, and with the actions
  // of its start.
  void Restored(const JournalState& durable);
  void TookUp(const Job& job, const JournalState& durable, absl::Time now);
  void Started(const std::vector<Action>& actions, absl::Time now);
  void DaemonDied();
  // The daemon has lost its journal too.
  void Forgotten();
  // The journal is put back to an earlier time: only agents know the
  // generations since then, and all members of the next world report what they
  // have seen.
  void RolledBack();

  // --- Agents ----------------------------------------------------------------

  void Hears(LifeRecord& life, const v1::DaemonMessage& message);
  void Says(LifeRecord& life, const v1::AgentMessage& message, bool ranks_live);
  void Prepares(LifeRecord& life, const Prepare& prepare);
  void Minted(uint64_t generation, const std::vector<std::string>& ids,
              uint32_t port);
  void Starts(LifeRecord& life, const StartRanks& start, bool ranks_live);
  void Exits(LifeRecord& life, const Exit& exit, bool ranks_live);
  // The agent attended when the job ended, and has exited.
  void ExitedAfterEnd(const LifeRecord& life);
  void AgentTicked(const LifeRecord& life, const Agent& agent, absl::Time now);

  // --- Ranks -----------------------------------------------------------------

  // A rank was told the sum of the counter in the generation's store. `seen`:
  // the highest sum that any rank had been told when this one asked.
  void Counted(uint64_t generation, int64_t seen, int64_t sum);
  // All machines of the generation completed a step together.
  void Stepped(uint64_t generation);

  // Whether a node gets no seat until it attends again, because it refused
  // several worlds or its checks failed.
  bool IsExcluded(const std::string& name) const {
    return excluded_.contains(name);
  }
  // A proposal of the agent's run that is older than the generation which the
  // agent has seen, if there is one: a stopped daemon that continues could send
  // it.
  std::optional<v1::Proposal> OlderProposal(const LifeRecord& life);
  // The commit of the generation for which the agent last started ranks.
  std::optional<v1::Commit> LatestCommit(const LifeRecord& life) const;
  // For how many generations ranks were started.
  uint64_t generations_started() const { return started_.size(); }

 private:
  struct Told {
    std::string world;
    std::string world_commit;
  };
  struct Seat {
    uint64_t incarnation;
    uint32_t seat;
  };
  struct Lease {
    std::string name;
    uint64_t incarnation;
    absl::Time until;
  };

  void Note(Invariant which, const Finding& finding);
  void NoteLogged(const Log& log, const std::vector<Action>& actions,
                  absl::Time now);
  bool IsEvictedAlive(const std::string& name,
                      const std::vector<Action>& actions) const;
  void OnGenerationEnded(const Journal& entry, absl::Time now);
  std::set<std::string> MembersOf(uint64_t generation);
  void CheckHang(const v1::Reform& reform, absl::Time now);

  // journal_checks.cc
  void OnJournal(const Journal& entry, absl::Time now);
  void OnSend(const Send& send, absl::Time now);
  // The highest generation of the same run that an agent was told of.
  uint64_t HighestTold(uint64_t generation) const;

  // world_checks.cc
  void OnProposal(const v1::Proposal& proposal, absl::Time now);
  void CheckDense(const v1::World& world);
  void CheckSticky(const v1::World& world);
  void CheckMembers(const v1::World& world, absl::Time now);
  void FreeSeats(const Job& job, absl::Time now);
  void NoteRefused(const std::string& node, absl::Time now);
  void NoteWhoLeaves(const Job& job, absl::Time now, bool asked);

  // attend_checks.cc
  // Whether an agent that dials again brings what the job has already.
  bool IsRetry(const Job& job, const Attend& attend, absl::Time now) const;
  void CheckRefused(const Job& job, const Attend& attend, absl::Time now);
  void CheckReplaced(const Job& job, const v1::Hello& hello);
  void NoteVouched(const std::string& name);
  void ForgetEvictions();
  void NoteAdopted(SessionId session);
  void ForgetEvictionsSince(const Told& told);
  void NoteClaim(const Job& job, const Attend& attend);
  void CheckAdoption(const v1::Proposal& proposal);
  void CheckToldItEnded(const Job& job, const Attend& attend, absl::Time now,
                        const std::vector<Action>& actions);

  // lease_checks.cc
  void CheckLeases(const Job& job, const Event& event, absl::Time now);
  void OnClose(const CloseStream& close, absl::Time now);
  void CheckMajority(const std::string& name, absl::Time until, absl::Time now);
  void NoteMembers(const Job& job, absl::Time now);
  void NoteSuspects(const Job& job, const Event& event, absl::Time now);

  // agent_checks.cc
  void CheckStateSource(const std::string& who, const StartRanks& start);

  World& world_;
  const absl::Duration lease_;
  const absl::Duration daemon_grace_;
  const absl::Duration reconnect_grace_;
  std::vector<uint64_t> tested_;
  struct Found {
    Invariant which;
    std::string text;
  };
  std::optional<Found> broken_;

  // By generation: all that any agent was told of it.
  std::map<uint64_t, Told> told_;
  std::set<uint64_t> started_;
  std::map<uint64_t, std::pair<std::vector<std::string>, uint32_t>> minted_;
  std::map<std::string, uint64_t> ids_;
  std::set<uint64_t> stepped_;
  // Generation and sum of each addition to the counter that was answered.
  std::set<std::pair<uint64_t, int64_t>> sums_;
  // Generations that promise 15 excepts: a member has been evicted, or a daemon
  // without memory adopted an older world and could not know of this one.
  std::set<uint64_t> excepted_;
  // What linked ranks reported for a generation, once for each report of a
  // node.
  std::map<uint64_t, std::map<std::string, std::vector<v1::Prepared>>> brought_;

  // The state of one life of the daemon.
  uint64_t proposed_ = 0;   // Journaled, in the order of the actions.
  uint64_t committed_ = 0;  // The same, for commits.
  bool end_journaled_ = false;
  bool rolled_back_ = false;
  // The end of each run in its journal, once an agent was told of it.
  std::map<std::string, v1::End> ends_told_;
  // True while the entries of an adopted run follow.
  bool adopts_ = false;
  std::map<SessionId, Lease> leases_;
  HangChecks hangs_;
  RestartChecks restarts_;
  // The node in the Hello of each stream of this daemon's life.
  std::map<SessionId, std::string> speakers_;
  std::map<std::string, std::set<uint64_t>> out_;  // Replaced or lost.
  std::map<std::string, uint64_t> in_;             // The agent with the name.
  // The agents of one node in one run.
  struct Agents {
    // By incarnation: the number of the token admission from which its
    // credential comes.
    std::map<uint64_t, uint64_t> let_in;
    // The latest admission whose Welcome an agent has got. A Welcome is sent
    // once the admission is durable.
    uint64_t welcomed = 0;
  };
  // By run and node.
  std::map<std::pair<std::string, std::string>, Agents> agents_;
  uint64_t let_in_ = 0;
  std::map<std::string, Seat> seats_;
  // The members before the latest step in which a node could be declared lost.
  std::set<std::string> members_;
  uint64_t seated_in_ = 0;  // The generation of these seats.
  // Incarnations that were asked to leave for good, and whether the journal has
  // that. An agent that only announced its leave itself announces it to the
  // next daemon too.
  struct Leaver {
    uint64_t incarnation;
    bool asked = false;
    bool durable = false;
  };
  std::map<std::string, Leaver> leaves_;
  // Nodes that get no seat until they attend again as another incarnation than
  // this one; 0: as any incarnation.
  std::map<std::string, uint64_t> excluded_;
  // How many worlds each agent has refused since the daemon began, and until
  // when it gets no seat because of that.
  struct Refusals {
    uint64_t incarnation = 0;
    int count = 0;
    absl::Time out_until = absl::InfinitePast();
  };
  std::map<std::string, Refusals> refusals_;
  // Members whose stream broke, and until when the daemon waits for them.
  std::map<std::string, absl::Time> suspects_;
  // The highest generation that an admitted agent has reported.
  uint64_t seen_ = 0;
  // The streams whose agents bring worlds to a daemon without memory.
  struct Claim {
    std::string world;
    std::string node;
    uint64_t incarnation;
  };
  std::map<SessionId, Claim> claims_;
  // By generation: how many of its ABORTs that are not sent yet are for nodes
  // that are no longer members of it.
  std::map<uint64_t, uint64_t> outsiders_;
  // By run and node: the lowest epoch that a credential may have since the
  // eviction.
  std::map<std::pair<std::string, std::string>, uint64_t> evicted_;
  // The state before the current step, and whether that step has ended the
  // isolation.
  bool isolated_ = false;
  absl::Time isolated_since_ = absl::InfiniteFuture();
  bool reunited_ = false;
  bool open_ = false;  // A generation was proposed and has not ended.
  // The state of the current step.
  bool may_change_ = true;
  bool retry_ = false;
  uint64_t revision_before_ = 0;
  std::string status_before_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_CHECKER_INVARIANT_CHECKER_H_
