// Default state: the folder for state where no --state was given.
//
// The standard one lies below $XDG_STATE_HOME, else below ~/.local/state. Where
// it cannot be made (no home, or one that cannot be written, as in containers
// that run as a random user), the fallback takes its place: a folder of this
// user's own below TMPDIR, else /tmp. Its name is known, so that each command
// of this user on this machine finds it; one that another user has made is
// refused. Nothing here looks at a folder that --state names.
//
// Thread rule: any thread, while none changes the environment.
#ifndef ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_
#define ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

// What says where a user's state goes. Empty: not known.
struct StateOrigin {
  std::string xdg_state_home;
  std::string home;
  // In the user database.
  std::string user_home;
  std::string tmpdir;
  uid_t user = 0;
};
// Of this process.
StateOrigin ThisStateOrigin();

// The two folders below which state is kept, one folder a job.
struct StateRoots {
  // Empty: this user has no home.
  std::string standard;
  std::string fallback;
};
// A path that is not absolute is passed over. Pure.
StateRoots RootsOf(const StateOrigin& origin);

// What was found of one of them.
struct RootFound {
  // Why nothing can be kept there; empty: it can.
  std::string trouble;
  // It has state that may be gone on with.
  bool known = false;
};
enum class RootChoice { kStandard, kFallback, kNone };
// State that is known is gone on with, wherever it is; else the standard root
// is taken where it can be. Pure.
RootChoice ChooseRoot(const RootFound& standard, const RootFound& fallback);

struct DefaultState {
  std::string folder;
  // For the user, where it is not the standard one: both folders, why, and what
  // is lost; else empty.
  std::string notice;
};
// Where the state of `name` (a job, or rollcalld) goes. Makes the root, not the
// folder in it. `marks`: files of such a folder ("/journal.db"), any of which
// shows that it has state to go on with. FAILED_PRECONDITION: neither root can
// be used; says why of both, and what to do.
absl::StatusOr<DefaultState> MakeDefaultState(
    const StateRoots& roots, const std::string& name,
    const std::vector<std::string>& marks);

// The roots where this user's state may be found, the standard one first. A
// fallback that is missing or is not this user's alone is left out.
std::vector<std::string> RootsToSearch(const StateRoots& roots);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_
