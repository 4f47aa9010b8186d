#include "daemon/core/job/history_recorder.h"

#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/status_words.h"

namespace rollcall {

void HistoryRecorder::Note(v1::JobState state, uint64_t generation,
                           const v1::Reform& reform, absl::Time now,
                           absl::Time wall_now) {
  if (!IsNew(state, generation)) return;
  if (state == v1::JOB_STATE_FORMING) {
    if (generation != generation_) {
      ++(*history_.mutable_formed())[Word(reform.code())];
    }
    if (state_ != v1::JOB_STATE_FORMING) forming_since_ = now;
  }
  if (state == v1::JOB_STATE_RUNNING && state_ == v1::JOB_STATE_FORMING) {
    const absl::Duration took = now - forming_since_;
    history_.set_commits(history_.commits() + 1);
    ToProto(took, history_.mutable_commit_time_last());
    ToProto(FromProto(history_.commit_time_total()) + took,
            history_.mutable_commit_time_total());
  }
  state_ = state;
  generation_ = generation;
  if (history_.changes_size() == kChangesMax) {
    history_.mutable_changes()->DeleteSubrange(0, 1);
  }
  v1::StateChange& change = *history_.add_changes();
  ToProto(wall_now, change.mutable_at());
  change.set_state(state);
  change.set_generation(generation);
  change.set_code(reform.code());
  change.set_reason(Printable(reform.reason(), kReasonBytesMax));
}

}  // namespace rollcall
