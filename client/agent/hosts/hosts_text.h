// The text of a hosts file, and how rollcall changes it.
//
// A managed block between two marker lines names a job and its run. Blocks come
// first in the file, and every other byte is kept. Pure: hosts_file does the
// reading, locking and writing. Any thread.
//
//   # rollcall begin job=train run=5f0c generation=3 size=214
//   # rollcall owner pid=812 start=5512 boot=... pidns=4026531836 node=a
//   10.0.0.1 a node-0.train.rollcall
//   10.0.0.2 b node-1.train.rollcall
//   # rollcall end job=train run=5f0c
//
// Invariants:
//   1. What is outside blocks comes out as it came in, to the byte.
//   2. One block a job. A write for another run of the job replaces it.
//   3. A block never goes back to an older generation of its run.
//   4. Each member has its alias; its bare name only where hosts_names allows
//      it.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/agent/hosts/hosts_names.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// An agent that needs a block. If boot id and pid namespace are this process's
// own, pid and start time tell whether it still lives.
struct HostsOwner {
  int64_t pid = 0;
  // Field 22 of /proc/PID/stat: clock ticks after boot.
  uint64_t start_ticks = 0;
  std::string boot_id;
  uint64_t pid_namespace = 0;
  // Its node name, for readers of the file, and to tell agents of one process
  // apart.
  std::string node;

  bool operator==(const HostsOwner&) const = default;
};

// The fields of a block's owner line, from `pid=` on.
std::string FormatHostsOwner(const HostsOwner& owner);
// nullopt: it is incomplete.
std::optional<HostsOwner> ParseHostsOwner(absl::string_view text);

using OwnerLives = std::function<bool(const HostsOwner&)>;

struct HostsBlock {
  std::string job;
  std::string run;
  uint64_t generation = 0;
  // The file did not exist before, so it is removed with the last block.
  bool created_file = false;
  std::vector<HostsOwner> owners;
  // Complete lines.
  std::string entries;
};

struct HostsText {
  std::vector<HostsBlock> blocks;
  // All bytes outside blocks.
  std::string rest;
  // A block had no end: an in-place write was cut off.
  bool damaged = false;
};

// Never fails: text that is not a block is `rest`. Of a block without an end,
// only lines that rollcall alone writes are taken, and a cut line at the very
// end of the file.
HostsText ParseHosts(absl::string_view text);
// The blocks in their order, then the rest.
std::string FormatHosts(const HostsText& hosts);

// The new text of a hosts file.
struct HostsChange {
  std::string text;
  // The file did not exist before and nothing is left in it.
  bool remove_file = false;
  std::vector<std::string> warnings;
};

// The bare names that this job's blocks define, in lower case.
std::set<std::string> NamesInBlock(absl::string_view text,
                                   absl::string_view job);

// Puts the world's block first, with `owner` among its owners; removes blocks
// of dead owners. `world.members[node_rank]` is this node; `hostname` is the
// machine's name; `names` decides about bare names. `created_file`: there was
// no file.
HostsChange WriteHostsBlock(absl::string_view text, bool created_file,
                            const v1::World& world, uint32_t node_rank,
                            absl::string_view hostname, const HostsNames& names,
                            const HostsOwner& owner, const OwnerLives& lives);

// Removes `owner` from the block of this job and run, and the block if no other
// owner lives; removes blocks of dead owners.
HostsChange RemoveHostsBlock(absl::string_view text, absl::string_view job,
                             absl::string_view run, const HostsOwner& owner,
                             const OwnerLives& lives);

// The same for all blocks that have this owner.
HostsChange RemoveHostsOwner(absl::string_view text, const HostsOwner& owner,
                             const OwnerLives& lives);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_TEXT_H_
