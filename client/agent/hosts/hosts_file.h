// HostsFile: this agent's edits of a hosts file.
//
// A thin layer: hosts_text makes the new text, edit_file writes it. This class
// identifies the agent and finds out which other agents run. Several agents may
// use one file: the agents of one job share a block, and each is one of its
// owners; the last one removes the block.
//
// An owner from an earlier boot is dead. For an owner of this boot in another
// pid namespace (another container) this process cannot tell; its block is kept
// until the next run of the job replaces it.
//
// Blocks, so call it from any thread but a loop thread.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_FILE_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_FILE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/hosts/edit_file.h"
#include "client/agent/hosts/hosts_names.h"
#include "client/agent/hosts/hosts_text.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// This process as a block owner, for the agent of `node`.
HostsOwner ThisOwner(const std::string& node);

// Whether the owner's process runs; true if this process cannot tell.
bool HostsOwnerLives(const HostsOwner& owner);

class HostsFile {
 public:
  explicit HostsFile(std::string path, EditFileOptions options = {});

  // Writes the names of the world into its job's block, with `owner` as one of
  // the owners. `names` decides about bare names; warnings list what was left
  // out. Errors: those of EditFile, and INVALID_ARGUMENT if the job, the run or
  // the owner's node name breaks the grammar. No error should stop the run.
  // Safe to repeat.
  absl::Status Write(const v1::World& world, uint32_t node_rank,
                     const HostsNames& names, const HostsOwner& owner,
                     std::vector<std::string>* warnings);

  // The bare names that this job's blocks define now, in lower case; empty if
  // the file cannot be read. Takes no lock.
  std::set<std::string> NamesOf(const std::string& job) const;

  // The blocks all of whose owners are dead: their agents were killed together
  // with their guards (a power cut, for example). Empty if the file cannot be
  // read. Takes no lock.
  std::vector<HostsBlock> DeadBlocks() const;

  // Removes those blocks. If there are none, takes no lock and writes nothing.
  // Safe to repeat. Returns warnings, also about blocks that could not be
  // removed.
  std::vector<std::string> RemoveDead();

  // Removes the owner from its block, and the block with its last living owner.
  // Safe to repeat.
  absl::Status Remove(const std::string& job, const std::string& run,
                      const HostsOwner& owner,
                      std::vector<std::string>* warnings);

  // Removes this owner from all blocks. The owner may be dead: the guard calls
  // it for an agent that was killed. Safe to repeat.
  absl::Status RemoveOwner(const HostsOwner& owner,
                           std::vector<std::string>* warnings);

 private:
  using MakeChange = std::function<HostsChange(const std::string& text)>;
  absl::Status TakeOut(const MakeChange& make,
                       std::vector<std::string>* warnings);

  const std::string path_;
  const EditFileOptions options_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_FILE_H_
