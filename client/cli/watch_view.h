// WatchView: `status --watch` on a terminal, a live view of a job on the full
// screen.
//
// The terminal is restored when the job ends, when the user or a signal ends
// the view, and while the view is stopped (Ctrl-Z). Only SIGKILL leaves it
// unrestored.
//
// Thread rule: Run blocks its caller; states arrive on gRPC's threads.
#ifndef ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_
#define ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_

#include "client/admin/admin_client.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// Whether stdout is a terminal that supports escape sequences.
bool CanWatchOnScreen();

// Shows the job until it ends, then prints its last state. `first`: its current
// state. Returns the exit code of the command.
int WatchOnScreen(AdminClient& client, const JobAddress& address,
                  v1::JobStatus first);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_
