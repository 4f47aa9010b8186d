// WatchView: `status --watch` on a terminal, a live view of a job on the full
// screen.
//
// The terminal is given back in every case but SIGKILL: at the end of the job,
// when the view is left by q or a signal, and while it is stopped (Ctrl-Z).
//
// Thread rule: Run blocks its caller; states arrive on gRPC's threads.
#ifndef ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_
#define ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_

#include "client/admin/admin_client.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// Whether stdout is a terminal that obeys escape sequences.
bool CanWatchOnScreen();

// Shows the job until it has ended, then prints its last state. `first`: its
// state now. Returns the exit code of the command.
int WatchOnScreen(AdminClient& client, const JobAddress& address,
                  v1::JobStatus first);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_WATCH_VIEW_H_
