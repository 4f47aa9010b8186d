// The node doctor: judges what a node says of itself.
//
// Pure: facts in, findings out. It looks at nothing by itself, mends nothing,
// and compares no nodes: what must agree between nodes is judged where the
// facts of all of them are. What a check needs and the facts do not have (what
// the node's name resolves to, whether a process can be started) comes in as
// DoctorOptions.
//
// Facts are what another program wrote: every size is taken as it is and no
// value of theirs ends the process. The number of findings is bounded by that
// of the facts' entries.
//
// Any thread.
#ifndef ROLLCALL_CLIENT_DOCTOR_DOCTOR_H_
#define ROLLCALL_CLIENT_DOCTOR_DOCTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/doctor/finding.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What the resolver said of the node's own host name.
struct OwnName {
  enum class Kind {
    kUnclear,   // No answer in time, or a temporary failure.
    kNotFound,  // The name does not exist.
    kFound,
  };
  std::string name;
  Kind kind = Kind::kUnclear;
  // kFound: all of its addresses, as text.
  std::vector<std::string> addresses;
};

// Something that was tried on this node, and how it ended.
struct Trial {
  std::string check;
  std::string subject;
  // What went wrong; empty: it worked.
  std::string error;
  // If it went wrong: as in Finding.
  Severity severity = Severity::kFatal;
  std::string expected;
  std::string why;
  std::string mend;
};

// How far this node's clock is from its daemon's.
struct DaemonClock {
  // This node's clock minus the daemon's; unset: not known.
  std::optional<absl::Duration> offset;
  // By how much `offset` may be wrong, at most, in either direction.
  absl::Duration error;
  // Why `offset` is not known.
  std::string unknown_reason;
};

// The daemon read its clock, `told`, at some moment between `asked` and
// `answered` of this node's clock: the middle of the two is wrong by half of
// their distance at most.
DaemonClock CompareClocks(absl::Time asked, absl::Time told,
                          absl::Time answered);

struct DoctorOptions {
  // GPUs that the node had when its agent started; 0: not known.
  uint32_t gpus_expected = 0;
  // Unset: no daemon was asked.
  std::optional<DaemonClock> clock;
  // Unset: the resolver was not asked.
  std::optional<OwnName> own_name;
  // RLIMIT_MEMLOCK does not bind this process (see MayLockMemory).
  bool may_lock_memory = false;
  // The agent is connected to its daemon, so one address is known to serve.
  bool daemon_reached = false;
  std::vector<Trial> trials;
};

// All checks, in the order of their list; at least one finding for each, and
// one for each trial.
std::vector<Finding> Diagnose(const v1::Facts& facts,
                              const DoctorOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_DOCTOR_H_
