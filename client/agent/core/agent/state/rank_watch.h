// RankWatch: the watchdog's clock of one rank, and what is known of its stall.
//
// When the clock runs is decided in acts/watchdog. A rank whose clock has run
// out is examined: a linked rank is asked where it is, and the agent looks at
// its processes. The stall is reported once both are known.
//
// Invariants:
//   1. A stall is reported once on each stream, and only when the rank has
//      answered or its time to answer is over, and its processes were looked
//      at.
//   2. A stall ends when the clock stops or starts again.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_WATCH_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_WATCH_H_

#include <optional>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RankWatch {
 public:
  // The rank has linked or published a step. Returns whether that is its first
  // sign of life.
  bool Begin();
  bool begun() const { return begun_; }

  // The rank counts as stalled at `stalled_at` if it makes no progress.
  void Start(absl::Time stalled_at) {
    stalled_at_ = stalled_at;
    waited_ = false;
  }
  // No progress is expected, so a stall ends. Returns whether that stall was
  // reported on the current stream.
  bool Stop();
  // Progress is expected.
  bool runs() const { return stalled_at_ != absl::InfiniteFuture(); }

  // The deadlines move: the agent itself was delayed and has read nothing.
  void Delay(absl::Duration late);

  // The rank may have waited for a daemon that was away, so the clock runs out
  // later by `away`, and the first time also by `unnoticed`, but at `latest` at
  // the latest. A stall ends if the clock has time left then.
  void Waited(absl::Duration away, absl::Duration unnoticed, absl::Time latest,
              absl::Time now);

  // When the clock runs out, or the time to answer.
  absl::Time due() const {
    return stall_.has_value() ? stall_->answer_by : stalled_at_;
  }
  enum class Due {
    kNothing,
    kExamine,   // The clock has run out: call Stalled, and look at the rank.
    kNoAnswer,  // The rank has not answered in time.
  };
  Due Tick(absl::Time now);

  // The rank is stalled; `message` says which rank, where. `answer_by`: how
  // long it may take to answer; infinite: it is not asked.
  void Stalled(v1::RankStalled message, absl::Time answer_by);
  // The rank answers. Returns whether an answer was awaited.
  bool Answer(const RankIsHere& here);
  // Its processes were looked at. Returns whether the rank is stalled.
  bool Look(const RankLooked& looked);

  // Returns the stall if it is to be reported now on the current stream; null
  // otherwise.
  const v1::RankStalled* TakeReport();
  void NewStream();

 private:
  struct Stall {
    v1::RankStalled message;
    // Infinite: the rank has answered or is no longer awaited.
    absl::Time answer_by = absl::InfiniteFuture();
    bool looked = false;
    bool said = false;  // On the current stream.
  };

  bool begun_ = false;
  absl::Time stalled_at_ = absl::InfiniteFuture();
  bool waited_ = false;  // Since the clock was started.
  std::optional<Stall> stall_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_WATCH_H_
