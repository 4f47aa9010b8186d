// LaunchRecord: what a launcher writes down of itself (`launch.json`, 0600, in
// its state folder), so that one that is started again can go on in its place.
//
// It holds no secret: tokens and keys lie beside it, and of the command it has
// a digest alone.
//
// Thread rule: values; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_LAUNCH_RECORD_H_
#define ROLLCALL_CLIENT_LAUNCH_LAUNCH_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/known_process.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What the command line said, as far as it must say the same again.
struct LaunchTerms {
  std::string job;
  v1::JobSettings settings;
  // As given, before a free port was chosen.
  std::string listen;
  // How the wire is closed, in words; of a shared secret with its CA's digest.
  std::string wire;
  // Name of the launcher's own agent; empty: none.
  std::string node;
  uint32_t local_workers = 0;
  // Flags of every agent that is started there.
  std::vector<std::string> agent_flags;
  // In hex.
  std::string command_digest;
};

// Where the processes of a launch live.
struct LaunchPlace {
  // Process ids mean something within one boot only.
  std::string boot_id;
  // The launcher is process 1 of its pid namespace (a container's entry
  // point): when it ends, the kernel kills every process of the namespace, and
  // no container is started again before they are dead. In a record, false as
  // well where an earlier launch of the run may live elsewhere.
  bool process_one = false;
  // The state folder's lock file, which a launcher holds to its end. Within one
  // boot the same numbers are the same file of the same mounted file system, so
  // that a lock on it excludes all others. 0: not known.
  uint64_t lock_device = 0;
  uint64_t lock_inode = 0;
};

// Why none of a launch's processes can be alive. kUnknown: they may be.
enum class LaunchEnd { kUnknown, kReboot, kNamespace };

struct AgentRecord {
  std::string name;
  bool own = false;
  ProcessId process;
};

struct LaunchRecord {
  LaunchTerms terms;
  // The job's name was made up: its folder goes with it.
  bool ephemeral = false;
  // 0: the daemon had not listened yet.
  int port = 0;
  LaunchPlace place;
  ProcessId daemon;
  std::vector<AgentRecord> agents;
  // Names of agents of earlier launches that are gone, until the daemon is told
  // and agents of this launch may have the names.
  std::vector<std::string> gone;
};

// What is known of the processes of an earlier launch at `then`, by a launcher
// at `now` that holds the lock. Another pid namespace alone proves nothing: the
// earlier launcher may have been killed alone in a container that runs on.
// Pure.
LaunchEnd EndOf(const LaunchPlace& then, const LaunchPlace& now);

// Pure. Parse: FAILED_PRECONDITION: it is none, or one of a newer rollcall.
std::string FormatLaunchRecord(const LaunchRecord& record);
absl::StatusOr<LaunchRecord> ParseLaunchRecord(const std::string& text);

// All or nothing. Errors name the path and the system's reason.
absl::Status WriteLaunchRecord(const std::string& folder,
                               const LaunchRecord& record);
// NOT_FOUND: there is none. FAILED_PRECONDITION as Parse, naming the path.
absl::StatusOr<LaunchRecord> ReadLaunchRecord(const std::string& folder);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_RECORD_H_
