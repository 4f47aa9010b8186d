// RankFolders: the files through which ranks of any language and their agent
// speak while they run: progress (theirs) and notice (ours), by the generation
// that the ranks were started for, since some live on.
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
#include "client/agent/core/agent.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/agent/node_files/run_folder.h"

namespace rollcall {

class RankFolders {
 public:
  // `folder` outlives it.
  explicit RankFolders(RunFolder& folder) : folder_(folder) {}

  // A generation has begun; folders that none of `waiting` knows go, and so
  // does what others were told in the one before.
  void Begin(uint64_t generation, const RankFiles& files,
             const std::vector<RankLife>& waiting);

  // Of each rank of this generation that has written to its progress file since
  // the last time: the step in it; the highest so far, where there is none.
  std::vector<RankProgressed> Sample();

  // Writes a notice for those ranks; for all where there are none. The first
  // error, though the other files are written.
  absl::Status WriteNotice(const std::vector<RankLife>& ranks,
                           const std::string& kind, absl::Duration deadline);

 private:
  RunFolder& folder_;
  uint64_t generation_ = 0;
  struct Progress {
    std::string file;
    // When it was written last, in nanoseconds; and how long it was then.
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
