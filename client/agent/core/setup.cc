#include "client/agent/core/setup.h"

#include <utility>

#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {

bool Setup::failed() const {
  return ended_.has_value() && ExitCodeOf(*ended_) != 0;
}

std::optional<v1::SetupEnded> Setup::TakeResult() {
  if (!ended_.has_value() || !std::exchange(awaited_, false)) {
    return std::nullopt;
  }
  return ended_;
}

bool Setup::Begin(absl::Time now, const Limits& limits) {
  if (phase_ != Phase::kWaiting) return false;
  phase_ = Phase::kRunning;
  until_ = now + limits.setup_timeout;
  ++tries_;
  return true;
}

void Setup::ShellEnded(int code, int signal, std::string stderr_tail) {
  if (phase_ != Phase::kRunning || shell_.has_value()) return;
  shell_.emplace();
  shell_->set_code(code);
  shell_->set_signal(signal);
  shell_->set_stderr_tail(std::move(stderr_tail));
}

void Setup::Gone(absl::Time now, const Limits& limits) {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kOver;
  kill_at_ = absl::InfiniteFuture();
  // The agent stopped it because it leaves.
  if (abandoned_ && !shell_.has_value()) return;
  v1::SetupEnded ended = shell_.value_or(v1::SetupEnded());
  shell_.reset();
  ended.set_tries(tries_);
  if (timed_out_) {
    // A shell that SIGTERM ended may have exited 0.
    ended.set_timed_out(true);
    ended.set_signal(0);
    ended.set_code(kExitTimedOut);
  }
  const absl::Time again = now + limits.setup_retry_delay;
  if (!timed_out_ && !abandoned_ && ExitCodeOf(ended) != 0 &&
      tries_ <= retries_ && again < until_) {
    phase_ = Phase::kPausing;
    again_at_ = again;
    return;
  }
  ended_ = std::move(ended);
}

Setup::Due Setup::Tick(absl::Time now) {
  if (now < due()) return Due::kNothing;
  if (phase_ == Phase::kPausing) {
    phase_ = Phase::kRunning;
    ++tries_;
    return Due::kStart;
  }
  timed_out_ = true;
  return Due::kStop;
}

absl::Time Setup::due() const {
  if (phase_ == Phase::kPausing) return again_at_;
  const bool limited = phase_ == Phase::kRunning && !shell_.has_value() &&
                       !timed_out_ && kill_at_ == absl::InfiniteFuture();
  return limited ? until_ : absl::InfiniteFuture();
}

bool Setup::Stop(absl::Duration grace, absl::Time now) {
  Abandon();
  if (phase_ != Phase::kRunning || now + grace >= kill_at_) return false;
  kill_at_ = now + grace;
  return true;
}

void Setup::Abandon() {
  abandoned_ = true;
  if (phase_ != Phase::kRunning) phase_ = Phase::kOver;
}

}  // namespace rollcall
