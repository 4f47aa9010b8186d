// Written folders: the folders that a run on this node writes to. Their free
// space is part of the facts, so that a full one is reported before the run.
//
// Pure: reads no folder. Any thread.
#ifndef ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_
#define ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_

#include <string>
#include <vector>

#include "client/cli/flags/flags.h"

namespace rollcall {

// Absolute paths, each once.
struct WrittenFolders {
  // Folders that were named for this run: --log-dir, --folder, and
  // --checkpoints if the command is rollcall-train.
  std::vector<std::string> named;
  // Folders to which a command writes by default: the working folder and
  // TMPDIR.
  std::vector<std::string> others;
};

// `here`: the working folder; empty: there is none, and relative paths stay
// relative. `environment`: the ranks' variables, as "NAME=value".
WrittenFolders FindWrittenFolders(const LocalFlags& local,
                                  const std::vector<std::string>& command,
                                  const std::vector<std::string>& environment,
                                  const std::string& here);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_WRITTEN_FOLDERS_H_
