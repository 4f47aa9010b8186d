#include "client/agent/core/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/awaited_text.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

// The daemon's own limit (admission) is slightly higher.
constexpr absl::Duration kDeadlineMax = absl::Hours(24 * 365);

// The job ends because the set-up command of another node failed: how long this
// one may take after SIGTERM.
constexpr absl::Duration kSetupElsewhereGrace = absl::Seconds(1);

}  // namespace

Agent::Agent(const v1::Hello& hello, absl::Duration join_timeout,
             const Limits& limits, absl::Time now, int preempt_signal,
             bool attach, uint32_t setup_retries)
    : hello_(hello),
      limits_(limits),
      now_(now),
      redial_(limits, join_timeout, now),
      heartbeat_(limits.heartbeat()),
      setup_(hello.setting_up(), setup_retries),
      preempt_signal_(preempt_signal),
      attach_(attach) {
  CHECK_NE(hello.incarnation(), 0u);
}

std::vector<AgentAction> Agent::Start() {
  link_ = Link::kDialing;
  return {Dial{}};
}

std::vector<AgentAction> Agent::Step(const AgentEvent& event, absl::Time now) {
  CHECK_GE(now, now_);  // The shell broke its promise: our bug, not an input.
  // Only the delay since the last step: events that one pass of the loop
  // handles were delayed once.
  const absl::Duration late = now - std::max(NextDeadline(), now_);
  now_ = now;
  actions_.clear();
  if (exited_) return {};
  if (late > Limits::late_min) Forgive(late);
  std::visit([this](const auto& e) { On(e); }, event);
  MaybeExit();
  return std::move(actions_);
}

absl::Time Agent::NextDeadline() const {
  if (exited_) return absl::InfiniteFuture();
  absl::Time next = std::min(
      {leave_.until, linger_until_, setup_.due(), NextHang(), NextLeftAlone()});
  if (notice_.has_value() && !notice_->over) {
    next = std::min(next, notice_->kill_at);
  }
  for (const auto& [local_rank, rank] : rank_processes_) {
    next = std::min(next, rank.answer_by);
  }
  if (link_ == Link::kDown && !exit_.has_value()) {
    next = std::min(next, redial_.dial_at());
  }
  if (link_ == Link::kAttending) next = std::min(next, next_heartbeat_);
  if (link_ != Link::kAttending && !exit_.has_value()) {
    next = std::min({next, redial_.give_up_at(), redial_.silent_until()});
  }
  return next;
}

// --- Time and the end --------------------------------------------------------

void Agent::On(const AgentTick&) {
  if (link_ == Link::kAttending && now_ >= next_heartbeat_) {
    next_heartbeat_ = now_ + heartbeat_;
    v1::AgentMessage message;
    v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
    if (starts_.took().has_value()) {
      heartbeat.set_ranks_link(true);
      ToProto(*starts_.took(), heartbeat.mutable_start_took());
    }
    if (running_.has_value()) {
      heartbeat.set_generation(running_->generation);
      heartbeat.set_step(running_->step);
      heartbeat.set_saved_step(running_->saved);
      if (running_->pace.has_value()) {
        *heartbeat.mutable_pace() = *running_->pace;
      }
    }
    Tell(std::move(message));
  }
  StopWhoDidNotAnswer();
  KillWhoseNoticeIsOver();
  LeaveTheUnendedAlone();
  LookForHangs();
  AdvanceSetup();
  if (now_ >= linger_until_) EndLinger();
  if (now_ >= leave_.until) {
    leave_.until = absl::InfiniteFuture();
    Leave(128 + leave_.signal, "asked to leave; the daemon did not answer");
  }
  if (exit_.has_value()) return;
  if (link_ == Link::kAttending) return;
  if (now_ >= redial_.give_up_at()) {
    return Leave(
        setup_.failed() ? ExitCodeOf(*setup_.ended()) : kExitRendezvous,
        redial_.GiveUpReason());
  }
  Tell(redial_.Silence(now_));
  if (link_ == Link::kDown && now_ >= redial_.dial_at()) {
    link_ = Link::kDialing;
    actions_.push_back(Dial{});
  }
}

void Agent::OnWaiting(const v1::Waiting& waiting) {
  std::string text;
  if (waiting.spare()) {
    text = waiting.reason().empty()
               ? "spare: all seats are taken; waiting for one"
               : absl::StrCat("spare: ", waiting.reason());
    // Other members run this world, so the ranks that wait here have no place
    // in it.
    if (!running_.has_value() && !preparing_.has_value()) {
      Stop(limits_.stop_grace);
    }
  } else if (waiting.without_rank()) {
    text = absl::StrCat(
        "no rank runs on this node; ",
        StillRunningText({waiting.missing().begin(), waiting.missing().end()}));
  } else {
    text = absl::StrCat(
        AwaitedText(
            {.here = waiting.present(),
             .nodes_min = waiting.nodes_min(),
             .nodes_max = waiting.nodes_max(),
             .missing = {waiting.missing().begin(), waiting.missing().end()}}),
        waiting.reason().empty() ? ""
                                 : absl::StrCat(" (", waiting.reason(), ")"));
  }
  Tell(Report::Kind::kWaiting, std::move(text));
}

void Agent::On(const LeaveAsked& leave) {
  // A signal to the whole node reaches both its ranks and its agent; the two
  // count as one request.
  if (std::exchange(leave_.by_rank, false) &&
      linger_until_ == absl::InfiniteFuture()) {
    leave_.signal = leave.signal;
    return;
  }
  if (leave_.signal != 0 || exit_.has_value()) {
    // The second request: leave at once.
    linger_until_ = absl::InfiniteFuture();
    Stop(absl::ZeroDuration());
    StopSetup(absl::ZeroDuration());
    if (!exit_.has_value()) {
      Leave(128 + leave.signal, absl::StrCat("signal ", leave.signal));
    }
    return;
  }
  leave_.signal = leave.signal;
  if (link_ != Link::kAttending) {
    return Leave(128 + leave.signal, absl::StrCat("signal ", leave.signal));
  }
  // Time for the ranks to reach a boundary, for stopping them, and for the
  // daemon to learn of both.
  leave_.until = now_ + limits_.notice_time + limits_.stop_grace +
                 limits_.lease + absl::Seconds(2);
  SayLeaving();
}

void Agent::SayLeaving() {
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason(absl::StrCat("signal ", leave_.signal));
  // The daemon may have set any notice time; the clamp keeps the message valid.
  ToProto(std::clamp(limits_.notice_time, absl::ZeroDuration(), kDeadlineMax),
          message.mutable_leaving()->mutable_deadline());
  Tell(std::move(message));
}

void Agent::On(const RankAskedToLeave& asked) {
  const auto at = rank_processes_.find(asked.local_rank);
  // A rank that received the agent's own signal did not ask by itself.
  if (at == rank_processes_.end() || !running_.has_value() ||
      at->second.signalled || at->second.stopping || leave_.signal != 0 ||
      exit_.has_value()) {
    return;
  }
  On(LeaveAsked{SIGTERM});
  leave_.by_rank = true;
}

void Agent::On(const ChecksDone& done) {
  v1::AgentMessage message;
  *message.mutable_check_report() = done.report;
  Tell(std::move(message));
}

void Agent::On(const FactChanged& changed) {
  if (fact_changes_.size() == Limits::fact_changes_per_node) {
    fact_changes_.pop_front();
  }
  fact_changes_.push_back(changed.change);
  SayFactChanges();
}

void Agent::On(const FactWatchEnded& ended) {
  Tell(Report::Kind::kWarning, ended.reason);
}

void Agent::SayFactChanges() {
  if (link_ != Link::kAttending) return;
  for (v1::FactChange& change : fact_changes_) {
    v1::AgentMessage message;
    *message.mutable_fact_change() = std::move(change);
    if (takes_fact_changes_) Tell(std::move(message));
  }
  fact_changes_.clear();
}

void Agent::On(const ProbeDone& done) {
  v1::AgentMessage message;
  *message.mutable_probed() = done.probed;
  Tell(std::move(message));
}

// The daemon takes the answer to a round on the stream of its request only.
void Agent::On(const GroupCheckSaid& said) {
  const v1::AgentMessage& m = said.message;
  const uint64_t round = m.has_group_checked() ? m.group_checked().round()
                                               : m.group_listening().round();
  if (round != check_round_ || check_round_ == 0) return;
  if (m.has_group_checked()) check_round_ = 0;
  Tell(m);
}

void Agent::EndGroupCheck() {
  if (std::exchange(check_round_, 0) == 0) return;
  actions_.push_back(RunGroupCheck{});
}

void Agent::On(const SignalCame& came) {
  std::vector<RankIncarnation> lives;
  for (const auto& [local_rank, rank] : rank_processes_) {
    if (!rank.ended) lives.push_back({rank.born, local_rank});
  }
  if (!lives.empty()) {
    actions_.push_back(PassSignal{std::move(lives), came.signal});
  }
}

void Agent::OnEnd(const v1::End& end) {
  if (end.now()) {
    linger_until_ = absl::InfiniteFuture();
    Stop(absl::ZeroDuration());
    StopSetup(absl::ZeroDuration());
  }
  if (exit_.has_value() && exit_->end.has_value()) {
    // A second End may report that the job no longer lingers.
    if (!end.has_linger()) EndLinger();
    return;
  }
  exit_.reset();
  // After Ctrl-C the exit code is 130, which shells expect.
  const bool interrupted =
      leave_.signal == SIGINT && end.code() == v1::REASON_CODE_LEAVING;
  const int code = interrupted ? 128 + SIGINT : end.exit_code();
  const absl::Duration linger = FromProto(end.linger());
  const bool kept =
      !rank_processes_.empty() || end.code() == v1::REASON_CODE_SETUP;
  if (end.now() || !kept || linger <= absl::ZeroDuration()) {
    return Leave(code, end.reason(), end);
  }
  leave_.until = absl::InfiniteFuture();
  exit_ = Exit{code, end.reason(), end};
  linger_until_ = now_ + linger;
  setup_.Abandon();
  UnwatchAll();
  DropPreparation();
  Tell(Report::Kind::kState,
       absl::StrCat("the job has ended: ", end.reason(), "; ",
                    rank_processes_.empty() ? "this agent stays for "
                                            : "living ranks are kept for ",
                    absl::FormatDuration(linger),
                    ", or until a signal arrives"));
}

// Stops the ranks that were kept, with their grace period.
void Agent::EndLinger() {
  if (linger_until_ == absl::InfiniteFuture()) return;
  linger_until_ = absl::InfiniteFuture();
  EndGeneration(exit_->end->code(), exit_->reason, Keep::kNobody);
  StopSetup(limits_.stop_grace);
}

void Agent::Leave(int code, const std::string& reason,
                  std::optional<v1::End> end) {
  if (exit_.has_value()) return;
  leave_.until = absl::InfiniteFuture();
  const v1::ReasonCode why =
      end.has_value() ? end->code() : v1::REASON_CODE_UNSPECIFIED;
  exit_ = Exit{code, reason, std::move(end)};
  EndGroupCheck();
  DropPreparation();
  EndGeneration(why, reason, Keep::kNobody);
  StopSetup(why == v1::REASON_CODE_SETUP
                ? std::min(limits_.stop_grace, kSetupElsewhereGrace)
                : limits_.stop_grace);
}

void Agent::MaybeExit() {
  if (!exit_.has_value() || !rank_processes_.empty() || exited_) return;
  if (setup_.running() || LingersWithoutRanks()) return;
  exited_ = true;
  if (exit_->end.has_value() && link_ == Link::kAttending) {
    v1::AgentMessage message;
    message.mutable_end_seen()->set_generation(generation_seen_);
    Tell(std::move(message));
  }
  actions_.push_back(*exit_);
}

void Agent::Tell(v1::AgentMessage message) {
  // Without a stream the message is dropped, and nothing is lost: the next
  // Hello contains it, or it is sent again after the next Welcome.
  if (link_ == Link::kAttending) actions_.push_back(Say{std::move(message)});
}

void Agent::Tell(Report::Kind kind, std::string text) {
  actions_.push_back(Report{kind, std::move(text)});
}

void Agent::Tell(std::optional<Report> news) {
  if (news.has_value()) actions_.push_back(*std::move(news));
}

}  // namespace rollcall
