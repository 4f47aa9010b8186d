#include "daemon/core/job/state/ending.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/durations.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

// Whether all members of the last world ran the same command and this node has
// another one.
bool HasOtherCommand(const Node& node,
                     const std::optional<v1::WorldCommit>& world_commit) {
  const std::string& own = node.hello.command_digest();
  return world_commit.has_value() && !world_commit->common_digest().empty() &&
         !own.empty() && own != world_commit->common_digest();
}

}  // namespace

void Ending::Begin(v1::End end, bool stops, absl::Time now,
                   const Limits& limits) {
  end_ = std::move(end);
  redial_until_ = now + limits.lease;
  attended_until_ =
      redial_until_ + (stops ? limits.stop_grace : absl::ZeroDuration());
  if (!end_->has_linger()) return;
  lingers_until_ = now + FromProto(end_->linger());
  attended_until_ += FromProto(end_->linger()) + limits.stop_grace;
}

bool Ending::StopAgain(bool now) {
  const bool lingers = end_->has_linger();
  const bool kills = now && !end_->now();
  if (!lingers && !kills) return false;
  end_->clear_linger();
  if (kills) end_->set_now(true);
  return true;
}

// A spare that never had a seat exits 0. But if the job finished with another
// command, this node's own command has not run, so the node fails.
v1::End Ending::For(const Node& node, bool excluded,
                    const std::optional<v1::WorldCommit>& world_commit,
                    bool knows_all_worlds, absl::Time now) const {
  v1::End end = *end_;
  // The time that remains at this moment, also if the agent learns of the end
  // late.
  if (end.has_linger()) ToProto(LingerLeft(now), end.mutable_linger());
  if (node.served_in != 0 || excluded) return end;
  // The node was in a world before the daemon was restarted, and this daemon
  // has not seen that world.
  if (!knows_all_worlds && node.hello.generation_seen() != 0) return end;
  if (end.finished() && HasOtherCommand(node, world_commit)) {
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

absl::Duration Ending::LingerLeft(absl::Time now) const {
  return std::max(lingers_until_ - now, absl::ZeroDuration());
}

absl::Time Ending::WaitsUntil(bool streams) const {
  return streams ? attended_until_ : std::min(attended_until_, redial_until_);
}

bool Ending::Forget(bool attached, bool streams, absl::Time now) {
  if (!end_.has_value() || forgotten_) return false;
  forgotten_ = !attached || now >= WaitsUntil(streams);
  return forgotten_;
}

}  // namespace rollcall
