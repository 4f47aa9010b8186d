// The node doctor: checks the facts of one node.
//
// Pure: facts in, findings out. It reads nothing from the system, repairs
// nothing, and does not compare nodes; the daemon, which has the facts of all
// nodes, compares them. If a check needs something that is not in the facts
// (what the node's name resolves to, whether a process can be started), it
// comes in as DoctorOptions.
//
// Facts are not trusted: any size or value in them is accepted, and none ends
// the process. The number of findings is bounded by the number of entries in
// the facts.
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

// The resolver's answer for the node's own host name.
struct OwnName {
  enum class Kind {
    kUnclear,   // No answer in time, or a temporary failure.
    kNotFound,  // The name does not exist.
    kFound,
  };
  std::string name;
  Kind kind = Kind::kUnclear;
  // kFound: all addresses of the name, as text.
  std::vector<std::string> addresses;
};

// The result of a trial: an action on this node that may fail.
struct Trial {
  std::string check;
  std::string subject;
  // What went wrong; empty: it worked.
  std::string error;
  // The severity of the finding if the trial failed.
  Severity severity = Severity::kFatal;
  std::string expected;
  std::string why;
  std::string mend;
};

// How far this node's clock differs from its daemon's.
struct DaemonClock {
  // This node's clock minus the daemon's; nullopt: unknown.
  std::optional<absl::Duration> offset;
  // The maximum error of `offset`, in either direction.
  absl::Duration error;
  // Why `offset` is unknown.
  std::string unknown_reason;
};

// The daemon read its clock, with the result `told`, at an unknown time between
// `asked` and `answered` of this node's clock. If we assume that it was in the
// middle of the two, the error is at most half of their distance.
DaemonClock CompareClocks(absl::Time asked, absl::Time told,
                          absl::Time answered);

struct DoctorOptions {
  // GPUs that the node had when its agent started; 0: unknown.
  uint32_t gpus_expected = 0;
  // nullopt: no daemon was asked.
  std::optional<DaemonClock> clock;
  // nullopt: the resolver was not asked.
  std::optional<OwnName> own_name;
  // RLIMIT_MEMLOCK does not apply to this process (see MayLockMemory).
  bool may_lock_memory = false;
  // The agent is connected to its daemon, so at least one of the node's
  // addresses works.
  bool daemon_reached = false;
  std::vector<Trial> trials;
};

// Runs all checks, in the order of their lists. Returns at least one finding
// for each check, and one for each trial.
std::vector<Finding> Diagnose(const v1::Facts& facts,
                              const DoctorOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_DOCTOR_H_
