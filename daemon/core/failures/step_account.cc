#include "daemon/core/failures/step_account.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kChangesBytesMax = 1 << 10;

std::string BelowText(const v1::Resumed& below) {
  std::string text =
      absl::StrCat("event=resumed_below generation=", below.generation(),
                   " step=", below.step(), " was=", below.was());
  if (below.saved_step() > 0) {
    absl::StrAppend(&text, " saved=", below.saved_step());
  }
  if (!below.former_run().empty()) {
    absl::StrAppend(&text, " former_run=", Quoted(below.former_run()));
  }
  return text;
}

}  // namespace

void StepAccount::Begin(const v1::World& world, const Probing& probing) {
  slow_steps_.Reset();
  slow_paths_ = SlowPaths();
  TakeRound(world, probing);
}

StepAccount::Taken StepAccount::Take(Node& node, const v1::Heartbeat& heartbeat,
                                     const v1::World& world,
                                     const Membership& membership,
                                     absl::Time now) {
  Taken taken;
  const auto step =
      progress_.TakeStep(node, heartbeat.step(), world, membership);
  if (!step.has_value()) return taken;
  const auto say = [&](Log::Level level, std::string text) {
    taken.lines.push_back({level, std::move(text)});
  };
  const auto tell_step = [&](const char* event) {
    say(Log::Level::kInfo, absl::StrCat("event=", event, " generation=",
                                        world.generation(), Text()));
  };
  if (step->reached) tell_step("reached");
  if (progress_.TakeSaved(heartbeat.saved_step(), now)) {
    tell_step("checkpoint");
    taken.changed = true;
  }
  if (step->below.has_value()) {
    say(Log::Level::kWarning, BelowText(*step->below));
  }
  const auto change = slow_steps_.Take(heartbeat.step(), now);
  if (!change.has_value()) return taken;
  slow_changes_ = change->slow ? ChangesOfMembers(membership, now) : "";
  say(change->slow ? Log::Level::kWarning : Log::Level::kInfo,
      absl::StrCat("event=", change->slow ? "slow" : "slow_ended",
                   " generation=", world.generation(),
                   " step_s=", absl::ToDoubleSeconds(change->step),
                   " median_s=", absl::ToDoubleSeconds(change->median),
                   " changed=", Quoted(slow_changes_)));
  taken.changed = true;
  return taken;
}

// "b: "interface eth1: up -> down 3 s before"; ..." of the running world's
// members, after those whose round trips stand out; empty: nothing has changed.
std::string StepAccount::ChangesOfMembers(const Membership& membership,
                                          absl::Time now) const {
  std::vector<std::string> changes;
  for (const auto& [name, text] : slow_paths_.Named()) {
    changes.push_back(absl::StrCat(name, ": ", Quoted(text)));
  }
  for (const auto& [name, node] : membership.nodes()) {
    if (!node.member()) continue;
    const std::string text = node.changes.TextAround(now);
    // In quotes, so that a node's text does not look like another node's.
    if (!text.empty())
      changes.push_back(absl::StrCat(name, ": ", Quoted(text)));
  }
  return Printable(absl::StrJoin(changes, "; "), kChangesBytesMax);
}

void StepAccount::TakeExit(const Node& node, const v1::RankExited& exited) {
  if (node.served_in == 0 || exited.peak_bytes() <= peak_memory_.bytes() ||
      exited.peak_bytes() > Limits::rank_memory_bytes_max) {
    return;
  }
  peak_memory_.set_node(node.name());
  peak_memory_.set_local_rank(exited.local_rank());
  peak_memory_.set_bytes(exited.peak_bytes());
}

std::string StepAccount::Text() const {
  if (progress_.step() == 0) return "";
  return absl::StrCat(
      " step=", progress_.step(),
      progress_.saved() > 0 ? absl::StrCat(" saved=", progress_.saved()) : "");
}

void StepAccount::Show(uint64_t generation, bool running,
                       v1::JobStatus& status) const {
  status.set_step(progress_.step());
  status.set_saved_step(progress_.saved());
  if (peak_memory_.bytes() > 0) *status.mutable_peak_memory() = peak_memory_;
  const v1::Resumed& resumed = progress_.resumed();
  if (resumed.generation() == generation && generation != 0) {
    *status.mutable_resumed() = resumed;
  }
  if (running && slow_steps_.slow().has_value()) {
    const SlowSteps::Change& slow = *slow_steps_.slow();
    ToProto(slow.step, status.mutable_slow()->mutable_step());
    ToProto(slow.median, status.mutable_slow()->mutable_median());
    status.mutable_slow()->set_changed(slow_changes_);
  }
  if (progress_.pace()) *status.mutable_pace() = *progress_.pace();
}

}  // namespace rollcall
