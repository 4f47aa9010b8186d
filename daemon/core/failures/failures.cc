#include "daemon/core/failures/failures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

const v1::Member* MemberNamed(const v1::World& world, const std::string& node) {
  for (const v1::Member& member : world.members()) {
    if (member.node() == node) return &member;
  }
  return nullptr;
}

}  // namespace

void Failures::Open(const v1::World& world, const v1::RootCause& cause,
                    bool charged, absl::Time now, const Limits& limits) {
  window_ = Window{world, cause, now, charged, now + limits.lease};
  if (causes_.size() == Limits::causes_max) causes_.erase(causes_.begin());
  causes_.push_back(cause);
}

bool Failures::EndByRank(const v1::World& world, const v1::RootCause& cause,
                         bool permanent, absl::Time now, const Limits& limits) {
  // A command that cannot be executed will fail again. For other failures, the
  // rank reports whether they are permanent.
  const bool restart = charged_ < limits.max_restarts &&
                       cause.code() != v1::REASON_CODE_NOT_STARTED &&
                       !permanent;
  Open(world, cause, restart, now, limits);
  charged_ += restart;
  return restart;
}

void Failures::EndByLoss(const v1::World& world, const v1::RootCause& cause,
                         absl::Time now, const Limits& limits) {
  Open(world, cause, /*charged=*/false, now, limits);
}

std::optional<absl::Time> Failures::TakesChangesOf(const std::string& node,
                                                   absl::Time now) const {
  if (!window_.has_value() || now > window_->until ||
      window_->cause.node() != node) {
    return std::nullopt;
  }
  return window_->at;
}

v1::RootCause Failures::Replace(const v1::RootCause& cause, absl::Time now) {
  window_->at = now;
  causes_.back() = cause;
  return std::exchange(window_->cause, cause);
}

std::optional<v1::RootCause> Failures::TakeRank(const std::string& node,
                                                const v1::RankExited& exited,
                                                absl::Time now) {
  if (!IsInWindow(exited.generation(), now)) return std::nullopt;
  const v1::Member* member = MemberNamed(window_->world, node);
  if (member == nullptr) return std::nullopt;
  const v1::RootCause cause =
      CauseOfRank(node, member->first_rank() + exited.local_rank(), exited);
  if (Weight(cause) <= Weight(window_->cause)) return std::nullopt;
  return Replace(cause, now);
}

std::optional<v1::RootCause> Failures::TakeLoss(const std::string& node,
                                                v1::ReasonCode code,
                                                const std::string& reason,
                                                absl::Time now) {
  if (!window_.has_value() || now > window_->until ||
      IsLostNode(window_->cause) ||
      MemberNamed(window_->world, node) == nullptr) {
    return std::nullopt;
  }
  if (std::exchange(window_->charged, false) && charged_ > 0) --charged_;
  return Replace(
      CauseOfLostNode(node, code, reason, window_->world.generation()), now);
}

v1::End Failures::EndOf(const Limits& limits) const {
  const v1::RootCause& cause = window_->cause;
  v1::End end;
  end.set_exit_code(ExitCodeOf(cause));
  const bool used_up =
      limits.max_restarts > 0 && charged_ >= limits.max_restarts;
  end.set_code(used_up ? v1::REASON_CODE_RESTART_BUDGET : cause.code());
  end.set_reason(used_up ? absl::StrCat(Describe(cause), "; ", charged_,
                                        " restarts of ", limits.max_restarts,
                                        " are used up")
                         : Describe(cause));
  return end;
}

}  // namespace rollcall
