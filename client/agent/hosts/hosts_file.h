// HostsFile: this agent's edits of a hosts file.
//
// A thin layer: hosts_text makes the new text, edit_file writes it. This class
// adds who the agent is and whether other agents live. Several agents may use
// one file: the agents of one job share a block and each is one of its owners;
// the last one removes it.
//
// An owner from before the last boot is dead. An owner of this boot in another
// pid namespace (another container) cannot be judged; its block is kept until
// the next run of the job replaces it.
//
// Blocks. Any thread that may block.
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

// Whether the owner's process lives; true if this process cannot tell.
bool HostsOwnerLives(const HostsOwner& owner);

class HostsFile {
 public:
  explicit HostsFile(std::string path, EditFileOptions options = {});

  // Writes the names of the world into its job's block, with `owner` as one of
  // the owners. Errors: as EditFile, plus INVALID_ARGUMENT for a world whose
  // job or run breaks the grammar; no error should stop the run. `names`
  // decides about bare names; warnings list what was left out. Safe to repeat.
  absl::Status Write(const v1::World& world, uint32_t node_rank,
                     const HostsNames& names, const HostsOwner& owner,
                     std::vector<std::string>* warnings);

  // The bare names that this job's blocks define now, in lower case; empty if
  // the file cannot be read. Takes no lock.
  std::set<std::string> NamesOf(const std::string& job) const;

  // The blocks without a living owner: their agents were killed together with
  // their guards (a power cut, for example). Empty if the file cannot be read.
  // Takes no lock.
  std::vector<HostsBlock> DeadBlocks() const;

  // Removes those blocks. If there are none, nothing is locked or written. Safe
  // to repeat. Returns warnings, also about blocks that stay.
  std::vector<std::string> RemoveDead();

  // Removes the owner; the block is removed with its last living owner. Safe to
  // repeat.
  absl::Status Remove(const std::string& job, const std::string& run,
                      const HostsOwner& owner,
                      std::vector<std::string>* warnings);

  // The same for all blocks with this owner, which may be dead: the guard calls
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
