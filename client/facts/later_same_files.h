// LaterSameFiles: reads the files of --same and looks at the folders of
// --shared once the set-up command has made them.
//
// They are read in copies of this process (see GatherSameFiles), and a copy can
// be made only while the process has one thread. So one copy is made at the
// start, which waits until it is told to read.
#ifndef ROLLCALL_CLIENT_FACTS_LATER_SAME_FILES_H_
#define ROLLCALL_CLIENT_FACTS_LATER_SAME_FILES_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/facts/same_files.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/child_process.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class LaterSameFiles {
 public:
  using Done = std::function<void(std::vector<v1::SameFile> files)>;

  // Makes the copy. The process must have one thread. `user`, `timeout`: see
  // GatherSameFiles. RESOURCE_EXHAUSTED: no process or pipe could be made.
  static absl::StatusOr<std::unique_ptr<LaterSameFiles>> Prepare(
      std::vector<SameQuery> queries, const SystemUser* user,
      absl::Duration timeout);
  // Cancels, and waits until `done` has been called, if `Read` was.
  ~LaterSameFiles();

  // Calls `done` once, on another thread, with an answer for each path: after
  // `timeout` and two seconds at most. Call it once.
  void Read(Done done);
  // The answer is no longer needed: `done` is called at once, with none. From
  // any thread.
  void Cancel();

 private:
  LaterSameFiles(ChildProcess copy, Fd go, Fd cancel,
                 std::vector<std::string> paths, absl::Duration timeout);
  std::vector<v1::SameFile> Answer();

  ChildProcess copy_;
  const Fd go_;      // A byte tells the copy to read.
  const Fd cancel_;  // Readable: cancelled.
  const std::vector<std::string> paths_;
  const absl::Duration timeout_;
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_LATER_SAME_FILES_H_
