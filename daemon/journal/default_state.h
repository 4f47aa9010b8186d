// Default state: the folder for state if --state is not given.
//
// The standard folder is below $XDG_STATE_HOME, else below ~/.local/state. If
// it cannot be created (no home, or a home that cannot be written, as in
// containers that run as a random user), a fallback is used: a folder of this
// user below TMPDIR, else /tmp. Its name is fixed, so that every command of
// this user on this machine finds it; a folder that another user has created is
// refused. This does not apply to a folder that --state names.
//
// Thread rule: any thread, while no thread changes the environment.
#ifndef ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_
#define ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

// The inputs that determine where a user's state is. Empty: unknown.
struct StateOrigin {
  std::string xdg_state_home;
  std::string home;
  // From the user database.
  std::string user_home;
  std::string tmpdir;
  uid_t user = 0;
};
// The inputs of this process.
StateOrigin ThisStateOrigin();

// The two folders below which state is kept, one folder per job.
struct StateRoots {
  // Empty: this user has no home.
  std::string standard;
  std::string fallback;
};
// Relative paths are ignored. Pure.
StateRoots RootsOf(const StateOrigin& origin);

// The result of checking one of the two roots.
struct RootFound {
  // Why no state can be kept below this root; empty: it can be kept.
  std::string trouble;
  // The root has state of a run that can continue.
  bool known = false;
};
enum class RootChoice { kStandard, kFallback, kNone };
// Returns a root that has state already, the standard one first. If neither
// has, returns the standard root if it can be used, else the fallback. Pure.
RootChoice ChooseRoot(const RootFound& standard, const RootFound& fallback);

struct DefaultState {
  std::string folder;
  // A message for the user if the fallback is used (both folders, the reason,
  // and what may be lost); else empty.
  std::string notice;
};
// The folder for the state of `name` (a job, or rollcalld). Creates the root,
// not the folder in it. `marks`: files of such a folder ("/journal.db"), any of
// which shows that it has state. FAILED_PRECONDITION: neither root can be used;
// the message says why, and what to do.
absl::StatusOr<DefaultState> MakeDefaultState(
    const StateRoots& roots, const std::string& name,
    const std::vector<std::string>& marks);

// The roots where this user's state may be, the standard one first. A fallback
// that is missing, or that other users can access, is left out.
std::vector<std::string> RootsToSearch(const StateRoots& roots);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_DEFAULT_STATE_H_
