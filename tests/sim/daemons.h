// Daemons: the daemon's side of a run, as its nodes, its faults and its end see
// it: one daemon of its own (Daemon), or several that share a store (Group).
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/job/job.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

// Where one of several daemons is reached, and which one it is.
std::string EndpointOf(uint32_t daemon);
uint32_t DaemonAt(const std::string& endpoint);

class Daemons {
 public:
  virtual ~Daemons() = default;

  // --- What befalls them -----------------------------------------------------

  // `daemon`: which of them; a daemon of its own is 0.
  virtual void Start(uint32_t daemon) = 0;
  virtual void Crash(Nanos back_after) = 0;
  // It dies and its journal is gone, the agents' worlds are not.
  virtual void LoseJournal(Nanos back_after) = 0;
  // After the job's end somebody launches another run of the same name, with
  // nothing of the first in its journal. False: the job goes on, or the daemon
  // stays, or has forgotten a run already.
  virtual bool LaunchAgain(Nanos back_after) = 0;
  // It dies, and its journal is one of an earlier time: a disk that was put
  // back, a backup.
  virtual void RollBack(Nanos back_after) = 0;
  // It handles nothing until then.
  virtual void Stall(Nanos until) = 0;
  virtual void BreakJournal(Nanos until) = 0;
  virtual void AskStop(int exit_code, bool now) = 0;
  virtual void AskDrain(const std::string& node, absl::Duration deadline) = 0;
  virtual void AskEvict(const std::string& node) = 0;
  // No fault from here on.
  virtual void Calm() = 0;

  // --- From the network and the clock ----------------------------------------

  // False: nobody listens there.
  virtual bool Take(StreamId stream, uint32_t node, Parcel& parcel) = 0;
  // Of a kind that is the daemons' own.
  virtual void OnWake(const Wake& wake) = 0;

  // --- What is seen of them --------------------------------------------------

  // Of the run, as the journal has it.
  virtual const JournalState& journal() const = 0;
  const std::optional<v1::End>& end() const { return journal().end; }
  // Whether the stream's agent attends.
  virtual bool Attends(StreamId stream) const = 0;
  // A daemon has the job, ended or not, and has not forgotten it.
  virtual bool HasJob() const = 0;
  // Of that job, for people.
  virtual std::string JobText() const = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_H_
