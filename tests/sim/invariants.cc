#include "tests/sim/invariants.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/check.h"
#include "daemon/core/world.h"

namespace rollcall::sim {

const std::vector<InvariantRow> kInvariants = {
    {Invariant::kOneWorld, "one world",
     "A generation has one world and one seal, whoever is told and whenever."},
    {Invariant::kSameBytes, "same bytes",
     "All members of a generation start from the same bytes."},
    {Invariant::kDense, "dense",
     "Node ranks and ranks are dense, and no node or seat is in a world "
     "twice."},
    {Invariant::kSticky, "sticky",
     "Who stays a member keeps its seat from one world to the next."},
    {Invariant::kNoOlder, "no older",
     "Nobody acts on a generation older than one it has seen."},
    {Invariant::kFreshIds, "fresh ids",
     "An NCCL id and a MASTER_PORT belong to the generation that they were "
     "made for, and to no other."},
    {Invariant::kSurvives, "survives",
     "No generation that anybody was told of is used again, and one that was "
     "committed runs on, however often the daemon dies."},
    {Invariant::kJournalFirst, "journal first",
     "A proposal, a commit and an end are in the journal before they are "
     "told."},
    {Invariant::kJournalRestores, "journal restores",
     "What a daemon journaled, the next one can go on from."},
    {Invariant::kRefusedIsNothing, "refused is nothing",
     "Who is refused has changed nothing."},
    {Invariant::kRetryIsNothing, "retry is nothing",
     "Who dials again, in the same life and with the world that runs, begins "
     "and ends no generation."},
    {Invariant::kReplacedIsOut, "replaced is out",
     "An incarnation that has heard its welcome and was replaced or lost is "
     "not let in again by the daemon that knows it."},
    {Invariant::kBounded, "bounded",
     "No container grows beyond what the run has names, ranks and limits "
     "for."},
    {Invariant::kOneGenerationANode, "one generation a node",
     "No node has ranks of two generations at once."},
    {Invariant::kOneGenerationSteps, "one generation steps",
     "Once a generation has completed a step, no older one that shares a "
     "machine with it does; one that shares none was cut off as a whole and "
     "may go on until its lease with the daemon is noticed to be over."},
    {Invariant::kPreparedMeansGone, "prepared means gone",
     "Prepared is said only where no rank of an older generation lives."},
    {Invariant::kStartedOnce, "started once",
     "Ranks of a generation are started once in a life, after it was prepared "
     "for and its commit was heard."},
    {Invariant::kExitIsLast, "exit is last",
     "An agent exits with no rank alive, and does nothing after."},
    {Invariant::kLeaseHolds, "lease holds",
     "Nobody is given up for silence before its lease ends, or kept after."},
    {Invariant::kNothingLeftDue, "nothing left due",
     "A tick does all that is due; a core that is told the time never asks "
     "for a moment that has passed."},
    {Invariant::kAdmitted, "admitted",
     "What an agent says is admitted by a daemon."},
    {Invariant::kReasons, "reasons",
     "What ends, ends with a code and with words."},
    {Invariant::kMajority, "majority",
     "Silence of over half of a world is taken for the daemon's own: nobody "
     "is given up for it before daemon_grace is over."},
    {Invariant::kStateGoesOn, "state goes on",
     "The source of a world's state is a living rank of it that holds the "
     "highest step that any of them brought."},
    {Invariant::kLeavesForGood, "leaves for good",
     "Who was asked to leave, durably, is in no later world."},
    {Invariant::kBudget, "budget",
     "Only a rank's failure costs a restart, and one at a time."},
    {Invariant::kProgress, "progress",
     "In calm the job comes to its end, all agents hear of it, and it does "
     "not give up while enough nodes live."},
};

void Chronicle::Broken(Invariant which, const std::string& found) {
  if (broken_.has_value()) return;
  broken_ = Found{which, found};
  world_.Trace("BROKEN ", Verdict());
}

std::string Chronicle::Verdict() const {
  CHECK(broken_.has_value());
  const InvariantRow& row =
      kInvariants.at(static_cast<size_t>(broken_->which) - 1);
  return absl::StrCat("invariant ", static_cast<int>(row.number), " (",
                      row.name, "): ", row.sentence, " Found: ", broken_->text);
}

// --- The daemon
// ----------------------------------------------------------------

void Chronicle::BeforeStep(const Job& job, const Event& event, absl::Time now) {
  revision_before_ = job.revision();
  retry_ = false;
  const auto* tick = std::get_if<Tick>(&event);
  if (tick != nullptr && tick->late > absl::Milliseconds(50)) {
    for (auto& [session, lease] : leases_) lease.until += tick->late;
  }
  const auto* attend = std::get_if<Attend>(&event);
  if (attend == nullptr) return;
  // What was due anyway may happen in the same step.
  may_change_ = job.NextDeadline() <= now;
  if (may_change_) return;
  status_before_ = job.Status(now).SerializeAsString();
  retry_ = IsRetry(job, *attend, now);
}

bool Chronicle::IsRetry(const Job& job, const Attend& attend,
                        absl::Time now) const {
  const v1::Hello& hello = attend.hello;
  const auto in = in_.find(hello.node());
  if (in == in_.end() || in->second != hello.incarnation()) return false;
  if (job.state() == v1::JOB_STATE_FORMING) return true;
  return job.state() == v1::JOB_STATE_RUNNING && hello.held().exits().empty() &&
         hello.held().running_generation() == job.Status(now).generation();
}

void Chronicle::AfterStep(const Job& job, const Event& event, absl::Time now,
                          const std::vector<Action>& actions) {
  // First: whose name it is now counts for what follows from it.
  if (const auto* attend = std::get_if<Attend>(&event)) {
    CheckRefused(job, *attend, now);
  }
  for (const Action& action : actions) {
    if (const auto* entry = std::get_if<Journal>(&action)) {
      if (retry_) {
        Broken(Invariant::kRetryIsNothing,
               absl::StrCat("generation ", entry->generation,
                            " begins or ends by a retry of ",
                            std::get<Attend>(event).hello.node()));
      }
      OnJournal(*entry);
      if (entry->kind == Journal::Kind::kEnded) FreeSeats(job, now);
    } else if (const auto* send = std::get_if<Send>(&action)) {
      OnSend(job, *send);
    } else if (const auto* close = std::get_if<CloseStream>(&action)) {
      OnClose(*close, now);
    }
  }
  const auto* said = std::get_if<Said>(&event);
  const bool reports = said != nullptr && said->message.has_check_report();
  const bool may_free = std::holds_alternative<Tick>(event) || reports;
  bars_ += reports && job.revision() != revision_before_;
  if (may_free && job.revision() != revision_before_) FreeSeats(job, now);
  CheckLeases(job, event, now);
  if (std::holds_alternative<DrainAsked>(event)) NoteWhoLeaves(job, now);
}

void Chronicle::OnJournal(const Journal& entry) {
  if (end_journaled_) {
    Broken(Invariant::kJournalFirst, "an entry after the run's end");
  }
  if (entry.kind == Journal::Kind::kRunStarted) {
    adopts_ = !told_.empty();
    return;
  }
  if (entry.kind == Journal::Kind::kProposed && adopts_) {
    v1::Proposal proposal;
    CHECK(proposal.ParseFromString(entry.body));
    if (told_[proposal.generation()].world != proposal.world()) {
      Broken(Invariant::kOneWorld, "an adopted world is none that was told");
    }
    const auto world = DecodeWorld(proposal.world());
    if (world.ok()) charged_ = world->restarts_charged();
    proposed_ = proposal.generation();
    open_ = true;
  } else if (entry.kind == Journal::Kind::kProposed) {
    const uint64_t before = std::max(proposed_, HighestTold(entry.generation));
    if (entry.generation <= before) {
      Broken(Invariant::kSurvives,
             absl::StrCat("generation ", entry.generation,
                          " is proposed; generation ", before,
                          " was proposed or told before"));
    }
    proposed_ = entry.generation;
    open_ = true;
  } else if (entry.kind == Journal::Kind::kCommitted) {
    v1::Seal seal;
    CHECK(seal.ParseFromString(entry.body));
    if (adopts_ && told_[seal.generation()].seal != entry.body) {
      Broken(Invariant::kOneWorld, "an adopted seal is none that was told");
    }
    adopts_ = false;
    committed_ = seal.generation();
  } else if (entry.kind == Journal::Kind::kEnded) {
    OnGenerationEnded(entry);
    open_ = false;
  } else if (entry.kind == Journal::Kind::kRunEnded) {
    end_journaled_ = true;
    v1::End end;
    CHECK(end.ParseFromString(entry.body));
    if (end.code() == v1::REASON_CODE_UNSPECIFIED || end.reason().empty()) {
      Broken(Invariant::kReasons, end.ShortDebugString());
    }
  }
}

uint64_t Chronicle::HighestTold(uint64_t generation) const {
  const uint64_t run = generation / kGenerationsARun;
  auto at = told_.lower_bound((run + 1) * kGenerationsARun);
  if (at == told_.begin()) return 0;
  --at;
  return at->first / kGenerationsARun == run ? at->first : 0;
}

void Chronicle::OnGenerationEnded(const Journal& entry) {
  v1::Reform reform;
  CHECK(reform.ParseFromString(entry.body));
  bars_ += reform.code() == v1::REASON_CODE_REFUSED ||
           reform.code() == v1::REASON_CODE_PREPARE_TIMEOUT ||
           reform.code() == v1::REASON_CODE_QUARANTINED ||
           reform.code() == v1::REASON_CODE_LEAVING;
  if (reform.code() == v1::REASON_CODE_UNSPECIFIED || reform.reason().empty()) {
    Broken(Invariant::kReasons,
           absl::StrCat("generation ", entry.generation, " ended with ",
                        reform.ShortDebugString()));
  }
  const bool failure = reform.code() == v1::REASON_CODE_RANK_EXIT ||
                       reform.code() == v1::REASON_CODE_RANK_SIGNAL ||
                       reform.code() == v1::REASON_CODE_RANK_COMMUNICATION ||
                       reform.code() == v1::REASON_CODE_GPU_ERROR ||
                       reform.code() == v1::REASON_CODE_NOT_STARTED;
  const uint32_t charged = reform.restarts_charged();
  // Progress gives all of it back, and a lost node what was charged for it.
  if (charged > charged_ + (failure ? 1 : 0)) {
    Broken(Invariant::kBudget,
           absl::StrCat("generation ", entry.generation, " ended by ",
                        v1::ReasonCode_Name(reform.code()), ", and ", charged,
                        " restarts are charged after ", charged_));
  }
  charged_ = charged;
}

void Chronicle::NoteWhoLeaves(const Job& job, absl::Time now) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_DRAINING && node.incarnation() != 0) {
      leaves_[node.node()] = node.incarnation();
    }
  }
}

// Who refused, was too slow, leaves or is lost has given its seat back.
void Chronicle::FreeSeats(const Job& job, absl::Time now) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.seat() < 0) seats_.erase(node.node());
  }
}

void Chronicle::OnSend(const Job& job, const Send& send) {
  const v1::DaemonMessage& m = send.message;
  if (m.has_proposal()) {
    if (proposed_ != m.proposal().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", m.proposal().generation(),
                          " stands before its entry"));
    }
    OnProposal(job, m.proposal());
  } else if (m.has_commit() && committed_ != m.commit().generation()) {
    Broken(Invariant::kJournalFirst,
           absl::StrCat("commit ", m.commit().generation(),
                        " stands before its entry"));
  } else if (m.has_end() && !end_journaled_ &&
             m.end().code() != v1::REASON_CODE_LEAVING) {
    Broken(Invariant::kJournalFirst, "the end stands before its entry");
  }
}

void Chronicle::OnProposal(const Job&, const v1::Proposal& proposal) {
  const auto at = told_.find(proposal.generation());
  if (at != told_.end() && at->second.world == proposal.world()) return;
  const absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  if (!world.ok()) {
    return Broken(Invariant::kDense, std::string(world.status().message()));
  }
  if (world->generation() != proposal.generation()) {
    Broken(Invariant::kOneWorld, "a proposal and its world differ in number");
  }
  CheckDense(*world);
  CheckSticky(*world);
}

void Chronicle::CheckDense(const v1::World& world) {
  std::set<std::string> names;
  std::set<uint32_t> seats;
  uint32_t next_rank = 0;
  uint32_t next_node_rank = 0;
  int64_t last_seat = -1;
  for (const v1::Member& member : world.members()) {
    const bool fits = names.insert(member.node()).second &&
                      seats.insert(member.seat()).second &&
                      member.node_rank() == next_node_rank++ &&
                      member.first_rank() == next_rank &&
                      int64_t{member.seat()} > last_seat;
    if (!fits) Broken(Invariant::kDense, world.ShortDebugString());
    next_rank += member.ranks();
    last_seat = member.seat();
  }
  if (next_rank != world.world_size()) {
    Broken(Invariant::kDense, world.ShortDebugString());
  }
}

void Chronicle::CheckSticky(const v1::World& world) {
  std::map<std::string, Seat> seats;
  for (const v1::Member& member : world.members()) {
    const auto in = in_.find(member.node());
    const uint64_t incarnation = in == in_.end() ? 0 : in->second;
    const auto leaves = leaves_.find(member.node());
    if (leaves != leaves_.end() && leaves->second == incarnation) {
      Broken(Invariant::kLeavesForGood,
             absl::StrCat("node ", member.node(), ", incarnation ", incarnation,
                          ", is in generation ", world.generation()));
    }
    seats[member.node()] = Seat{incarnation, member.seat()};
    const auto before = seats_.find(member.node());
    if (before == seats_.end() || before->second.incarnation != incarnation ||
        before->second.seat == member.seat()) {
      continue;
    }
    Broken(Invariant::kSticky,
           absl::StrCat("node ", member.node(), " had seat ",
                        before->second.seat, " and gets seat ", member.seat(),
                        " in generation ", world.generation()));
  }
  seats_ = std::move(seats);
  seated_in_ = world.generation();
}

void Chronicle::OnClose(const CloseStream& close, absl::Time now) {
  const auto lease = leases_.find(close.session);
  if (lease == leases_.end()) return;
  const v1::RefusalCode code = close.refusal.code();
  if (code == v1::REFUSAL_CODE_LOST) {
    if (lease->second.until > now) {
      Broken(Invariant::kLeaseHolds,
             absl::StrCat("node ", lease->second.name, " is given up ",
                          absl::FormatDuration(lease->second.until - now),
                          " before its lease ends"));
    }
    CheckMajority(lease->second.name, lease->second.until, now);
    out_[lease->second.name].insert(lease->second.incarnation);
  }
  leases_.erase(lease);
}

void Chronicle::CheckMajority(const std::string& name, absl::Time until,
                              absl::Time now) {
  // Between two generations there is no world to be silent.
  if (!open_) return;
  // One that was replaced, or whose stream broke, was not given up for silence.
  if (until > now || seats_.count(name) == 0) return;
  size_t silent = 0;
  for (const auto& [session, lease] : leases_) {
    silent += seats_.count(lease.name) > 0 && lease.until <= now + lease_ / 2;
  }
  // A loop that is late puts off leases, and not the end of its patience: half
  // of that is beyond any doubt.
  if (silent * 2 <= seats_.size() || now - until >= daemon_grace_ / 2) {
    return;
  }
  Broken(
      Invariant::kMajority,
      absl::StrCat("node ", name, " is given up, ",
                   absl::FormatDuration(now - until), " after its lease, and ",
                   silent, " of ", seats_.size(), " are silent"));
}

void Chronicle::CheckRefused(const Job& job, const Attend& attend,
                             absl::Time now) {
  const std::string& name = attend.hello.node();
  const uint64_t incarnation = attend.hello.incarnation();
  if (job.Attends(attend.session)) {
    if (!job.end().has_value() && !attend.hello.run().empty() &&
        out_[name].contains(incarnation)) {
      Broken(Invariant::kReplacedIsOut,
             absl::StrCat("node ", name, ", incarnation ", incarnation));
    }
    const auto in = in_.find(name);
    if (in != in_.end() && in->second != incarnation) {
      out_[name].insert(in->second);
    }
    // A daemon that was started again knows rows, not incarnations: who was
    // never welcomed is nobody that it knows.
    if (in == in_.end() && attend.hello.run().empty()) seats_.erase(name);
    // Nor has it heard that it was to leave.
    if (attend.hello.run().empty()) {
      leaves_.erase(name);
      out_[name].erase(incarnation);
    }
    in_[name] = incarnation;
    if (!job.end().has_value()) {
      leases_[attend.session] = Lease{name, incarnation, now};
    }
    return;
  }
  if (may_change_) return;
  if (job.revision() != revision_before_ ||
      job.Status(now).SerializeAsString() != status_before_) {
    Broken(Invariant::kRefusedIsNothing,
           absl::StrCat("node ", name, ", incarnation ", incarnation,
                        " was refused, and the status changed"));
  }
}

// The leases once more, from what the job was told.
void Chronicle::CheckLeases(const Job& job, const Event& event,
                            absl::Time now) {
  if (job.end().has_value()) return leases_.clear();
  if (const auto* attend = std::get_if<Attend>(&event)) {
    const auto at = leases_.find(attend->session);
    if (at != leases_.end()) at->second.until = now + lease_;
  } else if (const auto* said = std::get_if<Said>(&event)) {
    const auto at = leases_.find(said->session);
    if (at != leases_.end()) at->second.until = now + lease_;
  } else if (const auto* closed = std::get_if<StreamClosed>(&event)) {
    leases_.erase(closed->session);
  }
  const bool isolated = job.state() == v1::JOB_STATE_ISOLATED;
  if (std::exchange(isolated_, isolated) && !isolated) {
    for (auto& [session, lease] : leases_) {
      lease.until = std::max(lease.until, now + lease_);
    }
  }
  if (!std::holds_alternative<Tick>(event)) return;
  for (auto& [session, lease] : leases_) {
    if (isolated || lease.until > now || !job.Attends(session)) continue;
    Broken(Invariant::kLeaseHolds,
           absl::StrCat("node ", lease.name, " is kept ",
                        absl::FormatDuration(now - lease.until),
                        " after its lease ended"));
  }
  if (job.NextDeadline() <= now) {
    Broken(Invariant::kNothingLeftDue,
           absl::StrCat("the job asks for a moment ",
                        absl::FormatDuration(now - job.NextDeadline()),
                        " ago, in state ", v1::JobState_Name(job.state())));
  }
}

void Chronicle::Sent(const v1::DaemonMessage& m, const JournalState& durable) {
  if (m.has_proposal()) {
    const uint64_t generation = m.proposal().generation();
    if (durable.generation < generation) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", generation, " is told, and ",
                          durable.generation, " is durable"));
    }
    Told& told = told_[generation];
    if (told.world.empty()) told.world = m.proposal().world();
    if (told.world != m.proposal().world()) {
      Broken(Invariant::kOneWorld,
             absl::StrCat("generation ", generation, " has two worlds"));
    }
  } else if (m.has_commit()) {
    const uint64_t generation = m.commit().generation();
    const bool open = durable.proposal.has_value() &&
                      durable.proposal->generation() == generation;
    if (open && !durable.seal.has_value()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("commit ", generation, " is told and not durable"));
    }
    Told& told = told_[generation];
    if (told.seal.empty()) told.seal = m.commit().seal();
    if (told.seal != m.commit().seal()) {
      Broken(Invariant::kOneWorld,
             absl::StrCat("generation ", generation, " has two seals"));
    }
  } else if (m.has_abort()) {
    if (durable.proposal.has_value() &&
        durable.proposal->generation() == m.abort().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("generation ", m.abort().generation(),
                          " is aborted and durably open"));
    }
  } else if (m.has_end() && m.end().code() != v1::REASON_CODE_LEAVING &&
             !durable.end.has_value()) {
    Broken(Invariant::kJournalFirst, "the end is told and not durable");
  }
}

void Chronicle::Restored(const JournalState& durable) {
  charged_ = durable.restarts_charged;
  for (auto at = leaves_.begin(); at != leaves_.end();) {
    const bool kept = durable.leaving.has_value() &&
                      std::count(durable.leaving->nodes().begin(),
                                 durable.leaving->nodes().end(), at->first) > 0;
    at = kept ? std::next(at) : leaves_.erase(at);
  }
  proposed_ = durable.generation;
  open_ = durable.seal.has_value();
  committed_ = durable.seal.has_value() ? durable.seal->generation() : 0;
  end_journaled_ = durable.end.has_value();
  // What outlives the daemon is the seats of the open world, if it is the one
  // that was seen last.
  if (!durable.proposal.has_value() ||
      durable.proposal->generation() != seated_in_) {
    seats_.clear();
  }
  if (durable.proposal.has_value()) {
    const auto world = DecodeWorld(durable.proposal->world());
    // Whose seat was given away by a step that never became durable.
    for (int i = 0; world.ok() && i < world->members_size(); ++i) {
      seats_.try_emplace(world->members(i).node(),
                         Seat{0, world->members(i).seat()});
    }
  }
  const uint64_t told = HighestTold(durable.generation);
  if (durable.generation < told) {
    Broken(Invariant::kSurvives,
           absl::StrCat("generation ", told,
                        " was told, and the daemon goes on from ",
                        durable.generation));
  }
}

void Chronicle::TookUp(const Job& job, const JournalState& durable,
                       absl::Time now) {
  const uint64_t generation = job.Status(now).generation();
  const uint64_t expected = durable.seal.has_value()
                                ? durable.proposal->generation()
                                : durable.generation;
  if (generation != expected ||
      (durable.seal.has_value() && job.state() != v1::JOB_STATE_RUNNING)) {
    Broken(Invariant::kSurvives,
           absl::StrCat("generation ", durable.generation,
                        durable.seal.has_value() ? " is committed" : "",
                        ", and the daemon goes on with ", generation, " ",
                        v1::JobState_Name(job.state())));
  }
}

void Chronicle::Started(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    if (const auto* entry = std::get_if<Journal>(&action)) OnJournal(*entry);
  }
}

void Chronicle::DaemonDied() {
  leases_.clear();
  out_.clear();
  in_.clear();
  isolated_ = false;
}

void Chronicle::Forgotten() {
  proposed_ = committed_ = 0;
  end_journaled_ = open_ = adopts_ = false;
  charged_ = 0;
  leaves_.clear();
  seats_.clear();
}

// --- Agents
// -------------------------------------------------------------------

void Chronicle::Hears(LifeRecord& life, const v1::DaemonMessage& m) {
  uint64_t generation = 0;
  if (m.has_proposal()) generation = m.proposal().generation();
  if (m.has_abort()) generation = m.abort().generation();
  if (m.has_commit()) {
    generation = m.commit().generation();
    life.committed_heard = std::max(life.committed_heard, generation);
  }
  life.generation_heard = std::max(life.generation_heard, generation);
}

void Chronicle::Says(LifeRecord& life, const v1::AgentMessage& m,
                     bool ranks_live) {
  if (life.exited) {
    Broken(Invariant::kExitIsLast, absl::StrCat(life.name, " still speaks"));
  }
  if (m.has_hello()) {
    const v1::Held& held = m.hello().held();
    if (held.exits_size() > static_cast<int>(m.hello().ranks()) ||
        held.world().size() + held.seal().size() >
            Limits::held_world_bytes_max) {
      Broken(Invariant::kBounded, absl::StrCat(life.name, " holds too much"));
    }
    if (m.hello().generation_seen() < life.started) {
      Broken(Invariant::kNoOlder,
             absl::StrCat(life.name, " forgot what it has seen"));
    }
  }
  if (!m.has_prepared()) return;
  const uint64_t generation = m.prepared().generation();
  if (ranks_live) {
    Broken(Invariant::kPreparedMeansGone,
           absl::StrCat(life.name, " is prepared for ", generation));
  }
  if (generation < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(life.name, " is prepared for ", generation,
                        " and has seen ", life.generation_heard));
  }
  life.prepared_said = generation;
  brought_[generation][life.name].push_back(m.prepared());
}

void Chronicle::Prepares(LifeRecord& life, const Prepare& prepare) {
  if (prepare.world.generation() < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(life.name, " prepares for ", prepare.world.generation(),
                        " and has seen ", life.generation_heard));
  }
}

void Chronicle::Minted(uint64_t generation, const std::vector<std::string>& ids,
                       uint32_t port) {
  for (const std::string& id : ids) ids_[id] = generation;
  minted_[generation] = {ids, port};
}

void Chronicle::Starts(LifeRecord& life, const StartRanks& start,
                       bool ranks_live) {
  const uint64_t generation = start.world.generation();
  const std::string who =
      absl::StrCat(life.name, " starts ranks of generation ", generation);
  if (ranks_live) Broken(Invariant::kOneGenerationANode, who);
  if (generation < life.generation_heard) {
    Broken(Invariant::kNoOlder,
           absl::StrCat(who, " and has seen ", life.generation_heard));
  }
  if (generation != life.prepared_said || generation != life.committed_heard ||
      generation <= life.started) {
    Broken(Invariant::kStartedOnce, who);
  }
  life.started = generation;
  started_.insert(generation);
  const Told& told = told_[generation];
  if (EncodeWorld(start.world) != told.world ||
      start.seal.SerializeAsString() != told.seal) {
    Broken(Invariant::kSameBytes, who);
  }
  CheckStateSource(who, start);
  for (const std::string& id : start.seal.nccl_ids()) {
    const auto at = ids_.find(id);
    if (at == ids_.end() || at->second != generation) {
      Broken(Invariant::kFreshIds, who);
    }
  }
  const auto minted = minted_.find(generation);
  if (minted == minted_.end() ||
      minted->second.second != start.seal.master_port()) {
    Broken(Invariant::kFreshIds,
           absl::StrCat(who, ", port ", start.seal.master_port()));
  }
}

// A node may have said it more than once, and not the same: the daemon takes
// what came last before it had all.
void Chronicle::CheckStateSource(const std::string& who,
                                 const StartRanks& start) {
  int64_t least = -1;
  int64_t most = -1;
  bool held = false;
  const v1::StateSource& source = start.seal.state_source();
  for (const v1::Member& member : start.world.members()) {
    int64_t worst = INT64_MAX;
    for (const v1::Prepared& said :
         brought_[start.world.generation()][member.node()]) {
      int64_t best = -1;
      for (const v1::RankState& state : said.states()) {
        if (!state.whole_state()) continue;
        const auto step = static_cast<int64_t>(state.completed_step());
        best = std::max(best, step);
        held =
            held || (state.completed_step() == source.step() &&
                     member.first_rank() + state.local_rank() == source.rank());
      }
      most = std::max(most, best);
      worst = std::min(worst, best);
    }
    if (worst != INT64_MAX) least = std::max(least, worst);
  }
  const auto step = static_cast<int64_t>(source.step());
  const bool fits = start.seal.has_state_source()
                        ? held && step >= least && step <= most
                        : least < 0;
  if (fits) return;
  Broken(Invariant::kStateGoesOn,
         absl::StrCat(who, " with ", source.ShortDebugString(), "; ", least,
                      " to ", most, " were brought"));
}

void Chronicle::Exits(LifeRecord& life, bool ranks_live) {
  if (ranks_live || life.exited) Broken(Invariant::kExitIsLast, life.name);
  life.exited = true;
}

void Chronicle::AgentTicked(const LifeRecord& life, const Agent& agent,
                            absl::Time now) {
  if (agent.NextDeadline() > now) return;
  Broken(
      Invariant::kNothingLeftDue,
      absl::StrCat("the agent of ", life.name, " asks for a moment ",
                   absl::FormatDuration(now - agent.NextDeadline()), " ago"));
}

// --- Ranks
// --------------------------------------------------------------------

void Chronicle::Stepped(uint64_t generation,
                        const std::set<uint32_t>& machines) {
  for (auto at = stepped_.upper_bound(generation); at != stepped_.end(); ++at) {
    // Runs that daemons without memory began have nothing to do with it.
    if (at->first / kGenerationsARun != generation / kGenerationsARun) break;
    for (const uint32_t machine : machines) {
      if (!at->second.contains(machine)) continue;
      Broken(Invariant::kOneGenerationSteps,
             absl::StrCat("generation ", generation, " steps after ", at->first,
                          " did"));
    }
  }
  stepped_.emplace(generation, machines);
}

}  // namespace rollcall::sim
