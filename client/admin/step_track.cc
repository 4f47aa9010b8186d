#include "client/admin/step_track.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rollcall {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(30);
// A shorter time does not give a reliable speed.
constexpr absl::Duration kSpeedAfter = absl::Seconds(2);
// Heartbeats carry the steps, about one in 1.7 s, so for that long a healthy
// node seems to make no step.
constexpr absl::Duration kStillAfter = absl::Seconds(10);
constexpr size_t kMovesMax = 256;
constexpr size_t kLossesMax = 512;

}  // namespace

void StepTrack::Heard(const v1::JobStatus& status, absl::Time now) {
  running_ = status.state() == v1::JOB_STATE_RUNNING;
  if (status.pace().steps() > 0) steps_ = status.pace().steps();
  const bool another =
      std::exchange(generation_, status.generation()) != status.generation();
  if (another || !running_) {
    // The time between two worlds must not count for the speed.
    moves_.clear();
    moved_at_ = now;
    nodes_.clear();
  }
  if (!running_ || status.step() == 0) return;
  TakeStep(status, now);
  TakeNodes(status, now);
}

void StepTrack::TakeStep(const v1::JobStatus& status, absl::Time now) {
  const uint64_t step = status.step();
  if (!moves_.empty() && moves_.back().step == step) return;
  // Ranks that restart from a checkpoint repeat steps.
  if (!moves_.empty() && moves_.back().step > step) moves_.clear();
  while (!moves_.empty() &&
         (now - moves_.front().at > kWindow || moves_.size() >= kMovesMax)) {
    moves_.pop_front();
  }
  moves_.push_back({step, now});
  moved_at_ = now;
  if (status.has_pace()) TakeLoss(status.pace().loss());
}

void StepTrack::TakeNodes(const v1::JobStatus& status, absl::Time now) {
  std::map<std::string, Moved> nodes;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() != v1::NODE_STATE_RUNNING || node.step() == 0) continue;
    const auto before = nodes_.find(node.node());
    const bool still =
        before != nodes_.end() && before->second.step == node.step();
    nodes[node.node()] = still ? before->second : Moved{node.step(), now};
  }
  nodes_ = std::move(nodes);
}

void StepTrack::TakeLoss(double loss) {
  if (!std::isfinite(loss)) return;
  if (++skipped_ < stride_) return;
  skipped_ = 0;
  if (losses_.size() == kLossesMax) {
    for (size_t i = 0; 2 * i < kLossesMax; ++i) losses_[i] = losses_[2 * i];
    losses_.resize(kLossesMax / 2);
    stride_ *= 2;
  }
  losses_.push_back(loss);
}

absl::Duration StepTrack::Left(absl::Time now) const {
  if (moves_.empty()) return absl::InfiniteDuration();
  const Moved& first = moves_.front();
  const Moved& last = moves_.back();
  if (steps_ < last.step || last.at - first.at < kSpeedAfter ||
      now - last.at >= kStillAfter) {
    return absl::InfiniteDuration();
  }
  const absl::Duration left = (last.at - first.at) *
                              static_cast<double>(steps_ - last.step) /
                              static_cast<double>(last.step - first.step);
  return std::max(left - (now - last.at), absl::ZeroDuration());
}

absl::Duration StepTrack::Stalled(absl::Time now) const {
  if (!running_ || moves_.empty()) return absl::ZeroDuration();
  const absl::Duration still = now - moved_at_;
  return still < kStillAfter ? absl::ZeroDuration() : still;
}

std::vector<std::string> StepTrack::Behind(absl::Time now) const {
  std::vector<std::string> behind;
  if (!running_ || now - moved_at_ >= kStillAfter) return behind;
  for (const auto& [name, moved] : nodes_) {
    if (now - moved.at >= kStillAfter) behind.push_back(name);
  }
  return behind;
}

}  // namespace rollcall
