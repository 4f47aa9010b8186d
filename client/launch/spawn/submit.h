// Submit: fills in a worker template for each worker and runs the submit
// command with it (`rollcall submit`, hidden; a child of the launcher).
//
// It is a separate process, so that a slow scheduler does not delay the
// launcher.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_SUBMIT_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_SUBMIT_H_

#include <cstdint>
#include <string>

#include "client/launch/spawn/worker_template.h"

namespace rollcall {

struct SubmitOptions {
  // The file of the worker template.
  std::string file;
  // A program and its arguments, separated by spaces; the path of the filled-in
  // file takes the place of {}, or comes last.
  std::string command;
  // All values but NODE_RANK.
  TemplateValues values;
  // Workers 1 to `workers` are submitted, one after the other.
  uint32_t workers = 0;
  // The number that is enough for a run. Each worker that cannot be submitted
  // is named, and the next one is tried while enough workers are left.
  uint32_t workers_min = 0;
};

// Returns 0 if enough workers are submitted, else the exit code of the last
// command that failed; 69 if the command cannot be started or the template
// cannot be read; 128 and the signal if SIGTERM, SIGINT or SIGHUP came, which
// ends the command too. The filled-in files, which may hold a join string, are
// 0600 and removed after their command. Blocks.
int RunSubmit(const SubmitOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_SUBMIT_H_
