// JobKeys: what a Job uses of the shell's keys.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_KEYS_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_KEYS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/core/network_plan/probing/probing.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Functions that use the shell's keys. They have no state.
struct JobKeys {
  // The value of Welcome.node_credential for the agent that sent this Hello.
  // Valid for Limits::credential_ttl from this call on.
  std::function<std::string(const std::string& run, const v1::Hello& hello,
                            uint64_t epoch)>
      credential;
  // The value of Commit.proof. Equal arguments give equal results, also after a
  // restart of the daemon. Empty: the daemon has no shared secret, and no other
  // daemon adopts its runs.
  std::function<std::string(const std::string& run, uint64_t generation,
                            const std::string& world_bytes,
                            const std::string& world_commit_bytes)>
      commit_proof;
  // The secrets of a round of probes or of the paired check: 16 bytes. Equal
  // arguments give equal results within one life of the daemon only. Empty:
  // probes prove no address, and no node is checked.
  Probing::Draw probe_secret;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_KEYS_H_
