// A folder that all nodes should see (--shared). The launcher leaves a mark in
// it, a small file with random contents, before any agent starts; each agent
// reports the mark's digest, and the daemon compares them. Two folders with
// equal names on different file systems have different marks or none.
//
// An agent looks only after the mark is there, so an NFS client has no cached
// answer that it is missing.
#ifndef ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The path as in facts: it ends with one '/'.
std::string SharedFolderPath(const std::string& folder);

// Reads the mark of the job's launcher, then makes a file in the folder and
// removes it. Blocks as long as the file system does not answer. Never fails:
// `error` has what did not work.
v1::SameFile LookAtSharedFolder(const std::string& folder,
                                const std::string& job);

// The launcher's marks; they exist as long as this object.
class SharedMarks {
 public:
  // `keep`: marks that an earlier launcher of this run has left stay as they
  // are. FAILED_PRECONDITION: a folder cannot be written; no mark is left.
  static absl::StatusOr<SharedMarks> Make(
      const std::vector<std::string>& folders, const std::string& job,
      bool keep);
  ~SharedMarks();
  SharedMarks(SharedMarks&& other) noexcept = default;
  SharedMarks& operator=(SharedMarks&&) = delete;

 private:
  SharedMarks() = default;
  std::vector<std::string> paths_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_
