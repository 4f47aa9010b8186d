#include "tests/sim/chronicle.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"

namespace rollcall::sim {
namespace {

// The word after the key in a line of the log.
std::string LoggedWord(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t from = at + key.size();
  return text.substr(from, text.find(' ', from) - from);
}

}  // namespace

Chronicle::Chronicle(World& world, const v1::JobSettings& settings)
    : world_(world),
      lease_(FromProto(settings.lease())),
      daemon_grace_(FromProto(settings.daemon_grace())),
      reconnect_grace_(FromProto(settings.reconnect_grace())),
      tested_(kInvariants.size()) {}

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
  now_ = now;
  revision_before_ = job.revision();
  retry_ = false;
  const auto* tick = std::get_if<Tick>(&event);
  if (tick != nullptr && tick->late > absl::Milliseconds(50)) {
    for (auto& [session, lease] : leases_) lease.until += tick->late;
  }
  NoteMembers(job, now);
  // What an older stream of an agent still says counts for nothing.
  const auto* said = std::get_if<Said>(&event);
  if (said != nullptr && job.Attends(said->session)) NoteStall(*said);
  if (const auto* closed = std::get_if<StreamClosed>(&event)) {
    claims_.erase(closed->session);
  }
  // Who is asked to leave is not waited for.
  const auto* drain = std::get_if<DrainAsked>(&event);
  if (drain != nullptr) suspects_.erase(drain->node);
  const auto* evict = std::get_if<EvictAsked>(&event);
  if (evict != nullptr && !job.end().has_value()) {
    for (const std::string& name : evict->nodes) {
      const uint64_t epoch = job.node_epochs().EpochOf(name);
      evicted_[{job.run(), name}] = evict->former ? epoch : epoch + 1;
      if (!evict->former) suspects_.erase(name);
      NoteVouched(name);
    }
  }
  const auto* attend = std::get_if<Attend>(&event);
  if (attend == nullptr) return;
  speakers_[attend->session] = attend->hello.node();
  NoteClaim(job, *attend);
  // What was due anyway may happen in the same step.
  may_change_ = job.NextDeadline() <= now;
  if (may_change_) return;
  status_before_ = job.Status(now).SerializeAsString();
  retry_ = IsRetry(job, *attend, now);
  if (retry_) Tested(Invariant::kRetryIsNothing);
}

// As a claim to a run that this daemon has no memory of, until it is refused.
void Chronicle::NoteClaim(const Job& job, const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  if (!job.MayAdopt() || hello.run().empty() || job.IsRun(hello.run()) ||
      !hello.has_node_credential() || !attend.commit_proven) {
    return;
  }
  claims_[attend.session] = {hello.held().world(), hello.node(),
                             hello.incarnation()};
}

bool Chronicle::IsRetry(const Job& job, const Attend& attend,
                        absl::Time now) const {
  const v1::Hello& hello = attend.hello;
  const auto in = in_.find(hello.node());
  if (in == in_.end() || in->second != hello.incarnation()) return false;
  const v1::JobStatus status = job.Status(now);
  if (job.state() == v1::JOB_STATE_RUNNING) {
    return hello.held().running_generation() == status.generation();
  }
  // Who comes with another address than the proposed world has for it, begins
  // another one.
  const std::string& here = hello.facts().interfaces(0).addresses(0).address();
  return job.state() == v1::JOB_STATE_FORMING &&
         std::any_of(status.nodes().begin(), status.nodes().end(),
                     [&](const v1::NodeStatus& row) {
                       return row.node() == hello.node() &&
                              row.address() == here;
                     });
}

void Chronicle::AfterStep(const Job& job, const Event& event, absl::Time now,
                          const std::vector<Action>& actions) {
  const std::map<SessionId, Claim> claimed = claims_;
  // First: whose name it is now counts for what follows from it.
  if (const auto* attend = std::get_if<Attend>(&event)) {
    CheckRefused(job, *attend, now);
    CheckToldItEnded(job, *attend, now, actions);
  }
  NoteSuspects(job, event, now);
  reunited_ = false;
  for (const Action& action : actions) {
    if (const auto* log = std::get_if<Log>(&action)) {
      NoteLogged(*log, actions, now);
    }
    if (const auto* entry = std::get_if<Journal>(&action)) {
      // A node that was told of a run before that run was adopted is noted as a
      // node of the run that goes on. Who has finished is written a little
      // later, whatever happens then.
      if (retry_ && entry->kind != Journal::Kind::kNodeEpochs &&
          entry->kind != Journal::Kind::kFinished &&
          entry->kind != Journal::Kind::kFenceOpen) {
        Broken(Invariant::kRetryIsNothing,
               absl::StrCat("generation ", entry->generation,
                            " begins or ends by a retry of ",
                            std::get<Attend>(event).hello.node()));
      }
      OnJournal(*entry, now);
      if (entry->kind == Journal::Kind::kEnded) FreeSeats(job, now);
    } else if (const auto* send = std::get_if<Send>(&action)) {
      OnSend(*send, now);
    } else if (const auto* close = std::get_if<CloseStream>(&action)) {
      OnClose(*close, now);
    }
  }
  // In an adopted run, a name belongs to the agent that claimed it, and no
  // longer to one that the daemon had admitted before.
  for (const auto& [session, claim] : claimed) {
    if (!claims_.empty() || !job.Attends(session)) continue;
    in_[claim.node] = claim.incarnation;
    // The daemon knows no more who was lost in the run that it had before.
    out_.clear();
  }
  const auto* attend = std::get_if<Attend>(&event);
  if (attend != nullptr && claims_.contains(attend->session)) {
    Tested(Invariant::kAdoptedByMost);
  }
  const auto* said = std::get_if<Said>(&event);
  const bool reports = said != nullptr && said->message.has_check_report();
  const bool may_free = std::holds_alternative<Tick>(event) || reports;
  if (may_free && job.revision() != revision_before_) FreeSeats(job, now);
  CheckLeases(job, event, now);
  const bool asked = std::holds_alternative<DrainAsked>(event);
  if (asked || (said != nullptr && said->message.has_leaving())) {
    NoteWhoLeaves(job, now, asked);
  }
}

void Chronicle::NoteLogged(const Log& log, const std::vector<Action>& actions,
                           absl::Time now) {
  if (absl::StrContains(log.text, " event=reunited ")) reunited_ = true;
  const std::string unfit = LoggedWord(log.text, " event=quarantined node=");
  if (!unfit.empty() && absl::StrContains(log.text, "its checks failed")) {
    excluded_[unfit] = in_[unfit];
  }
  const std::string lost = LoggedWord(log.text, " event=lost node=");
  if (lost.empty() || !charge_.has_value() || now > charge_->until ||
      !charge_->members.contains(lost)) {
    return;
  }
  // A person who evicts a node that lives says nothing of what failed before.
  if (IsEvictedAlive(lost, actions)) return;
  // It is what began the failure, and costs nothing.
  Tested(Invariant::kBudget);
  charge_.reset();
  if (charged_ > 0) --charged_;
}

bool Chronicle::IsEvictedAlive(const std::string& name,
                               const std::vector<Action>& actions) const {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    const auto* close = std::get_if<CloseStream>(&action);
    if (close == nullptr || close->refusal.code() != v1::REFUSAL_CODE_EVICTED) {
      return false;
    }
    const auto speaker = speakers_.find(close->session);
    return speaker != speakers_.end() && speaker->second == name;
  });
}

// A member whose stream has just broken is waited for.
void Chronicle::NoteSuspects(const Job& job, const Event& event,
                             absl::Time now) {
  const auto* closed = std::get_if<StreamClosed>(&event);
  if (closed == nullptr || job.end().has_value()) return;
  const auto lease = leases_.find(closed->session);
  if (lease == leases_.end() || !seats_.contains(lease->second.name)) return;
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node() == lease->second.name && node.seat() >= 0 &&
        node.state() == v1::NODE_STATE_SUSPECT) {
      suspects_[node.node()] =
          std::min(lease->second.until, now + reconnect_grace_);
    }
  }
}

// Over half of its members have brought the world that is gone on with.
void Chronicle::CheckAdoption(const v1::Proposal& proposal) {
  Tested(Invariant::kAdoptedByMost);
  const auto world = DecodeWorld(proposal.world());
  CHECK(world.ok());
  std::set<std::string> by;
  for (const auto& [session, claim] : claims_) {
    if (claim.world == proposal.world()) by.insert(claim.node);
  }
  claims_.clear();
  excluded_.clear();
  refusals_.clear();
  const auto members = static_cast<size_t>(world->members_size());
  if (by.size() * 2 > members) return;
  Broken(Invariant::kAdoptedByMost,
         absl::StrCat("generation ", proposal.generation(), " is adopted, ",
                      by.size(), " of ", members, " members brought it"));
}

// Who comes back with ranks of a world hears of it if that world has ended.
void Chronicle::CheckToldItEnded(const Job& job, const Attend& attend,
                                 absl::Time now,
                                 const std::vector<Action>& actions) {
  const uint64_t generation = attend.hello.held().running_generation();
  if (generation == 0 || !job.Attends(attend.session)) return;
  const v1::JobStatus status = job.Status(now);
  const bool runs = job.state() == v1::JOB_STATE_RUNNING ||
                    job.state() == v1::JOB_STATE_ISOLATED;
  const bool member = std::any_of(status.nodes().begin(), status.nodes().end(),
                                  [&](const v1::NodeStatus& node) {
                                    return node.node() == attend.hello.node() &&
                                           node.node_rank() >= 0;
                                  });
  if (runs && member && status.generation() == generation) return;
  Tested(Invariant::kToldItEnded);
  for (const Action& action : actions) {
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr ||
        std::count(send->to.begin(), send->to.end(), attend.session) == 0) {
      continue;
    }
    const v1::DaemonMessage& m = send->message;
    if (m.has_end()) return;
    if (m.has_abort() && m.abort().generation() >= generation) {
      // For this node alone: one that had finished was lost, and the world runs
      // on without it.
      if (runs && !member && status.generation() == m.abort().generation()) {
        ++outsiders_[generation];
      }
      return;
    }
  }
  Broken(Invariant::kToldItEnded,
         absl::StrCat("node ", attend.hello.node(), " holds generation ",
                      generation, ", and the job is in ", status.generation()));
}

void Chronicle::OnJournal(const Journal& entry, absl::Time now) {
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
    CheckAdoption(proposal);
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
    if (seen_ > 0) Tested(Invariant::kSurvives);
    if (entry.generation <= seen_) {
      Broken(
          Invariant::kSurvives,
          absl::StrCat("generation ", entry.generation,
                       " is proposed; an agent that attends has seen ", seen_));
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
    OnGenerationEnded(entry, now);
    open_ = false;
  } else if (entry.kind == Journal::Kind::kRunEnded) {
    end_journaled_ = true;
    v1::End end;
    CHECK(end.ParseFromString(entry.body));
    Tested(Invariant::kReasons);
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

// It may serve again after a while, three times.
void Chronicle::NoteRefused(const std::string& node, absl::Time now) {
  Refusals& refusals = refusals_[node];
  const uint64_t incarnation = in_[node];
  if (std::exchange(refusals.incarnation, incarnation) != incarnation) {
    refusals.count = 0;
  }
  if (++refusals.count > 3) {
    excluded_.try_emplace(node);
  } else {
    refusals.out_until = now + Limits{}.unreached_delay_waiting;
  }
}

void Chronicle::OnGenerationEnded(const Journal& entry, absl::Time now) {
  v1::Reform reform;
  CHECK(reform.ParseFromString(entry.body));
  if (reform.code() == v1::REASON_CODE_QUARANTINED) {
    excluded_.try_emplace(reform.node());
  }
  if (reform.code() == v1::REASON_CODE_REFUSED) NoteRefused(reform.node(), now);
  if (!suspects_.empty()) Tested(Invariant::kLeaseHolds);
  Tested(Invariant::kReasons);
  if (reform.code() == v1::REASON_CODE_UNSPECIFIED || reform.reason().empty()) {
    Broken(Invariant::kReasons,
           absl::StrCat("generation ", entry.generation, " ended with ",
                        reform.ShortDebugString()));
  }
  const bool failure = reform.code() == v1::REASON_CODE_RANK_EXIT ||
                       reform.code() == v1::REASON_CODE_RANK_SIGNAL ||
                       reform.code() == v1::REASON_CODE_RANK_COMMUNICATION ||
                       reform.code() == v1::REASON_CODE_GPU_ERROR ||
                       reform.code() == v1::REASON_CODE_HANG ||
                       reform.code() == v1::REASON_CODE_NOT_STARTED;
  const uint32_t charged = reform.restarts_charged();
  // Progress gives all of it back, and a lost node what was charged for it.
  if (charged > charged_ + (failure ? 1 : 0)) {
    Broken(Invariant::kBudget,
           absl::StrCat("generation ", entry.generation, " ended by ",
                        v1::ReasonCode_Name(reform.code()), ", and ", charged,
                        " restarts are charged after ", charged_));
  }
  if (failure || charged_ > 0) Tested(Invariant::kBudget);
  // Another cause than a rank's settles what came before it.
  charge_.reset();
  if (charged > charged_) {
    charge_ = Charge{{}, now + lease_};
    const auto world = DecodeWorld(told_[entry.generation].world);
    for (int i = 0; world.ok() && i < world->members_size(); ++i) {
      charge_->members.insert(world->members(i).node());
    }
  }
  charged_ = charged;
  if (reform.code() == v1::REASON_CODE_HANG) CheckHang(reform);
  stalls_.clear();
}

void Chronicle::CheckHang(const v1::Reform& reform) {
  Tested(Invariant::kHangIsTold);
  bool told = false;
  std::optional<StallPlace> first;   // Of all.
  std::optional<StallPlace> blamed;  // Of the node that is.
  // The nodes with ranks that are stopped; where none is, that have not begun.
  // `others`: some ranks are further than those.
  std::set<std::string> last_nodes;
  std::optional<std::pair<bool, bool>> last;
  bool others = false;
  const bool expected = MostHaveStarted(reform.generation()) &&
                        stepped_in_ != reform.generation();
  for (const auto& [record, stall] : stalls_) {
    if (record.generation != reform.generation()) continue;
    if (!expected && !stall.place.begun) continue;
    const bool here = record.name == reform.node();
    told = told || here || reform.node().empty();
    if (!stall.Counts(now_, lease_)) continue;
    const StallPlace& place = stall.place;
    first = first.has_value() ? std::min(*first, place) : place;
    const std::pair<bool, bool> stage(place.runs, place.begun);
    others = others || (last.has_value() && stage != *last);
    if (!last.has_value() || stage < *last) last_nodes.clear();
    if (!last.has_value() || stage <= *last) {
      last = stage;
      last_nodes.insert(record.name);
    }
    if (!here) continue;
    blamed = blamed.has_value() ? std::min(*blamed, place) : place;
  }
  const bool innocent = blamed.has_value() && *first < *blamed;
  const bool isolated = isolated_ && !reunited_;
  const bool one_is_last = others && last_nodes.size() == 1;
  if (one_is_last) Tested(Invariant::kHangIsTold);
  const bool nobody = one_is_last && reform.node().empty();
  if (told && !innocent && !isolated && !nobody) return;
  Broken(Invariant::kHangIsTold,
         absl::StrCat("generation ", reform.generation(), " ended by ",
                      reform.ShortDebugString(), ", isolated: ", isolated,
                      innocent ? ", and another one is further behind" : "",
                      nobody ? absl::StrCat(", and only ", *last_nodes.begin(),
                                            " is stopped or has not begun")
                             : ""));
}

bool Chronicle::MostHaveStarted(uint64_t generation) const {
  const auto at = told_.find(generation);
  if (at == told_.end()) return true;  // Of a journal that was given.
  const auto world = DecodeWorld(at->second.world);
  CHECK(world.ok());
  const auto started = std::count_if(
      world->members().begin(), world->members().end(),
      [&](const v1::Member& m) { return have_started_.contains(m.node()); });
  return started * 2 > world->members_size();
}

// Who stands still as far as this daemon has heard.
void Chronicle::NoteStall(const Said& said) {
  const auto speaker = speakers_.find(said.session);
  if (speaker == speakers_.end()) return;
  if (said.message.has_rank_exited()) {
    const v1::RankExited& exited = said.message.rank_exited();
    stalls_.erase({exited.generation(), speaker->second, exited.local_rank()});
  }
  if (said.message.heartbeat().ranks_link()) {
    have_started_.insert(speaker->second);
  }
  if (said.message.heartbeat().step() > 0) {
    stepped_in_ = std::max(stepped_in_, said.message.heartbeat().generation());
  }
  if (said.message.has_heartbeat()) {
    std::erase_if(stalls_, [&](const auto& entry) {
      return entry.first.name == speaker->second && entry.second.to_say_again;
    });
  }
  if (!said.message.has_rank_stalled()) return;
  const v1::RankStalled& stalled = said.message.rank_stalled();
  const StallRecord record{stalled.generation(), speaker->second,
                           stalled.local_rank()};
  if (stalled.goes_on()) {
    stalls_.erase(record);
  } else {
    const bool linked = stalled.has_answered();
    stalls_[record] =
        Stall{{!stalled.stopped(), linked || stalled.step() > 0,
               !linked || stalled.answered(),
               linked ? stalled.collective_entered() : UINT64_MAX}};
  }
}

void Chronicle::NoteWhoLeaves(const Job& job, absl::Time now, bool asked) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() != v1::NODE_STATE_DRAINING || node.incarnation() == 0) {
      continue;
    }
    Leaver& leaver = leaves_[node.node()];
    if (leaver.incarnation != node.incarnation()) {
      leaver = Leaver{node.incarnation()};
    }
    leaver.asked = leaver.asked || asked;
  }
}

// Who refused, was too slow, leaves or is lost has given its seat back.
void Chronicle::FreeSeats(const Job& job, absl::Time now) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.seat() < 0) seats_.erase(node.node());
  }
}

void Chronicle::OnSend(const Send& send, absl::Time now) {
  const v1::DaemonMessage& m = send.message;
  if (m.has_proposal()) {
    if (proposed_ != m.proposal().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", m.proposal().generation(),
                          " stands before its entry"));
    }
    OnProposal(m.proposal(), now);
  } else if (m.has_commit() && committed_ != m.commit().generation()) {
    Broken(Invariant::kJournalFirst,
           absl::StrCat("commit ", m.commit().generation(),
                        " stands before its entry"));
  } else if (m.has_end() && !end_journaled_ &&
             m.end().code() != v1::REASON_CODE_LEAVING) {
    Broken(Invariant::kJournalFirst, "the end stands before its entry");
  }
}

void Chronicle::OnProposal(const v1::Proposal& proposal, absl::Time now) {
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
  CheckMembers(*world, now);
  CheckSticky(*world);
}

// Who gets no seat has none, and who is waited for keeps its own.
void Chronicle::CheckMembers(const v1::World& world, absl::Time now) {
  std::set<std::string> members;
  for (const v1::Member& member : world.members()) {
    members.insert(member.node());
    const auto in = in_.find(member.node());
    const uint64_t incarnation = in == in_.end() ? 0 : in->second;
    const auto leaves = leaves_.find(member.node());
    if (leaves != leaves_.end() && leaves->second.incarnation == incarnation) {
      Broken(Invariant::kLeavesForGood,
             absl::StrCat("node ", member.node(), ", incarnation ", incarnation,
                          ", is in generation ", world.generation()));
    }
    const auto refused = refusals_.find(member.node());
    if (excluded_.contains(member.node()) ||
        (refused != refusals_.end() && now < refused->second.out_until)) {
      Broken(Invariant::kExcludedIsOut,
             absl::StrCat("node ", member.node(), " is in generation ",
                          world.generation()));
    }
  }
  for (const auto& [name, leaver] : leaves_) {
    const auto in = in_.find(name);
    if (in != in_.end() && in->second == leaver.incarnation) {
      Tested(Invariant::kLeavesForGood);
    }
  }
  if (!excluded_.empty() || !refusals_.empty()) {
    Tested(Invariant::kExcludedIsOut);
  }
  for (const auto& [name, until] : suspects_) {
    if (now >= until || members.contains(name) || !seats_.contains(name)) {
      continue;
    }
    Broken(Invariant::kLeaseHolds,
           absl::StrCat("generation ", world.generation(),
                        " is formed without node ", name, ", ",
                        absl::FormatDuration(until - now),
                        " before it is given up"));
  }
  suspects_.clear();
}

void Chronicle::CheckDense(const v1::World& world) {
  if (world.members_size() > 1) Tested(Invariant::kDense);
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
    seats[member.node()] = Seat{incarnation, member.seat()};
    const auto before = seats_.find(member.node());
    if (before == seats_.end() || before->second.incarnation != incarnation) {
      continue;
    }
    Tested(Invariant::kSticky);
    if (before->second.seat == member.seat()) continue;
    Broken(Invariant::kSticky,
           absl::StrCat("node ", member.node(), " had seat ",
                        before->second.seat, " and gets seat ", member.seat(),
                        " in generation ", world.generation()));
  }
  seats_ = std::move(seats);
  seated_in_ = world.generation();
}

void Chronicle::OnClose(const CloseStream& close, absl::Time now) {
  claims_.erase(close.session);
  const auto lease = leases_.find(close.session);
  if (lease == leases_.end()) return;
  const v1::RefusalCode code = close.refusal.code();
  if (code == v1::REFUSAL_CODE_LOST) {
    Tested(Invariant::kLeaseHolds);
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

// Nobody is given up for silence but when it is due.
void Chronicle::NoteMembers(const Job& job, absl::Time now) {
  if (job.NextDeadline() > now) return;
  members_.clear();
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node_rank() >= 0) members_.insert(node.node());
  }
}

void Chronicle::CheckMajority(const std::string& name, absl::Time until,
                              absl::Time now) {
  // Between two generations there is no world to be silent.
  if (!open_) return;
  // One that was replaced, or whose stream broke, was not given up for silence.
  if (until > now || seats_.count(name) == 0) return;
  // A node that has finished may be lost without a new world, and its name may
  // belong to a spare since.
  const auto sits = [&](const std::string& seated) {
    return seats_.contains(seated) && members_.contains(seated);
  };
  size_t silent = 0;
  size_t seated = 0;
  for (const auto& [session, lease] : leases_) {
    silent += sits(lease.name) && lease.until <= now + lease_ / 2;
  }
  for (const auto& [node, seat] : seats_) seated += sits(node);
  if (silent * 2 > seated) Tested(Invariant::kMajority);
  if (silent * 2 <= seated) return;
  if (isolated_ && now - isolated_since_ >= daemon_grace_) return;
  Broken(
      Invariant::kMajority,
      absl::StrCat(
          "node ", name, " is given up, ", silent, " of ", seated,
          " are silent, and the daemon is ",
          isolated_ ? absl::StrCat("isolated for ",
                                   absl::FormatDuration(now - isolated_since_))
                    : "not isolated"));
}

void Chronicle::CheckRefused(const Job& job, const Attend& attend,
                             absl::Time now) {
  const std::string& name = attend.hello.node();
  const uint64_t incarnation = attend.hello.incarnation();
  const bool out = !job.end().has_value() && !attend.hello.run().empty() &&
                   out_[name].contains(incarnation);
  if (out) Tested(Invariant::kReplacedIsOut);
  if (job.Attends(attend.session)) {
    suspects_.erase(name);
    const auto excluded = excluded_.find(name);
    if (excluded != excluded_.end() && excluded->second != incarnation) {
      excluded_.erase(excluded);
    }
    const auto refused = refusals_.find(name);
    if (refused != refusals_.end()) {
      refused->second.out_until = absl::InfinitePast();
    }
    if (attend.hello.run() == job.run()) {
      seen_ = std::max(seen_, attend.hello.generation_seen());
    }
    // It tells again what still stands there.
    for (auto& [record, stall] : stalls_) {
      if (record.name != name) continue;
      stall.to_say_again = true;
      stall.attended_at = now;
    }
    const auto evicted = evicted_.find({attend.hello.run(), name});
    if (evicted != evicted_.end() && attend.hello.has_node_credential() &&
        attend.epoch < evicted->second) {
      Broken(Invariant::kEvictedIsOut,
             absl::StrCat("node ", name, " came by a credential of epoch ",
                          attend.epoch));
    }
    if (out) {
      Broken(Invariant::kReplacedIsOut,
             absl::StrCat("node ", name, ", incarnation ", incarnation));
    }
    if (!job.end().has_value()) CheckReplaced(job, attend.hello);
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
  Tested(Invariant::kRefusedIsNothing);
  if (job.revision() != revision_before_ ||
      job.Status(now).SerializeAsString() != status_before_) {
    Broken(Invariant::kRefusedIsNothing,
           absl::StrCat("node ", name, ", incarnation ", incarnation,
                        " was refused, and the status changed"));
  }
}

// Also by a daemon that was started again since, and knows neither.
void Chronicle::CheckReplaced(const Job& job, const v1::Hello& hello) {
  Agents& agents = agents_[{job.run(), hello.node()}];
  if (!hello.has_node_credential() || hello.run() != job.run()) {
    const auto in = in_.find(hello.node());
    const bool again = in != in_.end() && in->second == hello.incarnation() &&
                       agents.let_in.contains(hello.incarnation());
    if (!again) agents.let_in[hello.incarnation()] = ++let_in_;
    return;
  }
  const uint64_t shown = hello.previous_incarnation() != 0
                             ? hello.previous_incarnation()
                             : hello.incarnation();
  const auto let_in = agents.let_in.find(shown);
  // Of a run that was adopted since.
  if (let_in == agents.let_in.end()) return;
  if (let_in->second < agents.welcomed) {
    Broken(Invariant::kReplacedIsOut,
           absl::StrCat("node ", hello.node(), ", incarnation ",
                        hello.incarnation(),
                        ", is of an agent that another one had replaced"));
  }
  agents.let_in[hello.incarnation()] = let_in->second;
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
  if (isolated && !isolated_) {
    Tested(Invariant::kMajority);
    isolated_since_ = now;
  }
  if (std::exchange(isolated_, isolated) && !isolated) {
    for (auto& [session, lease] : leases_) {
      lease.until = std::max(lease.until, now + lease_);
    }
  }
  if (!std::holds_alternative<Tick>(event)) return;
  // Before the leases: a job that leaves its own deadline undone also keeps the
  // node that the deadline is for, and this is the more exact promise.
  Tested(Invariant::kNothingLeftDue);
  if (job.NextDeadline() <= now) {
    Broken(Invariant::kNothingLeftDue,
           absl::StrCat("the job asks for a moment ",
                        absl::FormatDuration(now - job.NextDeadline()),
                        " ago, in state ", v1::JobState_Name(job.state())));
  }
  for (auto& [session, lease] : leases_) {
    if (isolated || lease.until > now || !job.Attends(session)) continue;
    Broken(Invariant::kLeaseHolds,
           absl::StrCat("node ", lease.name, " is kept ",
                        absl::FormatDuration(now - lease.until),
                        " after its lease ended"));
  }
}

void Chronicle::Tries(const v1::Hello& hello, std::optional<uint64_t> epoch) {
  const auto evicted = evicted_.find({hello.run(), hello.node()});
  if (evicted != evicted_.end() && epoch.has_value() &&
      *epoch < evicted->second) {
    Tested(Invariant::kEvictedIsOut);
  }
}

void Chronicle::Durable() {
  for (auto& [name, leaver] : leaves_) leaver.durable = leaver.asked;
}

void Chronicle::Sent(const v1::DaemonMessage& m, const JournalState& durable) {
  if (m.has_proposal() || m.has_commit() || m.has_abort() || m.has_end()) {
    Tested(Invariant::kJournalFirst);
  }
  if (m.has_proposal()) {
    const uint64_t generation = m.proposal().generation();
    if (durable.generation < generation) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", generation, " is told, and ",
                          durable.generation, " is durable"));
    }
    Told& told = told_[generation];
    if (told.world.empty()) {
      told.world = m.proposal().world();
    } else {
      Tested(Invariant::kOneWorld);
    }
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
    if (told.seal.empty()) {
      told.seal = m.commit().seal();
    } else {
      Tested(Invariant::kOneWorld);
    }
    if (told.seal != m.commit().seal()) {
      Broken(Invariant::kOneWorld,
             absl::StrCat("generation ", generation, " has two seals"));
    }
  } else if (m.has_abort()) {
    const auto outsiders = outsiders_.find(m.abort().generation());
    if (outsiders != outsiders_.end() && outsiders->second > 0) {
      --outsiders->second;
    } else if (durable.proposal.has_value() &&
               durable.proposal->generation() == m.abort().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("generation ", m.abort().generation(),
                          " is aborted and durably open"));
    }
  } else if (m.has_end() && m.end().code() != v1::REASON_CODE_LEAVING) {
    if (!durable.end.has_value()) {
      return Broken(Invariant::kJournalFirst,
                    "the end is told and not durable");
    }
    ends_told_[durable.run] = *durable.end;
  }
}

void Chronicle::Restored(const JournalState& durable) {
  charged_ = durable.restarts_charged;
  // Those that never became durable, of which nobody was told.
  for (auto at = evicted_.begin(); at != evicted_.end();) {
    const auto& [run, name] = at->first;
    const bool lost =
        run == durable.run && durable.node_epochs.EpochOf(name) < at->second;
    at = lost ? evicted_.erase(at) : std::next(at);
  }
  proposed_ = durable.generation;
  open_ = durable.seal.has_value();
  committed_ = durable.seal.has_value() ? durable.seal->generation() : 0;
  end_journaled_ = durable.end.has_value();
  if (durable.end.has_value()) ends_told_[durable.run] = *durable.end;
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
  if (durable.generation < told && !std::exchange(rolled_back_, false)) {
    Broken(Invariant::kSurvives,
           absl::StrCat("generation ", told,
                        " was told, and the daemon goes on from ",
                        durable.generation));
  }
}

void Chronicle::TookUp(const Job& job, const JournalState& durable,
                       absl::Time now) {
  Tested(Invariant::kJournalRestores);
  if (durable.generation > 0) Tested(Invariant::kSurvives);
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

void Chronicle::Started(const std::vector<Action>& actions, absl::Time now) {
  for (const Action& action : actions) {
    if (const auto* entry = std::get_if<Journal>(&action)) {
      OnJournal(*entry, now);
    }
  }
}

void Chronicle::DaemonDied() {
  leases_.clear();
  out_.clear();
  in_.clear();
  isolated_ = false;
  stalls_.clear();
  stepped_in_ = 0;
  speakers_.clear();
  // Who asked was not told that it is done.
  std::erase_if(leaves_,
                [](const auto& entry) { return !entry.second.durable; });
  suspects_.clear();
  excluded_.clear();
  refusals_.clear();
  claims_.clear();
  outsiders_.clear();
  charge_.reset();
  seen_ = 0;
}

// A person says that the node is gone, and with it the worlds that had it.
void Chronicle::NoteVouched(const std::string& name) {
  for (const auto& [generation, told] : told_) {
    if (told.seal.empty() || vouched_.contains(generation)) continue;
    const auto world = DecodeWorld(told.world);
    CHECK(world.ok());
    for (const v1::Member& member : world->members()) {
      if (member.node() == name) vouched_.insert(generation);
    }
  }
}

// What the members of the last world cannot prove, an adopting daemon cannot
// know: an eviction since, with its ABORT still unsaid or unheard.
// Of a run that has ended, members of an older world may be left that have not
// heard of it.
void Chronicle::ForgetEvictions() {
  std::vector<const Told*> adoptable;
  for (const auto& [generation, told] : told_) {
    if (told.seal.empty()) continue;
    if (!end_journaled_) adoptable.clear();
    adoptable.push_back(&told);
  }
  if (adoptable.empty()) return evicted_.clear();
  for (const Told* told : adoptable) {
    const auto world = DecodeWorld(told->world);
    v1::Seal seal;
    CHECK(world.ok() && seal.ParseFromString(told->seal));
    std::erase_if(evicted_, [&](const auto& entry) {
      const auto& [run_and_name, epoch] = entry;
      for (int row = 0; row < world->members_size(); ++row) {
        if (world->members(row).node() == run_and_name.second) {
          return row >= seal.epochs_size() || seal.epochs(row) < epoch;
        }
      }
      return false;
    });
  }
}

void Chronicle::Forgotten() {
  ForgetEvictions();
  proposed_ = committed_ = 0;
  end_journaled_ = open_ = adopts_ = false;
  charged_ = 0;
  leaves_.clear();
  seats_.clear();
  agents_.clear();
}

void Chronicle::RolledBack() {
  rolled_back_ = true;
  leaves_.clear();
  evicted_.clear();
}

}  // namespace rollcall::sim
