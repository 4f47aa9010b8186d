// The digests of the files of --same.
#ifndef ROLLCALL_CLIENT_FACTS_SAME_FILES_H_
#define ROLLCALL_CLIENT_FACTS_SAME_FILES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Reads one regular file as a stream; blocks as long as its file system does.
// Never fails: if it cannot be read, `error` says why.
v1::SameFile ReadSameFile(const std::string& path);

// For a file that could not be read.
std::string SameFileWarning(const v1::SameFile& file);

// Why a node cannot use one of the files or folders; empty: it can use all.
std::string UnusableFileText(const std::vector<v1::SameFile>& files);

struct SameQuery {
  std::string path;
  // Runs in a copy of this process.
  std::function<v1::SameFile()> ask;
};

// Adds all answers. All are asked at the same time, each in a copy of this
// process, because a file system may not answer. Takes at most `timeout` plus
// one second. The process must have one thread. `user`: who must be able to use
// the files; null: this process's user.
void GatherSameFiles(const std::vector<SameQuery>& queries,
                     const SystemUser* user, absl::Duration timeout,
                     v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SAME_FILES_H_
