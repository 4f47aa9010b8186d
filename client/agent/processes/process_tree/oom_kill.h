// OomWatch: whether the kernel's OOM killer ended a rank.
//
// The kernel counts OOM kills for each memory cgroup (v2: oom_kill in
// memory.events, v1: in memory.oom_control). It counts before it sends SIGKILL.
// A rank that ended by SIGKILL counts as killed for memory if the count of its
// cgroup has grown since the rank was started. Others in that cgroup are
// counted too, so a rank that a person kills after another process was killed
// for memory is named wrongly.
//
// Ranks without a memory cgroup of their own share the agent's. Each counted
// kill then explains one rank (Explained).
//
// Thread rule: one thread at a time; the free functions are pure.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_OOM_KILL_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_OOM_KILL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

class OomWatch {
 public:
  // Watches the nearest memory cgroup at or above `folder`. Its count never
  // grows if there is none.
  static OomWatch At(const std::string& folder);

  // For a process in the cgroup v2 `own`, or in this process's own cgroup if
  // `own` is empty. In a hybrid hierarchy, this process's cgroup v1 of memory.
  static OomWatch ForProcessIn(const std::string& own);

  // The text of RankExited.out_of_memory if the count has grown; else empty.
  // `process_peak_bytes`: the most memory that one process of the rank had; 0:
  // unknown.
  std::string Explain(uint64_t process_peak_bytes) const;

  // A kill that was counted in `folder` has explained another rank.
  void Explained(const std::string& folder) {
    if (folder == folder_) ++kills_known_;
  }

  // Empty: there is no memory cgroup.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  uint64_t kills_known_ = 0;
};

// What is known of a cgroup in which a process was killed.
struct OomFacts {
  // The cgroup with the lowest limit at or above that of the process, or that
  // of the process if there is no limit.
  std::string folder;
  std::optional<uint64_t> limit_bytes;
  // The most memory that the cgroup used. Kernels before 5.19 do not record it
  // for cgroup v2.
  std::optional<uint64_t> peak_bytes;
  uint64_t process_peak_bytes = 0;
};

// "peak 511.9 MiB, limit 512 MiB (cgroup /sys/fs/cgroup/a); the rank's largest
// process had 300 MiB".
std::string OomText(const OomFacts& facts);

// The value of `key` in a file with lines "<key> <number>".
std::optional<uint64_t> CgroupCount(absl::string_view text,
                                    absl::string_view key);

// The number in memory.max, memory.peak or memory.limit_in_bytes. nullopt: no
// limit ("max", or v1's 2^63 less a page), or not a number.
std::optional<uint64_t> CgroupBytes(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_OOM_KILL_H_
