// SpanObserver: writes the spans of a loop's runs to a file: one line for each
// formation (OtlpLine) and for each period and run (RunSpans).
//
// The file is bounded: at kFileBytesMax it is renamed to NAME.1.jsonl, and
// replaces an older file of that name. A line that cannot be written (because
// the disk is full) is lost; that has no other effect.
//
// Thread rule: as LoopObserver.
#ifndef ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_
#define ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/server/events/event_log.h"
#include "daemon/server/loop/loop_observer.h"
#include "daemon/server/trace/formation_spans.h"
#include "daemon/server/trace/run_spans.h"

namespace rollcall {

class SpanObserver final : public LoopObserver {
 public:
  static constexpr size_t kFileBytesMax = 8 << 20;

  // `path` ends in .jsonl. Lines are appended to an existing file. `events`
  // says when a run began; it must outlive the observer.
  SpanObserver(const std::string& path, const EventLog& events);
  ~SpanObserver() override;

  void TookUp(const Job& job, const std::vector<Action>& actions,
              absl::Time now) override;
  void AfterStep(const Job& job, const Event& event, absl::Time now,
                 const std::vector<Action>& actions) override;

 private:
  class File;

  struct OfJob {
    FormationSpans formations;
    std::optional<RunSpans> run;
  };

  void See(const Job& job, const std::vector<Action>& actions, absl::Time now);
  RunSpans Begin(const Job& job, absl::Time now) const;

  const EventLog& events_;
  std::unique_ptr<File> file_;
  // By job; an entry is removed when its job has ended.
  std::map<std::string, OfJob> jobs_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_
