#include "client/admin/job_history.h"

#include <utility>

#include "client/admin/job_text.h"

namespace rollcall {
namespace {

constexpr size_t kGenerationsMax = 16;

}  // namespace

void JobHistory::Heard(const v1::JobStatus& status, absl::Time now) {
  steps_.Heard(status, now);
  const bool first = std::exchange(first_, false);
  // The world of an isolated daemon continues to run.
  const bool runs = status.state() == v1::JOB_STATE_RUNNING ||
                    status.state() == v1::JOB_STATE_ISOLATED;
  const bool another = !generations_.empty() &&
                       generations_.back().number != status.generation();
  if (!generations_.empty() && (another || !runs) &&
      generations_.back().ended == absl::InfiniteFuture()) {
    generations_.back().ended = now;
  }
  if (!runs) return;
  if (!generations_.empty() && !another) {
    // The generation continues: a daemon that was restarted reports it as
    // running again.
    generations_.back().ended = absl::InfiniteFuture();
    return;
  }
  const v1::Reform& reform = status.last_reform();
  generations_.push_back({.number = status.generation(),
                          .reason = reform.reason().empty()
                                        ? Word(reform.code())
                                        : reform.reason(),
                          .began = now,
                          .older = first});
  if (generations_.size() > kGenerationsMax) generations_.pop_front();
}

}  // namespace rollcall
