// A folder that all nodes should see (--shared). Its mark is a small file with
// random contents, `.rollcall-shared`: the first node that looks makes it,
// every node reports its digest, and the daemon compares them. Two folders of
// one path on different file systems have different marks. The mark stays: a
// folder keeps it for all jobs, so the order in which nodes and launchers start
// does not matter. A copy of a folder with its mark passes for the same folder.
#ifndef ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_

#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The path as in facts: it ends with one '/'.
std::string SharedFolderPath(const std::string& folder);

// Writes a file in the folder, which becomes the mark if there is none, and
// reads the mark. Blocks as long as the file system does not answer. Never
// fails: `error` has what did not work.
v1::SameFile LookAtSharedFolder(const std::string& folder);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SHARED_FOLDER_H_
