// Chronicle: holds what was seen of a run against its promises
// (daemon/core/invariants.h), event by event.
//
// It sees everything from outside: what the daemon was told and
// wanted, what its journal held when it spoke, what each agent heard and did.
// It decides nothing and changes nothing; the first broken promise ends a run.
#ifndef ROLLCALL_TESTS_SIM_CHRONICLE_H_
#define ROLLCALL_TESTS_SIM_CHRONICLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent.h"
#include "daemon/core/invariants.h"
#include "daemon/core/events.h"
#include "daemon/core/job/job.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

// What a node's agent of one life has heard and done.
struct LifeRecord {
  uint32_t node = 0;
  std::string name;
  uint64_t incarnation = 0;  // Of its latest Hello.
  uint64_t generation_heard = 0;
  uint64_t prepared_said = 0;
  uint64_t committed_heard = 0;
  uint64_t started = 0;
  bool exited = false;
  std::string run;  // As its latest Welcome says.
  // The first that it heard, and of which run; the job's own, or that it has
  // left.
  std::optional<v1::End> end;
  std::string end_of;
  // By which it was asked to leave first; 0: it was not.
  int leave_signal = 0;
  // It was asked twice, so it leaves at once and ignores all but an End.
  bool goes_at_once = false;
};

// Runs that begin without a memory of others count from their own multiple.
inline constexpr uint64_t kGenerationsARun = 1'000'000;

class Chronicle {
 public:
  // `settings`: with lease, daemon_grace and reconnect_grace.
  Chronicle(World& world, const v1::JobSettings& settings);

  void Broken(Invariant which, const std::string& found);
  // A promise is put to the test in a way in which it could be broken.
  void Tested(Invariant which) { ++tested_[static_cast<size_t>(which) - 1]; }
  // How often each was, in the order of kInvariants.
  const std::vector<uint64_t>& tested() const { return tested_; }
  bool broken() const { return broken_.has_value(); }
  // Number, name, sentence and what was found.
  std::string Verdict() const;

  // --- The daemon
  // -------------------------------------------------------------

  void BeforeStep(const Job& job, const Event& event, absl::Time now);
  void AfterStep(const Job& job, const Event& event, absl::Time now,
                 const std::vector<Action>& actions);
  // A Hello shows a credential of that epoch, if it shows one; whether it is
  // let in is not known yet.
  void Tries(const v1::Hello& hello, std::optional<uint64_t> epoch);
  // All that the steps so far wanted is in the journal.
  void Durable();
  // A message goes out while the journal holds this.
  void Sent(const v1::DaemonMessage& message, const JournalState& durable);
  // It goes on from this,
  void Restored(const JournalState& durable);
  // and this is how.
  void TookUp(const Job& job, const JournalState& durable, absl::Time now);
  void Started(const std::vector<Action>& actions, absl::Time now);
  void DaemonDied();
  // And its journal with it.
  void Forgotten();
  // Its journal is one of an earlier time: agents alone know of the generations
  // since, and all that will be in a world say what they have seen.
  void RolledBack();

  // --- Agents
  // -----------------------------------------------------------------

  void Hears(LifeRecord& life, const v1::DaemonMessage& message);
  void Says(LifeRecord& life, const v1::AgentMessage& message, bool ranks_live);
  void Prepares(LifeRecord& life, const Prepare& prepare);
  void Minted(uint64_t generation, const std::vector<std::string>& ids,
              uint32_t port);
  void Starts(LifeRecord& life, const StartRanks& start, bool ranks_live);
  void Exits(LifeRecord& life, const Exit& exit, bool ranks_live);
  // Its agent attended when the job ended, and has exited.
  void ExitedAfterEnd(const LifeRecord& life);
  void AgentTicked(const LifeRecord& life, const Agent& agent, absl::Time now);

  // --- Ranks
  // ------------------------------------------------------------------

  // All machines of the generation completed a step together.
  void Stepped(uint64_t generation);

  // Whether a node gets no seat until it attends anew: it refused several
  // worlds, or its checks failed.
  bool IsExcluded(const std::string& name) const {
    return excluded_.contains(name);
  }
  // An older proposal of its run than the agent has heard of, if there is one:
  // what a daemon of an earlier time would tell it.
  std::optional<v1::Proposal> OlderProposal(const LifeRecord& life);
  // The commit of the generation that it started ranks for last.
  std::optional<v1::Commit> LatestCommit(const LifeRecord& life) const;
  // Of how many generations ranks were started, for the outcome.
  uint64_t generations_started() const { return started_.size(); }

 private:
  struct Told {
    std::string world;
    std::string seal;
  };
  struct Seat {
    uint64_t incarnation;
    uint32_t seat;
  };

  void NoteVouched(const std::string& name);
  void FreeSeats(const Job& job, absl::Time now);
  void NoteLogged(const Log& log, const std::vector<Action>& actions,
                  absl::Time now);
  bool IsEvictedAlive(const std::string& name,
                      const std::vector<Action>& actions) const;
  void NoteSuspects(const Job& job, const Event& event, absl::Time now);
  void NoteClaim(const Job& job, const Attend& attend);
  void CheckAdoption(const v1::Proposal& proposal);
  void CheckToldItEnded(const Job& job, const Attend& attend, absl::Time now,
                        const std::vector<Action>& actions);
  void CheckMembers(const v1::World& world, absl::Time now);
  void OnSend(const Send& send, absl::Time now);
  void OnProposal(const v1::Proposal& proposal, absl::Time now);
  void OnJournal(const Journal& entry, absl::Time now);
  // The highest that anybody was told of the same run.
  uint64_t HighestTold(uint64_t generation) const;
  void NoteRefused(const std::string& node, absl::Time now);
  void OnGenerationEnded(const Journal& entry, absl::Time now);
  void NoteStall(const Said& said);
  void ForgetEvictions();
  void CheckReplaced(const Job& job, const v1::Hello& hello);
  void NoteMembers(const Job& job, absl::Time now);
  void CheckHang(const v1::Reform& reform);
  bool MostHaveStarted(uint64_t generation) const;
  void NoteWhoLeaves(const Job& job, absl::Time now, bool asked);
  void CheckMajority(const std::string& name, absl::Time until, absl::Time now);
  void CheckStateSource(const std::string& who, const StartRanks& start);
  void OnClose(const CloseStream& close, absl::Time now);
  void CheckLeases(const Job& job, const Event& event, absl::Time now);
  // Whether what an agent that dials again brings is what the job has.
  bool IsRetry(const Job& job, const Attend& attend, absl::Time now) const;
  void CheckRefused(const Job& job, const Attend& attend, absl::Time now);
  void CheckDense(const v1::World& world);
  void CheckSticky(const v1::World& world);

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

  // Of everything that was ever told to an agent.
  std::map<uint64_t, Told> told_;
  std::set<uint64_t> started_;
  std::map<uint64_t, std::pair<std::vector<std::string>, uint32_t>> minted_;
  std::map<std::string, uint64_t> ids_;
  std::set<uint64_t> stepped_;
  // Those of which a person has evicted a member.
  std::set<uint64_t> vouched_;
  // What linked ranks brought to a generation, each time a node said it.
  std::map<uint64_t, std::map<std::string, std::vector<v1::Prepared>>> brought_;

  // Of one life of the daemon.
  uint64_t proposed_ = 0;   // Journaled, in the order of the actions.
  uint64_t committed_ = 0;  // The same.
  bool end_journaled_ = false;
  bool rolled_back_ = false;
  // The end of each run as its journal has it, once it was told.
  std::map<std::string, v1::End> ends_told_;
  // The entries of an adopted run follow.
  bool adopts_ = false;
  struct Lease {
    std::string name;
    uint64_t incarnation;
    absl::Time until;
  };
  std::map<SessionId, Lease> leases_;
  struct StallRecord {
    uint64_t generation;
    std::string name;
    uint32_t local_rank;

    auto operator<=>(const StallRecord&) const = default;
  };
  // How far it is; smaller: further behind.
  struct StallPlace {
    bool runs;
    bool begun;  // Has linked or published a step.
    bool answers;
    uint64_t entered;

    auto operator<=>(const StallPlace&) const = default;
  };
  struct Stall {
    StallPlace place;
    // Its agent has attended again since, and has neither said it again nor
    // sent a heartbeat, before which it would have.
    bool to_say_again = false;
    absl::Time attended_at = absl::InfinitePast();

    // Nobody is waited for longer than for a lease.
    bool Counts(absl::Time now, absl::Duration lease) const {
      return !to_say_again || now < attended_at + lease;
    }
  };
  std::map<StallRecord, Stall> stalls_;
  // A step of it was said: who has not begun counts for nothing.
  uint64_t stepped_in_ = 0;
  // Nodes that have said that ranks of theirs linked or published a step.
  std::set<std::string> have_started_;
  // By the Hello of each stream of this daemon's life.
  std::map<SessionId, std::string> speakers_;
  std::map<std::string, std::set<uint64_t>> out_;  // Replaced or lost.
  std::map<std::string, uint64_t> in_;             // Who holds the name.
  // The agents of each run and node: which was let in how late by a token, by
  // the incarnations of its lives; and the latest that has heard its Welcome,
  // which was told when it was durable.
  struct Agents {
    std::map<uint64_t, uint64_t> let_in;
    uint64_t welcomed = 0;
  };
  std::map<std::pair<std::string, std::string>, Agents> agents_;
  uint64_t let_in_ = 0;
  std::map<std::string, Seat> seats_;
  // Before the latest step in which a node could be given up.
  std::set<std::string> members_;
  uint64_t seated_in_ = 0;  // The generation of these seats.
  // Incarnations that were asked to leave for good, and whether the journal has
  // it. Those that only said so say it again to the next daemon.
  struct Leaver {
    uint64_t incarnation;
    bool asked = false;
    bool durable = false;
  };
  std::map<std::string, Leaver> leaves_;
  // Those that get no seat until they attend anew: as another incarnation than
  // this; 0: also as the same.
  std::map<std::string, uint64_t> excluded_;
  // Worlds that each agent has refused since the daemon began, and until when
  // it gets no seat for that.
  struct Refusals {
    uint64_t incarnation = 0;
    int count = 0;
    absl::Time out_until = absl::InfinitePast();
  };
  std::map<std::string, Refusals> refusals_;
  // Members whose stream broke, and until when they are waited for.
  std::map<std::string, absl::Time> suspects_;
  // The highest generation that agents let in have said that they saw.
  uint64_t seen_ = 0;
  // The streams that bring worlds to a daemon without memory.
  struct Claim {
    std::string world;
    std::string node;
    uint64_t incarnation;
  };
  std::map<SessionId, Claim> claims_;
  // By generation: how many ABORTs of it, not sent yet, are for nodes that are
  // no members of it any more.
  std::map<uint64_t, uint64_t> outsiders_;
  // The latest failure that a restart was charged for: while it is settled, a
  // member that is lost gives it back.
  struct Charge {
    std::set<std::string> members;
    absl::Time until;
  };
  std::optional<Charge> charge_;
  // By run and node: the least epoch that a credential may have since.
  std::map<std::pair<std::string, std::string>, uint64_t> evicted_;
  uint32_t charged_ = 0;
  // Before the step under way; in it, isolation has ended already.
  bool isolated_ = false;
  absl::Time isolated_since_ = absl::InfiniteFuture();
  bool reunited_ = false;
  bool open_ = false;  // A generation that was proposed and has not ended.
  // Of the step under way.
  absl::Time now_ = absl::InfinitePast();
  bool may_change_ = true;
  bool retry_ = false;
  uint64_t revision_before_ = 0;
  std::string status_before_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_CHRONICLE_H_
