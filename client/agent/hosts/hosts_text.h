// The text of a hosts file, and how rollcall changes it.
//
// hosts_block defines the format of a block. hosts_file reads, locks and writes
// the file. Pure; any thread.
//
// Invariants:
//   1. Every byte outside blocks stays as it is.
//   2. A job has one block. A write for another run of the job replaces it.
//   3. A block never goes back to an older generation of its run.
//   4. Each member has its alias; its bare name only if hosts_names allows it.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/agent/hosts/hosts_block.h"
#include "client/agent/hosts/hosts_names.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

using OwnerLives = std::function<bool(const HostsOwner&)>;

// The new text of a hosts file.
struct HostsChange {
  std::string text;
  // The file did not exist before and nothing is left in it.
  bool remove_file = false;
  std::vector<std::string> warnings;
};

// Puts the world's block first, with `owner` among its owners, and removes
// blocks of dead owners. `world.members[node_rank]` is this node. `hostname`:
// the machine's name. `names` decides about bare names. `created_file`: the
// file did not exist.
HostsChange WriteHostsBlock(absl::string_view text, bool created_file,
                            const v1::World& world, uint32_t node_rank,
                            absl::string_view hostname, const HostsNames& names,
                            const HostsOwner& owner, const OwnerLives& lives);

// Removes `owner` from the block of this job and run, and the block if no other
// owner of it runs. Removes blocks of dead owners.
HostsChange RemoveHostsBlock(absl::string_view text, absl::string_view job,
                             absl::string_view run, const HostsOwner& owner,
                             const OwnerLives& lives);

// Does the same for all blocks that have this owner.
HostsChange RemoveHostsOwner(absl::string_view text, const HostsOwner& owner,
                             const OwnerLives& lives);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_
