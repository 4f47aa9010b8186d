// HostsFile: this agent's hand in a hosts file.
//
// The thin half: hosts_text says what the text becomes, edit_file how it gets
// there. What it adds is who the agent is and whether other agents live. One
// file may serve several agents: those of one job share a block and each is
// among its owners; the last to leave takes it out.
//
// An owner from before the machine's last boot is dead. One of this boot but of
// another pid namespace (another container) cannot be judged and is kept; the
// next run of the job replaces its block.
//
// Blocks; any thread that may.
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

// This process, as the owner of a block for the agent of `node`.
HostsOwner ThisOwner(const std::string& node);

// Whether the owner's process lives, as far as this process can tell; true
// where it cannot.
bool HostsOwnerLives(const HostsOwner& owner);

class HostsFile {
 public:
  explicit HostsFile(std::string path, EditFileOptions options = {});

  // Writes the names of the world into the block of its job, with `owner` as
  // one of its owners. Errors as EditFile's, plus INVALID_ARGUMENT for a world
  // whose job or run breaks the grammar; never a reason not to run. `names`
  // decides about bare names; warnings name what was left out. Safe to repeat.
  absl::Status Write(const v1::World& world, uint32_t node_rank,
                     const HostsNames& names, const HostsOwner& owner,
                     std::vector<std::string>* warnings);

  // The bare names that blocks of this job define now, in lower case; empty
  // where the file cannot be read. Takes no lock.
  std::set<std::string> NamesOf(const std::string& job) const;

  // The blocks that no living process owns: those of agents that were killed
  // with their guards, as at a power cut. Empty where the file cannot be read.
  // Takes no lock.
  std::vector<HostsBlock> DeadBlocks() const;

  // Takes those out. Where there is none, nothing is locked or written. Safe to
  // repeat.
  absl::Status RemoveDead(std::vector<std::string>* warnings);

  // Takes the owner off; the block goes with its last living one. Safe to
  // repeat.
  absl::Status Remove(const std::string& job, const std::string& run,
                      const HostsOwner& owner,
                      std::vector<std::string>* warnings);

  // The same of all blocks that have this owner, which may be dead: what its
  // guard does for an agent that was killed. Safe to repeat.
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
