// Written folders: where a run on this node writes to, so that its facts have
// their free space, and a full one is told of before the run.
//
// Pure: no folder is looked at. Any thread.
#ifndef ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_
#define ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_

#include <string>
#include <vector>

#include "client/cli/flags.h"

namespace rollcall {

// Absolute paths, no path twice.
struct WrittenFolders {
  // Named for this run: --log-dir, --folder, and --checkpoints where the
  // command is rollcall-train.
  std::vector<std::string> named;
  // Where a command writes unless it is told otherwise: the working folder and
  // TMPDIR.
  std::vector<std::string> others;
};

// `here`: the working folder; empty: there is none, and relative paths stay.
// `environment`: "NAME=value" of the ranks.
WrittenFolders FindWrittenFolders(const LocalFlags& local,
                                  const std::vector<std::string>& command,
                                  const std::vector<std::string>& environment,
                                  const std::string& here);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_
