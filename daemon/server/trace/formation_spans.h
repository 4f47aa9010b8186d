// FormationSpans: how long each world of one job took to form, and in which
// phases, as spans of OpenTelemetry.
//
// A formation begins when the job begins to gather, or when its world ends. It
// ends with the commit of a world or with the job. FormationSpans gets the
// job's state after each Step and reads no clock.
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

// One formation that has ended. A time is the wall clock at the beginning of
// the formation, plus the time since then on the monotonic clock.
struct FormationTrace {
  struct Phase {
    // gather, probe, prepare or isolated.
    const char* name;
    // In the phase `prepare`: the generation of the proposal; otherwise that of
    // the last world.
    uint64_t generation;
    absl::Time begin;
    absl::Time end;
  };
  std::vector<Phase> phases;
  // Number of phases beyond kPhasesMax. Their time is part of the formation's
  // time.
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
    // A round of probes is in progress.
    bool probing = false;

    bool operator==(const Seen&) const = default;
  };

  // Returns the formation that ends with this state; nullopt: none ends. Takes
  // constant time if nothing has changed. `now`: the monotonic clock.
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

// Further contents of a formation's spans.
struct FormationFacts {
  std::string job;
  std::string run;
  uint64_t generation = 0;
  size_t nodes = 0;
  uint32_t world_size = 0;
  // Why the formation began: the name of a ReasonCode (lower case, without
  // prefix), and a text.
  std::string code;
  std::string reason;
};

// Returns one line: see OtlpRequest. All formations of a run are in one trace,
// below the run's span (see RunSpans). Ids are digests of run, generation and
// time.
std::string OtlpLine(const FormationTrace& formation,
                     const FormationFacts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_TRACE_FORMATION_SPANS_H_
