// FormationSpans: how long each world of one job took to form, and in which
// phases, as spans of OpenTelemetry.
//
// A formation begins when the job begins to gather, or when its world ends, and
// ends with the commit of a world or with the job. It sees the job's state
// after each Step and reads no clock.
//
// A value, pure. Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_TRACE_FORMATION_SPANS_H_
#define ROLLCALL_DAEMON_SERVER_TRACE_FORMATION_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// One formation that has ended. Times are those of the wall clock at its
// beginning, plus what has passed since by the monotonic clock.
struct FormationTrace {
  struct Phase {
    // gather, probe, prepare or isolated.
    const char* name;
    // Of the proposal, in `prepare`; of the last world before it, otherwise.
    uint64_t generation;
    absl::Time begin;
    absl::Time end;
  };
  std::vector<Phase> phases;
  // Phases beyond kPhasesMax: their time is part of the formation's.
  size_t phases_left_out = 0;
  absl::Time begin;
  absl::Time end;
  // False: the job ended before a world was committed.
  bool formed = false;
};

class FormationSpans {
 public:
  static constexpr size_t kPhasesMax = 64;

  struct Seen {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    uint64_t generation = 0;
    // A round of probes is under way.
    bool probing = false;

    bool operator==(const Seen&) const = default;
  };

  // Returns the formation that has ended with this. Takes constant time if
  // nothing has changed. `now`: the monotonic clock.
  std::optional<FormationTrace> Note(const Seen& seen, absl::Time now,
                                     absl::Time wall_now);

 private:
  void EndPhase(absl::Time now);
  absl::Time Wall(absl::Time at) const { return wall_began_ + (at - began_); }

  Seen seen_;
  std::optional<FormationTrace> open_;
  absl::Time began_;
  absl::Time wall_began_;
  const char* phase_ = nullptr;
  uint64_t phase_generation_ = 0;
  absl::Time phase_began_;
};

// What the spans of a formation say besides.
struct FormationFacts {
  std::string job;
  std::string run;
  uint64_t generation = 0;
  size_t nodes = 0;
  uint32_t world_size = 0;
  // Why it began: the name of a ReasonCode as programs read it, and a text.
  std::string code;
  std::string reason;
};

// One line: an export request of traces in OTLP's JSON encoding, as the
// OpenTelemetry collector's file exporter writes and its file receiver reads.
// The trace is the run's, so that all its formations are in one; ids are
// digests of run, generation and time.
std::string OtlpLine(const FormationTrace& formation,
                     const FormationFacts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_FORMATION_SPANS_H_
