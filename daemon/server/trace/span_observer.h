// SpanObserver: writes the spans of a loop's runs to a file: one line for each
// formation (OtlpLine) and for each period and run (RunSpans).
//
// The file is bounded (LineFile). A line that cannot be written (because the
// disk is full) is lost; that has no other effect.
//
// Thread rule: as LoopObserver.
#ifndef ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_
#define ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/server/events/event_log.h"
#include "daemon/server/events/line_file.h"
#include "daemon/server/loop/state/loop_observer.h"
#include "daemon/server/trace/formation_spans.h"
#include "daemon/server/trace/run_spans.h"

namespace rollcall {

class SpanObserver final : public LoopObserver {
 public:
  static constexpr char kFile[] = "/spans.jsonl";
  static constexpr char kOlderFile[] = "/spans.1.jsonl";
  static constexpr size_t kFileBytesMax = 8 << 20;

  // `folder`: where the files are. `events` says when a run began; it must
  // outlive the observer.
  SpanObserver(const std::string& folder, const EventLog& events);

  void TookUp(const Job& job, const std::vector<Action>& actions,
              absl::Time now) override;
  void AfterStep(const Job& job, const Event& event, absl::Time now,
                 const std::vector<Action>& actions) override;

 private:
  struct OfJob {
    FormationSpans formations;
    std::optional<RunSpans> run;
  };

  void See(const Job& job, const std::vector<Action>& actions, absl::Time now);
  void Write(const std::string& line);
  RunSpans Begin(const Job& job, absl::Time now) const;

  const EventLog& events_;
  LineFile file_;
  // By job; an entry is removed when its job has ended.
  std::map<std::string, OfJob> jobs_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_SPAN_OBSERVER_H_
