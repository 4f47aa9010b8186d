#include "tests/sim/checker/invariant_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"

namespace rollcall::sim {
namespace {

// The word that follows the key in a log line.
std::string LoggedWord(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t from = at + key.size();
  return text.substr(from, text.find(' ', from) - from);
}

}  // namespace

InvariantChecker::InvariantChecker(World& world,
                                   const v1::JobSettings& settings)
    : world_(world),
      lease_(FromProto(settings.lease())),
      daemon_grace_(FromProto(settings.daemon_grace())),
      reconnect_grace_(FromProto(settings.reconnect_grace())),
      tested_(kInvariants.size()),
      hangs_(lease_) {}

void InvariantChecker::Broken(Invariant which, const std::string& found) {
  if (broken_.has_value()) return;
  broken_ = Found{which, found};
  world_.Trace("BROKEN ", Verdict());
}

void InvariantChecker::Note(Invariant which, const Finding& finding) {
  for (int i = 0; i < finding.tested; ++i) Tested(which);
  if (!finding.broken.empty()) Broken(which, finding.broken);
}

std::string InvariantChecker::Verdict() const {
  CHECK(broken_.has_value());
  const InvariantRow& row =
      kInvariants.at(static_cast<size_t>(broken_->which) - 1);
  return absl::StrCat("invariant ", static_cast<int>(row.number), " (",
                      row.name, "): ", row.sentence, " Found: ", broken_->text);
}

void InvariantChecker::BeforeStep(const Job& job, const Event& event,
                                  absl::Time now) {
  revision_before_ = job.revision();
  retry_ = false;
  const auto* tick = std::get_if<Tick>(&event);
  if (tick != nullptr && tick->late > absl::Milliseconds(50)) {
    for (auto& [session, lease] : leases_) lease.until += tick->late;
  }
  NoteMembers(job, now);
  // The daemon ignores what an agent says on an older stream.
  const auto* said = std::get_if<Said>(&event);
  if (said != nullptr && job.Attends(said->session)) {
    const auto speaker = speakers_.find(said->session);
    if (speaker != speakers_.end()) {
      hangs_.OnSaid(speaker->second, said->message);
    }
  }
  if (const auto* closed = std::get_if<StreamClosed>(&event)) {
    claims_.erase(closed->session);
  }
  // A suspect that is asked to leave may be left out of a world at once.
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
  // The step may also do what was due anyway.
  may_change_ = job.NextDeadline() <= now;
  if (may_change_) return;
  status_before_ = job.Status(now).SerializeAsString();
  retry_ = IsRetry(job, *attend, now);
  if (retry_) Tested(Invariant::kRetryIsNothing);
}

void InvariantChecker::AfterStep(const Job& job, const Event& event,
                                 absl::Time now,
                                 const std::vector<Action>& actions) {
  const std::map<SessionId, Claim> claimed = claims_;
  // This comes first, since the checks below ask which agent holds the name
  // now.
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
      // The journal notes a node that was told of a run as a node of the run
      // that this daemon then adopted. It notes later that a node has finished,
      // at the next event of any kind.
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
    // The daemon no longer knows which agents were lost in the run that it had
    // before.
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

void InvariantChecker::NoteLogged(const Log& log,
                                  const std::vector<Action>& actions,
                                  absl::Time now) {
  if (absl::StrContains(log.text, " event=reunited ")) reunited_ = true;
  const std::string unfit = LoggedWord(log.text, " event=quarantined node=");
  if (!unfit.empty() && absl::StrContains(log.text, "its checks failed")) {
    excluded_[unfit] = in_[unfit];
  }
  const std::string lost = LoggedWord(log.text, " event=lost node=");
  if (lost.empty() || !restarts_.MayTakeBack(lost, now)) return;
  // The eviction of a running node does not count as the cause of an earlier
  // failure.
  if (IsEvictedAlive(lost, actions)) return;
  Note(Invariant::kBudget, restarts_.TakeBack());
}

bool InvariantChecker::IsEvictedAlive(
    const std::string& name, const std::vector<Action>& actions) const {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    const auto* close = std::get_if<CloseStream>(&action);
    if (close == nullptr || close->refusal.code() != v1::REFUSAL_CODE_EVICTED) {
      return false;
    }
    const auto speaker = speakers_.find(close->session);
    return speaker != speakers_.end() && speaker->second == name;
  });
}

void InvariantChecker::OnGenerationEnded(const Journal& entry, absl::Time now) {
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
  const bool charged = reform.restarts_charged() > restarts_.charged();
  std::set<std::string> members;
  if (charged) members = MembersOf(entry.generation);
  Note(Invariant::kBudget,
       restarts_.OnGenerationEnded(reform, entry.generation, std::move(members),
                                   now + lease_));
  if (reform.code() == v1::REASON_CODE_HANG) CheckHang(reform, now);
  hangs_.OnGenerationEnded();
}

std::set<std::string> InvariantChecker::MembersOf(uint64_t generation) {
  std::set<std::string> members;
  const auto world = DecodeWorld(told_[generation].world);
  for (int i = 0; world.ok() && i < world->members_size(); ++i) {
    members.insert(world->members(i).node());
  }
  return members;
}

void InvariantChecker::CheckHang(const v1::Reform& reform, absl::Time now) {
  std::optional<v1::World> members;
  const auto at = told_.find(reform.generation());
  if (at != told_.end()) {
    auto world = DecodeWorld(at->second.world);
    CHECK(world.ok());
    members = *std::move(world);
  }
  Note(Invariant::kHangIsTold,
       hangs_.Check(reform, members, isolated_ && !reunited_, now));
}

void InvariantChecker::Durable() {
  for (auto& [name, leaver] : leaves_) leaver.durable = leaver.asked;
}

void InvariantChecker::Started(const std::vector<Action>& actions,
                               absl::Time now) {
  for (const Action& action : actions) {
    if (const auto* entry = std::get_if<Journal>(&action)) {
      OnJournal(*entry, now);
    }
  }
}

void InvariantChecker::DaemonDied() {
  leases_.clear();
  out_.clear();
  in_.clear();
  isolated_ = false;
  hangs_.OnDaemonDied();
  restarts_.OnDaemonDied();
  speakers_.clear();
  // A drain that is not durable was not answered.
  std::erase_if(leaves_,
                [](const auto& entry) { return !entry.second.durable; });
  suspects_.clear();
  excluded_.clear();
  refusals_.clear();
  claims_.clear();
  outsiders_.clear();
  seen_ = 0;
}

void InvariantChecker::Forgotten() {
  ForgetEvictions();
  proposed_ = committed_ = 0;
  end_journaled_ = open_ = adopts_ = false;
  restarts_.Set(0);
  leaves_.clear();
  seats_.clear();
  agents_.clear();
}

void InvariantChecker::RolledBack() {
  rolled_back_ = true;
  leaves_.clear();
  evicted_.clear();
}

}  // namespace rollcall::sim
