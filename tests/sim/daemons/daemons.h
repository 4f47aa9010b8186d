// Daemons: the daemon side of a run, as the nodes, the faults and the checks of
// the run's end use it. It is a single daemon (Daemon) or several that share a
// store (Group).
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_DAEMONS_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_DAEMONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/job/job.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

// The endpoint of one of several daemons, and the number of the daemon at an
// endpoint.
std::string EndpointOf(uint32_t daemon);
uint32_t DaemonAt(const std::string& endpoint);

class Daemons {
 public:
  virtual ~Daemons() = default;

  // --- Faults and requests ---------------------------------------------------

  // `daemon`: its number; a single daemon has number 0.
  virtual void Start(uint32_t daemon) = 0;
  virtual void Crash(Nanos back_after) = 0;
  // The daemon dies and loses its journal. The agents keep their worlds.
  virtual void LoseJournal(Nanos back_after) = 0;
  // Launches another run of the same name after the job's end, with nothing of
  // the first run in its journal. Returns false if the job still runs, the
  // daemon is a standing one, or it has forgotten a run already.
  virtual bool LaunchAgain(Nanos back_after) = 0;
  // The daemon dies, and its journal is put back to an earlier state, as from a
  // backup.
  virtual void RollBack(Nanos back_after) = 0;
  // The daemon handles nothing until `until`.
  virtual void Stall(Nanos until) = 0;
  virtual void BreakJournal(Nanos until) = 0;
  virtual void AskStop(int exit_code, bool now) = 0;
  virtual void AskDrain(const std::string& node, absl::Duration deadline) = 0;
  virtual void AskEvict(const std::string& node) = 0;
  // Ends all faults; none follow.
  virtual void Calm() = 0;

  // --- From the network and the clock ----------------------------------------

  // Returns false if no daemon listens there.
  virtual bool Take(StreamId stream, uint32_t node, Parcel& parcel) = 0;
  // Handles a wake-up of one of the daemons' own kinds.
  virtual void OnWake(const Wake& wake) = 0;

  // --- What others see of the daemons ----------------------------------------

  // The journal of the run.
  virtual const JournalState& journal() const = 0;
  const std::optional<v1::End>& end() const { return journal().end; }
  // Whether the agent of the stream attends.
  virtual bool Attends(StreamId stream) const = 0;
  // True while a daemon has the job, also one that has ended, and has not
  // forgotten it.
  virtual bool HasJob() const = 0;
  // The job's state, as text for people.
  virtual std::string JobText() const = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_DAEMONS_H_
