// The format of rollcall's blocks in a hosts file: parsing and formatting.
//
// A managed block is the text between two marker lines, which name a job and
// its run. Blocks stand first in the file, and every other byte is kept.
// hosts_text changes the blocks. Pure; any thread.
//
//   # rollcall begin job=train run=5f0c generation=3 size=214
//   # rollcall owner pid=812 start=5512 boot=... pidns=4026531836 node=a
//   10.0.0.1 a node-0.train.rollcall
//   10.0.0.2 b node-1.train.rollcall
//   # rollcall end job=train run=5f0c
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_BLOCK_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_BLOCK_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rollcall {

// An agent that needs a block. If its boot id and pid namespace are those of
// this process, its pid and start time tell whether it still runs.
struct HostsOwner {
  int64_t pid = 0;
  // Field 22 of /proc/PID/stat: clock ticks after boot.
  uint64_t start_ticks = 0;
  std::string boot_id;
  uint64_t pid_namespace = 0;
  // The agent's node name: for readers of the file, and to distinguish several
  // agents in one process.
  std::string node;

  bool operator==(const HostsOwner&) const = default;
};

// The fields of a block's owner line, from `pid=` on.
std::string FormatHostsOwner(const HostsOwner& owner);
// Parses those fields; nullopt: some are missing or invalid.
std::optional<HostsOwner> ParseHostsOwner(absl::string_view text);

struct HostsBlock {
  std::string job;
  std::string run;
  uint64_t generation = 0;
  // The file did not exist before the block, so it is removed with the last
  // block.
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

// Never fails: text that is not a block is `rest`. A block whose end marker is
// missing gets only lines of a form that only rollcall writes, and a cut line
// at the very end of the file.
HostsText ParseHosts(absl::string_view text);
// The blocks in their order, then the rest.
std::string FormatHosts(const HostsText& hosts);

// The bare names that this job's blocks define, in lower case.
std::set<std::string> NamesInBlock(absl::string_view text,
                                   absl::string_view job);

// The functions below read or write parts of a line of a hosts file.

// Removes the next line, with its newline, from `text` and returns it.
absl::string_view TakeLine(absl::string_view& text);
// The address and the names, without the comment.
std::vector<absl::string_view> HostsWords(absl::string_view line);

// The name that every member has in its job's block.
std::string Alias(uint32_t node_rank, absl::string_view job);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_BLOCK_H_
