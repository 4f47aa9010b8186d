// Job: losses, failures, root causes, and the end.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// The time after which a plain command has made progress by running: its ranks
// neither link nor write progress.
constexpr absl::Duration kRunCountsAsProgress = absl::Minutes(10);

}  // namespace

void Job::RankFailed(Node& node, const v1::RankExited& exited) {
  const std::string name = node.name();
  if (!exited.started_again() &&
      failures_.IsInWindow(exited.generation(), now_)) {
    if (const auto former = failures_.TakeRank(name, exited, now_)) {
      failures_.SetNodeChanges(ChangesOf(name));
      BlameNode(*former, 0);
      BlameNode(failures_.cause(), 1);
      BlameInReform(failures_.cause());
    }
    return;
  }
  if (!IsRunning() || exited.generation() != generation() || !node.member()) {
    return;
  }
  const uint32_t first = world().members(node.node_rank).first_rank();
  const v1::RootCause cause =
      CauseOfRank(name, first + exited.local_rank(), exited);
  if (exited.started_again()) {
    return Reform(cause.code(),
                  absl::StrCat(Describe(cause), "; its parent starts it again"),
                  name);
  }
  if (HasProgressed(membership_, &node) ||
      (!AnyHasStarted(membership_) &&
       now_ - completion_.running_since() >= kRunCountsAsProgress)) {
    MadeProgress();
  }
  GenerationFailed(cause, exited.permanent());
}

// The running generation ends because a rank failed.
void Job::GenerationFailed(v1::RootCause cause, bool permanent) {
  cause.set_node_changes(ChangesOf(cause.node()));
  if (failures_.EndByRank(world(), cause, permanent, now_, limits_)) {
    Reform(cause.code(), Describe(cause), cause.node());
    return BlameNode(cause, 1);
  }
  EndGeneration(cause.code(), Describe(cause), cause.node(),
                limits_.linger == absl::ZeroDuration());
  phase_ = Phase::kBlameWindow;
  failures_.AwaitStops(membership_.MembersOf(world()).size());
}

// Ends the blame window when all members have stopped, or after one lease.
void Job::MaybeEndBlameWindow() {
  if (phase_ != Phase::kBlameWindow) return;
  if (!failures_.WindowIsOver(now_)) return;
  const v1::RootCause& cause = failures_.cause();
  // The job was asked to end in any case.
  if (notices_.end_then().has_value()) return Finish(*notices_.end_then());
  if (IsLostNode(cause)) {
    // The root cause is a lost node, which costs no restart, so the job
    // continues without that node. The ranks were left running because the job
    // seemed to have failed.
    if (limits_.linger > absl::ZeroDuration()) TellAbort();
    return Gather(/*at_once=*/true);
  }
  v1::End end = failures_.EndOf(limits_);
  if (limits_.linger > absl::ZeroDuration()) {
    ToProto(limits_.linger, end.mutable_linger());
  }
  Fail(std::move(end));
}

void Job::Lose(Node& node, v1::ReasonCode code, const std::string& reason) {
  const std::string name = node.name();
  const bool member = node.member();
  const bool finished = member && node.finished();
  const bool stopped = node.stopped;
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=lost node=", name,
                          " code=", v1::ReasonCode_Name(code),
                          " reason=", Quoted(reason)));
  BlameLostNode(node, code, reason);
  v1::RootCause cause = CauseOfLostNode(name, code, reason, generation());
  cause.set_node_changes(ChangesOf(name));
  // Close comes before Part, so that the stream ends with the reason.
  const Refused lost = RefusalOfLost(this->name(), name, code, reason);
  if (node.session != 0) {
    out_.Close(node.session, lost.code, lost.refusal, lost.text);
  }
  Part(node, v1::NODE_STATE_LOST, reason, code == v1::REASON_CODE_EVICTED);
  if (!member) return;
  const std::string text = Describe(cause);
  switch (phase_) {
    case Phase::kForming:
      return Reform(code, text, name);
    case Phase::kRunning:
      // The member's ranks have finished, so its loss changes nothing.
      if (finished) return;
      failures_.EndByLoss(world(), cause, now_, limits_);
      return Reform(code, text, name);
    case Phase::kBlameWindow:
      if (!stopped) failures_.NoteStopped();
      return MaybeEndBlameWindow();
    case Phase::kGathering:
    case Phase::kEnded:
      return;
  }
}

// If a node is lost within one lease of a rank's failure, that node is the root
// cause.
void Job::BlameLostNode(const Node& node, v1::ReasonCode code,
                        const std::string& reason) {
  // Evicting a node that is alive says nothing about an earlier failure.
  if (code == v1::REASON_CODE_EVICTED && node.session != 0) return;
  const auto former = failures_.TakeLoss(node.name(), code, reason, now_);
  if (!former.has_value()) return;
  failures_.SetNodeChanges(ChangesOf(node.name()));
  BlameNode(*former, 0);
  BlameInReform(failures_.cause());
}

// Changes the reason of the next generation to this root cause.
void Job::BlameInReform(const v1::RootCause& cause) {
  if (!failures_.reasons().Blame(cause, failures_.charged(), generation()))
    return;
  out_.Changed();
}

void Job::FinishAll() {
  v1::End end;
  end.set_finished(true);
  end.set_code(v1::REASON_CODE_FINISHED);
  end.set_reason("all ranks exited 0");
  Finish(std::move(end));
}

void Job::MaybeJournalFinished() {
  if (now_ >= completion_.record_due()) JournalFinished();
}

void Job::JournalFinished() {
  out_.Write(Journal::Kind::kFinished, generation(), completion_.TakeRecord());
}

void Job::FailRendezvous(v1::ReasonCode code, const std::string& reason) {
  v1::End end;
  end.set_exit_code(kExitRendezvous);
  end.set_code(code);
  end.set_reason(reason);
  Fail(std::move(end));
}

void Job::Fail(v1::End end) {
  const std::vector<v1::RootCause>& causes = failures_.causes();
  if (!causes.empty()) *end.mutable_root_cause() = causes.back();
  for (const v1::RootCause& cause : causes) *end.add_causes() = cause;
  Finish(std::move(end));
}

void Job::Finish(v1::End end) {
  CHECK(!HasEnded());
  const bool ranks_live = IsRunning() && end.code() != v1::REASON_CODE_FINISHED;
  // Agents stop set-up commands as they stop ranks.
  const bool stops = ranks_live || !membership_.setting_up().empty();
  ending_.Begin(std::move(end), stops, now_, limits_);
  phase_ = Phase::kEnded;
  waiting_.Stop();
  membership_.EndDeadlines();
  for (auto& [name, node] : membership_.nodes()) {
    // A newcomer was never used, like a spare.
    if (HasRun() && membership_.IsSettingUp(node)) {
      node.state = v1::NODE_STATE_SPARE;
    }
    if (!node.gone && node.state != v1::NODE_STATE_SPARE) {
      node.state = v1::NODE_STATE_FINISHED;
    }
  }
  notices_.DropAll();
  hangs_.DropAll();
  newcomers_.StopGrowing();
  completion_.DropRecord();
  isolation_.End();
  // An adopted run cannot replace a run that has ended.
  RefuseClaims();
  out_.Write(Journal::Kind::kRunEnded, generation(), *ending_.end());
  SendEnd();
  const v1::End& ended = *ending_.end();
  out_.Say(ended.finished() ? Log::Level::kInfo : Log::Level::kError,
           absl::StrCat("event=end exit_code=", ended.exit_code(),
                        " code=", v1::ReasonCode_Name(ended.code()),
                        " reason=", Quoted(ended.reason()), steps_.Text()));
  out_.Changed();
}

v1::End Job::EndFor(const Node& node) const {
  return ending_.For(node, membership_.IsExcluded(node),
                     formation_.world_commit(), generations_.knows_all_worlds(),
                     now_);
}

void Job::SendEnd() {
  // Agents get different Ends if their exit codes differ. Agents that get the
  // job's own exit code come first.
  std::map<std::pair<bool, int>, std::vector<SessionId>> to;
  v1::DaemonMessage message;
  for (const auto& [session, name] : membership_.streams()) {
    const int exit_code = EndFor(membership_.At(name)).exit_code();
    to[{exit_code != ending_.end()->exit_code(), exit_code}].push_back(session);
  }
  for (auto& [kind, sessions] : to) {
    *message.mutable_end() = EndFor(*membership_.OfStream(sessions.front()));
    out_.SendTo(std::move(sessions), message);
  }
}

// Agents that do not know of the end may still ask for it for a limited time.
void Job::MaybeForget() {
  if (ending_.Forget(membership_.attached() > 0, !membership_.streams().empty(),
                     now_)) {
    out_.ForgetJob();
  }
}

}  // namespace rollcall
