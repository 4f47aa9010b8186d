// RankCgroup: a cgroup v2 for one rank, if this machine permits one, so that
// the kernel can end all its processes at once.
//
// It sets no limits and changes no other cgroup. Most containers do not permit
// one; then processes are found only by sessions and environments (sweep.h).
//
// Thread rule: one thread at a time; the free functions may be called from any
// thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_CGROUP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_CGROUP_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/files/fd.h"

namespace rollcall {

class RankCgroup {
 public:
  // Makes "<own cgroup>/<name>", with a number appended if that name is taken.
  // nullopt: no cgroup v2 with cgroup.kill can be made.
  static std::optional<RankCgroup> Make(const std::string& name);

  RankCgroup(RankCgroup&&) = default;
  RankCgroup& operator=(RankCgroup&&) = default;

  const std::string& folder() const { return folder_; }
  // A descriptor open for writing. A process that writes "0" to it moves into
  // the cgroup.
  int entrance() const { return entrance_.get(); }

 private:
  RankCgroup(std::string folder, Fd entrance)
      : folder_(std::move(folder)), entrance_(std::move(entrance)) {}

  std::string folder_;
  Fd entrance_;
};

// The folder of this process's own cgroup v2, from the texts of
// /proc/self/mountinfo and /proc/self/cgroup; empty: none is visible.
std::string OwnCgroupFolder(const std::string& mountinfo,
                            const std::string& cgroup);

// The same for the hierarchy of cgroup v1 that counts memory.
std::string OwnMemoryFolderV1(const std::string& mountinfo,
                              const std::string& cgroup);

// Sends SIGKILL to all members, including those of cgroups below. Returns false
// if the kernel does not permit it.
bool KillCgroup(const std::string& folder);

// All members, including those of cgroups below.
std::vector<pid_t> CgroupMembers(const std::string& folder);

// Removes the cgroup and those below. Waits up to a second for members that are
// dying. Returns false if it still has members.
bool RemoveCgroup(const std::string& folder);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_CGROUP_H_
