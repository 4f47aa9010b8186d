// RankCgroup: a cgroup v2 of their own for the ranks of one generation, where
// this machine lets us make one, so that the kernel itself can end all of them
// at once, wherever they have wandered.
//
// It sets no limits and touches no other cgroup. Most containers do not allow
// one; everything works without it, by sessions and environments (sweep.h).
//
// Thread rule: one thread at a time; the free functions from any.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_CGROUP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_CGROUP_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/fd.h"

namespace rollcall {

class RankCgroup {
 public:
  // Makes "<own cgroup>/<name>", or with a number behind it where that name is
  // taken. Nothing where no cgroup v2 with cgroup.kill can be made.
  static std::optional<RankCgroup> Make(const std::string& name);

  RankCgroup(RankCgroup&&) = default;
  RankCgroup& operator=(RankCgroup&&) = default;

  const std::string& folder() const { return folder_; }
  // Open for writing; a process that writes "0" to it moves in.
  int entrance() const { return entrance_.get(); }

 private:
  RankCgroup(std::string folder, Fd entrance)
      : folder_(std::move(folder)), entrance_(std::move(entrance)) {}

  std::string folder_;
  Fd entrance_;
};

// The folder of this process's own cgroup v2, from the texts of
// /proc/self/mountinfo and /proc/self/cgroup; empty: it has none in sight.
std::string OwnCgroupFolder(const std::string& mountinfo,
                            const std::string& cgroup);

// SIGKILL to all members, those of cgroups below too. False: not possible.
bool KillCgroup(const std::string& folder);

// All members, those of cgroups below too.
std::vector<pid_t> CgroupMembers(const std::string& folder);

// Removes it with those below. Waits up to a second for members that are
// already dying. False: somebody is still in it.
bool RemoveCgroup(const std::string& folder);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_CGROUP_H_
