#include "client/agent/core/agent/state/rank_watch.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {

bool RankWatch::Begin() { return !std::exchange(begun_, true); }

bool RankWatch::Stop() {
  stalled_at_ = absl::InfiniteFuture();
  const std::optional<Stall> stall = std::exchange(stall_, std::nullopt);
  return stall.has_value() && stall->said;
}

void RankWatch::Delay(absl::Duration late) {
  stalled_at_ += late;
  if (stall_.has_value()) stall_->answer_by += late;
}

void RankWatch::Waited(absl::Duration away, absl::Duration unnoticed,
                       absl::Time latest, absl::Time now) {
  if (!std::exchange(waited_, true)) away += unnoticed;
  const absl::Time stalled_at = std::min(stalled_at_ + away, latest);
  if (stalled_at <= now) return;
  stalled_at_ = stalled_at;
  stall_.reset();
}

RankWatch::Due RankWatch::Tick(absl::Time now) {
  if (now < due()) return Due::kNothing;
  if (!stall_.has_value()) return Due::kExamine;
  stall_->answer_by = absl::InfiniteFuture();
  stall_->message.set_answered(false);
  return Due::kNoAnswer;
}

void RankWatch::Stalled(v1::RankStalled message, absl::Time answer_by) {
  stall_ = Stall{.message = std::move(message), .answer_by = answer_by};
}

bool RankWatch::Answer(const RankIsHere& here) {
  if (!stall_.has_value() || stall_->answer_by == absl::InfiniteFuture()) {
    return false;
  }
  stall_->answer_by = absl::InfiniteFuture();
  v1::RankStalled& message = stall_->message;
  message.set_answered(true);
  if (here.collective_entered.has_value()) {
    // A program may report any numbers; they must not make the message invalid.
    const uint64_t entered = *here.collective_entered;
    message.set_collective_entered(entered);
    if (here.collective_left.has_value()) {
      message.set_collective_left(std::min(entered, *here.collective_left));
    }
  }
  return true;
}

bool RankWatch::Look(const RankLooked& looked) {
  if (!stall_.has_value()) return false;
  stall_->looked = true;
  v1::RankStalled& message = stall_->message;
  message.set_stopped(looked.stopped);
  message.set_nccl(looked.nccl);
  message.set_text(Printable(looked.text, Limits::stall_text_bytes_max));
  return true;
}

const v1::RankStalled* RankWatch::TakeReport() {
  if (!stall_.has_value() || stall_->said || !stall_->looked ||
      stall_->answer_by != absl::InfiniteFuture()) {
    return nullptr;
  }
  stall_->said = true;
  return &stall_->message;
}

void RankWatch::NewStream() {
  if (stall_.has_value()) stall_->said = false;
}

}  // namespace rollcall
