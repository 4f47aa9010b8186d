// RankFolders: the files through which an agent and ranks of any language
// communicate while they run: progress (written by ranks) and notice (written
// by the agent). They are kept by the generation for which a rank was started,
// because some ranks keep running in later worlds.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_FOLDERS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_FOLDERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/agent/node_files/run_folder.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

class RankFolders {
 public:
  // `folder` and `user` must outlive this object. `user`: the owner of the
  // files; null: this process's user.
  explicit RankFolders(RunFolder& folder, const SystemUser* user = nullptr)
      : folder_(folder), user_(user) {}

  // A generation has begun. Removes folders that no rank in `waiting` uses, and
  // notices of earlier generations.
  void Begin(uint64_t generation, const RankFiles& files,
             const std::vector<RankIncarnation>& waiting);

  // Returns each rank of this generation that has written its progress file
  // since the last call, with its step: the highest that the file has
  // contained.
  std::vector<RankProgressed> Sample();

  // Writes a notice for these ranks; for all ranks if the list is empty.
  // Returns the first error, but still writes the other files.
  absl::Status WriteNotice(const std::vector<RankIncarnation>& ranks,
                           const std::string& kind, absl::Duration deadline);

 private:
  RunFolder& folder_;
  const SystemUser* const user_;
  uint64_t generation_ = 0;
  struct Progress {
    std::string file;
    // Time of the last write, in nanoseconds, and the size at that time.
    int64_t written_ns = 0;
    int64_t size = 0;
    uint64_t step = 0;
  };
  static bool Read(Progress& progress);
  // By local rank.
  std::vector<Progress> progress_;
  std::map<uint64_t, std::string> notice_files_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_FOLDERS_H_
