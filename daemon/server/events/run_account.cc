#include "daemon/server/events/run_account.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "daemon/base/durations.h"

namespace rollcall {
namespace {

absl::Duration Between(absl::Time begin, absl::Time end) {
  return std::max(end - begin, absl::ZeroDuration());
}

}  // namespace

void RunAccount::Take(const LogFields& event, absl::Time at) {
  const auto value = [&event](absl::string_view key) -> const std::string& {
    return FieldOf(event, key);
  };
  if (at < last_at_) SetBack(last_at_ - at);
  last_at_ = at;
  if (began_ == absl::InfiniteFuture()) began_ = at;
  const std::string& name = value("event");
  uint64_t generation = 0;
  if (!absl::SimpleAtoi(value("generation"), &generation)) generation = 0;
  if (name == "start") Started(generation, value("state") == "running", at);
  if (name == "run" || name == "adopt") Runs(generation, at);
  if (name == "abort") {
    Interrupted(generation, value("code"), value("reason"), at);
  }
  if (name == "end") Ended(at);
}

// All times move, so that what has passed since them stays the same.
void RunAccount::SetBack(absl::Duration by) {
  began_ -= by;
  ended_ -= by;
  runs_since_ -= by;
  stopped_since_ -= by;
}

// A daemon takes the run up, and may know of changes whose events are missing.
void RunAccount::Started(uint64_t generation, bool runs, absl::Time at) {
  if (generation_ == (runs ? generation : 0)) return;
  if (generation_ != 0) {
    Interrupted(generation_,
                v1::ReasonCode_Name(v1::REASON_CODE_DAEMON_RESTART),
                "its end is not in the events", at);
  }
  if (runs) Runs(generation, at);
}

void RunAccount::Runs(uint64_t generation, absl::Time at) {
  // A daemon that died may have logged no end of the world before.
  if (generation_ != 0) running_ += Between(runs_since_, at);
  if (stopped_since_ != absl::InfiniteFuture()) {
    const absl::Duration stopped = Between(stopped_since_, at);
    stopped_ += stopped;
    ToProto(stopped,
            summary_.mutable_interruptions()->rbegin()->mutable_stopped());
  }
  stopped_since_ = ended_ = absl::InfiniteFuture();
  generation_ = generation;
  runs_since_ = at;
  summary_.set_worlds(summary_.worlds() + 1);
}

void RunAccount::Interrupted(uint64_t generation, const std::string& code,
                             const std::string& reason, absl::Time at) {
  // A proposal that is given up interrupts nothing.
  if (generation_ == 0 || generation != generation_) return;
  running_ += Between(runs_since_, at);
  generation_ = 0;
  stopped_since_ = at;
  summary_.set_interruption_count(summary_.interruption_count() + 1);
  if (summary_.interruptions_size() == kInterruptionsMax) {
    summary_.mutable_interruptions()->DeleteSubrange(0, 1);
  }
  v1::Interruption& added = *summary_.add_interruptions();
  ToProto(at, added.mutable_at());
  added.set_generation(generation);
  v1::ReasonCode known = v1::REASON_CODE_UNSPECIFIED;
  if (v1::ReasonCode_Parse(code, &known)) added.set_code(known);
  added.set_reason(reason);
}

void RunAccount::Ended(absl::Time at) {
  if (ended_ != absl::InfiniteFuture()) return;
  ended_ = at;
  if (generation_ != 0) running_ += Between(runs_since_, at);
  generation_ = 0;
  if (stopped_since_ != absl::InfiniteFuture()) {
    stopped_ += Between(stopped_since_, at);
  }
  stopped_since_ = absl::InfiniteFuture();
}

v1::RunSummary RunAccount::Summary(absl::Time wall_now) const {
  v1::RunSummary summary = summary_;
  if (began_ == absl::InfiniteFuture()) return summary;
  const absl::Time until = std::min(ended_, wall_now);
  ToProto(began_, summary.mutable_began());
  ToProto(Between(began_, until), summary.mutable_elapsed());
  ToProto(running_ + (generation_ != 0 ? Between(runs_since_, until)
                                       : absl::ZeroDuration()),
          summary.mutable_running());
  ToProto(stopped_ + (stopped_since_ != absl::InfiniteFuture()
                          ? Between(stopped_since_, until)
                          : absl::ZeroDuration()),
          summary.mutable_stopped());
  return summary;
}

}  // namespace rollcall
