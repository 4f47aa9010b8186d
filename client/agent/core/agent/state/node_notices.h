// NodeNotices: the latest notice for the running generation, how long its plain
// ranks may take, and whether the daemon knows that all ranks have stopped.
//
// It does not know the ranks: the caller says when they have stopped.
//
// Invariants:
//   1. Notices take effect in the order of their numbers, each once.
//   2. NoticeSeen is sent once for a notice on each stream, and again if the
//      daemon repeats the notice.
//   3. The ranks are killed once for a notice.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_NODE_NOTICES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_NODE_NOTICES_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace rollcall {

class NodeNotices {
 public:
  // A notice names this node as one that leaves.
  void Drain() { drained_ = true; }
  bool drained() const { return drained_; }  // In this agent's life.

  // Takes a notice of the running generation. Returns false if it is the latest
  // one again, or an older one.
  bool Take(uint64_t number) {
    if (latest_.has_value() && number <= latest_->number) {
      if (number == latest_->number) latest_->said = false;
      return false;
    }
    latest_ = Latest{number};
    return true;
  }

  // Plain ranks are to be killed at `kill_at`. Requires Take.
  void LimitTo(absl::Time kill_at) { latest_->kill_at = kill_at; }

  // The generation has ended, and its notice with it.
  void End() { latest_.reset(); }

  // NoticeSeen is to be sent once all ranks have stopped.
  bool owes_seen() const { return latest_.has_value() && !latest_->said; }
  // It is sent. Requires owes_seen(). Returns the notice's number.
  uint64_t Seen() {
    latest_->said = true;
    return latest_->number;
  }
  void NewStream() {
    if (latest_.has_value()) latest_->said = false;
  }

  // When ranks that are not elastic are to be killed.
  absl::Time due() const {
    return latest_.has_value() && !latest_->over ? latest_->kill_at
                                                 : absl::InfiniteFuture();
  }
  // Returns whether ranks that are not elastic are to be killed now.
  bool TakeDue(absl::Time now) {
    if (now < due()) return false;
    latest_->over = true;
    return true;
  }

  // The rest of `grace` for ranks that were signalled for the notice: they have
  // already used part or all of it. nullopt: there is no notice.
  std::optional<absl::Duration> GraceLeft(absl::Duration grace,
                                          absl::Time now) const {
    if (!latest_.has_value()) return std::nullopt;
    return std::clamp(latest_->kill_at - now, absl::ZeroDuration(), grace);
  }

 private:
  struct Latest {
    uint64_t number = 0;
    absl::Time kill_at = absl::InfiniteFuture();
    bool over = false;  // These ranks were killed.
    bool said = false;  // NoticeSeen was sent.
  };

  std::optional<Latest> latest_;
  bool drained_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_NODE_NOTICES_H_
