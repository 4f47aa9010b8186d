#include "daemon/core/job/acts/standing.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/job/acts/sends.h"

namespace rollcall {
namespace {

// A node that waits for its check says so.
void SayUnchecked(JobState& job, Node& node) {
  if (!node.reason.empty() || !job.vetting.IsUnchecked(node, job.ForVetting()))
    return;
  node.reason = Vetting::kCheckedAlone;
  TellSpare(job, node);
}

}  // namespace

void Exclude(JobState& job, Node& node, const std::string& reason) {
  if (!job.Leaves(node))
    job.newcomers.Lost(node, job.generation(), job.now, job.limits);
  job.membership.Exclude(node);
  node.exclusion.late = false;
  job.vetting.probes().Forget(node.name());
  node.seat = -1;
  node.state = v1::NODE_STATE_SPARE;
  node.reason = Printable(reason, Limits::node_reason_bytes_max);
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=spare node=", node.name(),
                             " reason=", Quoted(reason)));
  job.out.Changed();
}

void ExcludeForNow(JobState& job, Node& node, const std::string& reason,
                   std::set<std::string> partners) {
  Exclude(job, node, reason);
  job.vetting.probes().Unreached(
      node.name(), job.now + job.limits.unreached_delay, std::move(partners));
}

void SetQuarantined(JobState& job, Node& node, const std::string& reason) {
  Exclude(job, node, reason);
  node.exclusion.why = node.reason;
  node.exclusion.quarantined = true;
  node.state = v1::NODE_STATE_QUARANTINED;
  job.out.Say(Log::Level::kError,
              absl::StrCat("event=quarantined node=", node.name(),
                           " reason=", Quoted(reason),
                           " next=\"repair it and start its agent again\""));
}

void Unquarantine(JobState& job, Node& node) {
  node.exclusion.quarantined = false;
  job.membership.Readmit(node.name());
  node.state = job.StateByPhase(node);
  node.reason.clear();
  job.out.Changed();
}

void TakeBackUnreached(JobState& job) {
  for (const std::string& name : job.vetting.TakeExpired(job.ForVetting())) {
    Node& node = job.membership.At(name);
    const bool only_unreached = !node.exclusion.quarantined &&
                                !node.exclusion.differs && !job.Leaves(node);
    if (only_unreached && job.membership.Readmit(name)) {
      node.state = job.StateByPhase(node);
    }
    job.out.Changed();
  }
}

void TakeBackLate(JobState& job, Node& node) {
  if (!std::exchange(node.exclusion.late, false)) return;
  const std::string& name = node.name();
  if (job.Leaves(node) || !job.membership.Readmit(name)) return;
  node.state = job.StateByPhase(node);
  node.reason.clear();
  SayHold(job, node);
  job.out.SayOf(
      node, Log::Level::kInfo,
      absl::StrCat("event=ready node=", name,
                   " reason=\"it prepared, or its ranks ended, too late\""));
  if (job.IsRunning()) GrowSoon(job, node);
  job.out.Changed();
}

void SayHold(JobState& job, Node& node) {
  const std::string reason =
      job.newcomers.HoldText(node.name(), job.now, job.limits);
  if (node.seat >= 0 || reason.empty()) return;
  if (std::exchange(node.reason, reason) == reason) return;
  job.out.SayOf(node, Log::Level::kInfo,
                absl::StrCat("event=held node=", node.name(),
                             " reason=", Quoted(node.reason)));
}

void SetReached(JobState& job, Node& node) {
  job.newcomers.GrowBy(job.now);
  if (node.reason.empty() || job.Leaves(node)) return;
  if (job.newcomers.HoldText(node.name(), job.now, job.limits).empty()) {
    node.reason.clear();
  } else {
    SayHold(job, node);
  }
  SayUnchecked(job, node);
  job.out.Changed();
}

void SetUnreached(JobState& job, Node& node, const std::string& why) {
  const std::string reason = Printable(why, Limits::node_reason_bytes_max);
  if (std::exchange(node.reason, reason) == reason) return;
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=unreached node=", node.name(),
                             " reason=", Quoted(reason)));
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(reason);
  job.out.SendTo(node, std::move(message));
  job.out.Changed();
}

void GrowSoon(JobState& job, Node& node) {
  const bool fills = job.membership.present() == job.settings.nodes_max() &&
                     static_cast<uint32_t>(job.world().members_size()) <
                         job.settings.nodes_max();
  job.vetting.probes().Newcomer(node.name(), fills, job.now, job.limits);
  job.vetting.NoteSpare();
  SayUnchecked(job, node);
}

FactsChange TakeFacts(JobState& job, Node& node, const v1::Facts& facts) {
  const v1::Facts& known = node.hello.facts();
  const FactsChange change = ChangeOf(known, facts, node.observed_address);
  if (job.IsRunning() && node.member() && !node.restored()) {
    const v1::Facts& last =
        node.told_facts.has_value() ? *node.told_facts : known;
    if (change == FactsChange::kAddresses &&
        ChangeOf(last, facts, node.observed_address) ==
            FactsChange::kAddresses) {
      job.out.SayOf(
          node, Log::Level::kWarning,
          absl::StrCat("event=moved node=", node.name(), " text=",
                       Quoted("its addresses have changed; the running world "
                              "keeps the old ones")));
    }
    node.told_facts = facts;
    return FactsChange::kNone;
  }
  node.told_facts.reset();
  if (change == FactsChange::kAddresses) {
    job.vetting.probes().Moved(node, job.IsRunning(), job.membership, job.now,
                               job.limits);
  }
  *node.hello.mutable_facts() = facts;
  return change;
}

void TakeToldFacts(JobState& job) {
  for (auto& [name, node] : job.membership.nodes()) {
    if (!node.told_facts.has_value()) continue;
    const v1::Facts facts = *std::exchange(node.told_facts, std::nullopt);
    TakeFacts(job, node, facts);
  }
}

}  // namespace rollcall
