// LaunchRecord: what a launcher records about itself (`launch.json`, 0600, in
// its state folder), so that the next launcher can continue in its place.
//
// It contains no secret: tokens and keys are in separate files, and only a
// digest of the command is recorded.
//
// Thread rule: values; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_RECORD_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/spawn/hostfile.h"
#include "client/launch/takeover/known_process.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The part of the command line that the next launcher must repeat.
struct LaunchTerms {
  std::string job;
  v1::JobSettings settings;
  // The flag's text, before a free port was chosen.
  std::string listen;
  // The kind of TLS, as text; with a shared secret also the digest of its CA.
  std::string wire;
  // Name of the launcher's own agent; empty: none.
  std::string node;
  uint32_t local_workers = 0;
  // See LaunchOptions.
  std::vector<Host> hosts;
  // "FILE COMMAND" of --worker-template and --submit; empty: none.
  std::string submit;
  // Flags of every agent that is started there.
  std::vector<std::string> agent_flags;
  // In hex.
  std::string command_digest;
};

// The machine and namespace in which the processes of a launch run.
struct LaunchPlace {
  // Process ids are valid within one boot only.
  std::string boot_id;
  // The launcher is process 1 of its pid namespace (a container's entry point).
  // When it ends, the kernel kills every process of the namespace, and no
  // container is restarted before they are dead. In a record, the field is also
  // false if agents of an earlier launch of the run may still run elsewhere.
  bool process_one = false;
  // The state folder's lock file, which a launcher holds until its end. Within
  // one boot the same numbers mean the same file of the same mounted file
  // system, so only one launcher at a time can hold that lock. 0: unknown.
  uint64_t lock_device = 0;
  uint64_t lock_inode = 0;
};

// Why no process of a launch can still run. kUnknown: some may.
enum class LaunchEnd { kUnknown, kReboot, kNamespace };

struct AgentRecord {
  std::string name;
  bool own = false;
  ProcessId process;
};

struct LaunchRecord {
  LaunchTerms terms;
  // The job's name was made up, so the folder is removed with the job.
  bool ephemeral = false;
  // 0: the daemon had not listened yet.
  int port = 0;
  LaunchPlace place;
  ProcessId daemon;
  std::vector<AgentRecord> agents;
  // Names of ended agents of earlier launches. Kept until the daemon is told;
  // after that, agents of this launch may use the names.
  std::vector<std::string> gone;
};

// Whether a launcher at `now`, which holds the lock, knows that an earlier
// launch at `then` has ended. A different pid namespace alone proves nothing:
// the earlier launcher may have been killed alone, in a container that still
// runs. Pure.
LaunchEnd EndOf(const LaunchPlace& then, const LaunchPlace& now);

// Both are pure. FAILED_PRECONDITION (Parse): not a record, or a record of a
// newer rollcall.
std::string FormatLaunchRecord(const LaunchRecord& record);
absl::StatusOr<LaunchRecord> ParseLaunchRecord(const std::string& text);

// Writes all or nothing. Errors name the path and the system's error.
absl::Status WriteLaunchRecord(const std::string& folder,
                               const LaunchRecord& record);
// NOT_FOUND: there is no record. FAILED_PRECONDITION: as for ParseLaunchRecord;
// the message names the path.
absl::StatusOr<LaunchRecord> ReadLaunchRecord(const std::string& folder);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_RECORD_H_
