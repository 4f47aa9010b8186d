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

// A plain command, whose ranks neither link nor write progress, has made
// progress by running this long.
constexpr absl::Duration kRunCountsAsProgress = absl::Minutes(10);
constexpr absl::Duration kFinishedTogether = absl::Milliseconds(100);

}  // namespace

void Job::RankFailed(Node& node, const v1::RankExited& exited) {
  const std::string name = node.hello.node();
  if (failures_.IsInWindow(exited.generation(), now_)) {
    if (const auto former = failures_.TakeRank(name, exited, now_)) {
      BlameNode(*former, 0);
      BlameNode(failures_.cause(), 1);
      BlameInReform(failures_.cause());
    }
    return;
  }
  if (phase_ != Phase::kRunning || exited.generation() != generation_ ||
      !node.member()) {
    return;
  }
  const uint32_t first = world_.members(node.node_rank).first_rank();
  const v1::RootCause cause =
      CauseOfRank(name, first + exited.local_rank(), exited);
  if (HasProgressed(&node) ||
      (!AnyHasStarted() && now_ - running_since_ >= kRunCountsAsProgress)) {
    MadeProgress();
  }
  GenerationFailed(cause, exited.permanent());
}

// The running generation ends because a rank failed.
void Job::GenerationFailed(const v1::RootCause& cause, bool permanent) {
  if (failures_.EndByRank(world_, cause, permanent, now_, limits_)) {
    Reform(cause.code(), Describe(cause), cause.node());
    return BlameNode(cause, 1);
  }
  EndGeneration(cause.code(), Describe(cause), cause.node(),
                limits_.linger == absl::ZeroDuration());
  phase_ = Phase::kSettling;
  unstopped_ = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    unstopped_ += at != nodes_.end() && at->second.member();
  }
}

// Ends the blame window when all members have stopped, or after one lease.
void Job::MaybeSettle() {
  if (phase_ != Phase::kSettling) return;
  if (unstopped_ > 0 && now_ < failures_.window_ends()) return;
  const v1::RootCause& cause = failures_.cause();
  // The job was asked to end anyway.
  if (notices_.end_then().has_value()) return Finish(*notices_.end_then());
  if (IsLostNode(cause)) {
    // A lost node was the root cause, which costs no restart: continue without
    // it.
    why_.set_code(cause.code());
    why_.set_reason(Describe(cause));
    why_.set_node(cause.node());
    // Ranks were left running for a failed end; the job goes on instead.
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
  const std::string name = node.hello.node();
  const bool member = node.member();
  const bool finished = member && node.finished();
  const bool stopped = node.stopped;
  SayOf(node, Log::Level::kWarning,
        absl::StrCat("event=lost node=", name, " code=",
                     v1::ReasonCode_Name(code), " reason=", Quoted(reason)));
  BlameLostNode(node, code, reason);
  CloseLost(node, code, reason);
  Part(node, v1::NODE_STATE_LOST, reason, code == v1::REASON_CODE_EVICTED);
  if (!member) return;
  const std::string text = absl::StrCat("node ", name, " was lost: ", reason);
  switch (phase_) {
    case Phase::kForming:
      return Reform(code, text, name);
    case Phase::kRunning:
      // Its ranks have finished, so its loss changes nothing.
      if (finished) return;
      failures_.EndByLoss(world_,
                          CauseOfLostNode(name, code, reason, generation_),
                          now_, limits_);
      return Reform(code, text, name);
    case Phase::kSettling:
      if (!stopped) --unstopped_;
      return MaybeSettle();
    case Phase::kGathering:
    case Phase::kEnded:
      return;
  }
}

void Job::CloseLost(const Node& node, v1::ReasonCode code,
                    const std::string& reason) {
  if (node.session == 0) return;
  const std::string& name = node.hello.node();
  if (code == v1::REASON_CODE_EVICTED) {
    return Close(
        node.session, absl::StatusCode::kPermissionDenied,
        v1::REFUSAL_CODE_EVICTED,
        absl::StrCat("node ", name, " was evicted from job ", job_, " (",
                     reason, "); to bring it back, join with a valid token"));
  }
  // Only the launcher's agent replaces an agent that is alive.
  if (code == v1::REASON_CODE_REPLACED) {
    return Close(node.session, absl::StatusCode::kAlreadyExists,
                 v1::REFUSAL_CODE_NAME_TAKEN,
                 absl::StrCat("node name ", name, " is the launcher's: ",
                              reason, "; give this one another --name"));
  }
  Close(node.session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST,
        absl::StrCat("node ", name, " was given up: ", reason,
                     "; attend with a new incarnation"));
}

// A node that is lost within a lease of a rank's failure is the root cause.
void Job::BlameLostNode(const Node& node, v1::ReasonCode code,
                        const std::string& reason) {
  // Evicting a node that is alive says nothing about an earlier failure.
  if (code == v1::REASON_CODE_EVICTED && node.session != 0) return;
  const auto former = failures_.TakeLoss(node.hello.node(), code, reason, now_);
  if (!former.has_value()) return;
  BlameNode(*former, 0);
  BlameInReform(failures_.cause());
}

// Changes the reason of the next generation to this root cause.
void Job::BlameInReform(const v1::RootCause& cause) {
  if (why_.generation() != cause.generation()) return;
  why_.set_code(cause.code());
  why_.set_reason(Describe(cause));
  why_.set_node(cause.node());
  why_.set_restarts_charged(failures_.charged());
  // That generation may be proposed already.
  if (last_reform_.generation() == cause.generation() + 1 &&
      generation_ == last_reform_.generation()) {
    last_reform_ = why_;
    last_reform_.set_generation(generation_);
  }
  Changed();
}

void Job::MaybeFinish() {
  if (unfinished_ > 0) return;
  v1::End end;
  end.set_finished(true);
  end.set_code(v1::REASON_CODE_FINISHED);
  end.set_reason("all ranks exited 0");
  Finish(std::move(end));
}

// Journaled, so that a restarted daemon does not wait for this node.
void Job::NoteFinished(const Node& node) {
  finished_.insert(static_cast<uint32_t>(node.node_rank));
  // Collected for a short time, since many nodes finish at once.
  finished_due_ = std::min(finished_due_, now_ + kFinishedTogether);
}

void Job::MaybeJournalFinished() {
  if (now_ >= finished_due_) JournalFinished();
}

void Job::JournalFinished() {
  finished_due_ = absl::InfiniteFuture();
  v1::FinishedNodes finished;
  for (const uint32_t node_rank : finished_) {
    finished.add_node_ranks(node_rank);
  }
  actions_.push_back(Journal{Journal::Kind::kFinished, generation_,
                             finished.SerializeAsString()});
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
  CHECK(phase_ != Phase::kEnded);
  const bool ranks_live =
      phase_ == Phase::kRunning && end.code() != v1::REASON_CODE_FINISHED;
  end_ = std::move(end);
  phase_ = Phase::kEnded;
  next_waiting_ = absl::InfiniteFuture();
  deadlines_.clear();
  for (auto& [name, node] : nodes_) {
    node.deadline = absl::InfiniteFuture();
    if (!node.gone && node.state != v1::NODE_STATE_SPARE) {
      node.state = v1::NODE_STATE_FINISHED;
    }
  }
  redial_until_ = now_ + limits_.lease;
  linger_until_ =
      redial_until_ + (ranks_live ? limits_.stop_grace : absl::ZeroDuration());
  if (end_->has_linger()) {
    lingers_until_ = now_ + FromProto(end_->linger());
    linger_until_ += FromProto(end_->linger()) + limits_.stop_grace;
  }
  notices_.DropAll();
  hangs_.DropAll();
  grow_at_ = absl::InfiniteFuture();
  finished_due_ = absl::InfiniteFuture();
  isolation_.End();
  // A run that has ended is not replaced by an adopted one.
  RefuseClaims();
  actions_.push_back(Journal{Journal::Kind::kRunEnded, generation_,
                             end_->SerializeAsString()});
  SendEnd();
  Say(end_->finished() ? Log::Level::kInfo : Log::Level::kError,
      absl::StrCat("event=end exit_code=", end_->exit_code(),
                   " code=", v1::ReasonCode_Name(end_->code()),
                   " reason=", Quoted(end_->reason())));
  Changed();
}

// The digest of the command, if all members of the world have the same one; as
// in Seal.common_digest.
std::string Job::CommonCommand() const {
  std::set<std::string> commands;
  for (const v1::Member& member : world_.members()) {
    const v1::Hello& hello = nodes_.at(member.node()).hello;
    if (hello.launcher()) return "";
    commands.insert(hello.command_digest());
  }
  return commands.size() == 1 ? *commands.begin() : "";
}

// Whether all members of the last world ran one command and this node has
// another one.
bool Job::HasOtherCommand(const Node& node) const {
  const std::string& own = node.hello.command_digest();
  return seal_.has_value() && !seal_->common_digest().empty() && !own.empty() &&
         own != seal_->common_digest();
}

// A spare that never had a seat exits 0. If others finished a job of this name
// with another command, its own command has not run, so it fails.
v1::End Job::EndFor(const Node& node) const {
  v1::End end = *end_;
  // The time that remains now, whenever the agent hears of the end.
  if (end.has_linger()) {
    ToProto(std::max(lingers_until_ - now_, absl::ZeroDuration()),
            end.mutable_linger());
  }
  if (node.served_in != 0 || barred_.contains(node.hello.node())) return end;
  // It was in a world that this daemon has not seen, before a restart.
  if (!knows_all_worlds_ && node.hello.generation_seen() != 0) return end;
  if (end.finished() && HasOtherCommand(node)) {
    end.set_finished(false);
    end.set_exit_code(kExitRendezvous);
    end.set_code(v1::REASON_CODE_OTHER_COMMAND);
    end.set_reason(
        "the job finished with another command than this node's, which never "
        "ran; start it under another --job");
  } else if (node.state == v1::NODE_STATE_SPARE) {
    end.set_exit_code(0);
  }
  return end;
}

void Job::SendEnd() {
  // Agents get different Ends if their exit codes differ. The job's own exit
  // code is sent first.
  std::map<std::pair<bool, int>, std::vector<SessionId>> to;
  v1::DaemonMessage message;
  for (const auto& [session, name] : sessions_) {
    const int exit_code = EndFor(nodes_.at(name)).exit_code();
    to[{exit_code != end_->exit_code(), exit_code}].push_back(session);
  }
  for (auto& [kind, sessions] : to) {
    *message.mutable_end() = EndFor(nodes_.at(sessions_.at(sessions.front())));
    actions_.push_back(Send{std::move(sessions), message});
  }
}

// For a limited time, agents that have not heard of the end may still ask.
void Job::MaybeForget() {
  if (phase_ != Phase::kEnded || forgotten_) return;
  const bool all_know = sessions_.empty() && suspects_.empty();
  if (!all_know && now_ < LingersUntil()) return;
  forgotten_ = true;
  actions_.push_back(Forget{});
}

}  // namespace rollcall
