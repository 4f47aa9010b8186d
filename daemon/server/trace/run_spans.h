// RunSpans: one run of a job, and the periods in it, as spans of OpenTelemetry.
// They are computed from the lines that the job logs:
//
//   span      from                        until
//   run       the run's first event       its end
//   recovery  a node is lost              the next world runs
//   notice    a notice                    its boundary: the end of the world
//   slow      steps have become slow      they are no longer, or the world ends
//
// Other events (worlds, losses, changes of facts, steps reached) are events of
// the run's span. All spans are children of the run's span.
//
// Bounded: at most kOpenMax periods at once; of the run's events the oldest are
// dropped, and counted. A daemon that starts again does not know the periods
// and events before.
//
// A value, pure. Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_TRACE_RUN_SPANS_H_
#define ROLLCALL_DAEMON_SERVER_TRACE_RUN_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/server/events/log_line.h"
#include "nlohmann/json_fwd.hpp"

namespace rollcall {

class RunSpans {
 public:
  static constexpr size_t kEventsMax = 128;
  static constexpr size_t kOpenMax = 64;

  // `began`: when the run began, by the wall clock; later than `wall_now`: now.
  // `now`: the monotonic clock, which measures all that follows.
  RunSpans(std::string job, std::string run, absl::Time began, absl::Time now,
           absl::Time wall_now);

  const std::string& run() const { return run_; }

  // The events of one Step of the job, in order. `runs`: a world runs after it.
  // Returns the spans that have ended, an OTLP/JSON line each.
  std::vector<std::string> Take(const std::vector<LogFields>& events, bool runs,
                                absl::Time now);

 private:
  struct Event {
    std::string name;
    absl::Time at;
    LogFields fields;
  };

  void TakeEvent(const std::string& name, const LogFields& fields,
                 absl::Time now);
  void Open(const char* name, const LogFields& fields, absl::Time now);
  // Ends the open periods of this name. `status`: a StatusCode; 0: unset.
  void Close(const std::string& name, int status, absl::Time now);
  std::string RunLine(const LogFields& end, absl::Time now) const;
  // With the ids of the run's span; Close replaces them.
  nlohmann::ordered_json Span(const std::string& name, absl::Time begin,
                              absl::Time end, const LogFields& fields,
                              int status) const;
  // The wall clock at a time of the monotonic clock.
  absl::Time Wall(absl::Time at) const { return wall_began_ + (at - began_); }

  std::string job_;
  std::string run_;
  absl::Time run_began_;
  absl::Time began_;
  absl::Time wall_began_;
  std::vector<Event> open_;
  std::deque<Event> events_;
  uint32_t events_dropped_ = 0;
  // The number of spans, for their ids.
  uint64_t spans_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_RUN_SPANS_H_
