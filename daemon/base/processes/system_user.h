// SystemUser: another user of this machine. root's agent can run its ranks as
// this user (--rank-user). Also functions to act as that user.
//
// Thread rule: any thread. FindSystemUser may load modules of the user database
// (nsswitch.conf); call it before the process holds secrets.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_SYSTEM_USER_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_SYSTEM_USER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

struct SystemUser {
  // Empty: the user database does not know the uid.
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  // Supplementary groups; contains `gid` if the user database knows the user.
  std::vector<gid_t> groups;
  std::string home = "/";
};

// `text`: NAME or UID from the user database, or UID:GID, which the database
// need not have. INVALID_ARGUMENT: any other text, an unknown user, or root.
// UNAVAILABLE: the user database does not answer.
absl::StatusOr<SystemUser> FindSystemUser(const std::string& text);

// "user NAME" or "user UID:GID", for messages.
std::string UserText(const SystemUser& user);

// Whether this process may run ranks as another user and reach their files.
// FAILED_PRECONDITION: it is not root, or lacks one of root's capabilities; the
// message names it.
absl::Status MayActAsOthers();

// `environment` ("NAME=value") with the user's HOME, USER and LOGNAME, and
// without XDG_RUNTIME_DIR, which names a folder of the caller.
std::vector<std::string> EnvironmentOf(
    const SystemUser& user, const std::vector<std::string>& environment);

// "UID:GID:GROUP,GROUP...", for the argv of a child. ParseIds sets neither name
// nor home; nullopt: `text` is not of this form.
std::string FormatIds(const SystemUser& user);
std::optional<SystemUser> ParseIds(const std::string& text);

// The user that a process runs as (its real ids), without name, groups and
// home. nullopt: this process is not root, the other process does not exist, or
// it also runs as root.
std::optional<SystemUser> OtherUserOf(pid_t pid);

// Makes this process, which must have only one thread, run as the user for
// good, without a way to more privileges (no_new_privs). Returns 0, or an
// errno; after an error the process must end.
int BecomeUser(const SystemUser& user);

// While it exists, this thread uses files with the user's permissions: files
// that it makes belong to the user, and no path can lead it to a file that the
// user may not use. The same goes for /proc files of the user's processes, for
// which root would need CAP_SYS_PTRACE. The user can neither signal nor trace
// this thread. Afterwards the whole process is not dumpable. The signal that
// this thread gets when its parent ends (PR_SET_PDEATHSIG) stays set.
//
// Do not nest it, and start no process or thread while it exists.
class AsUser {
 public:
  // Null: nothing changes.
  explicit AsUser(const SystemUser* user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

  // False: this process may not act as the user, and nothing was changed.
  bool ok() const { return ok_; }

 private:
  void Restore();
  void SetFlagsAgain();

  const bool changed_;
  bool ok_ = true;
  std::vector<gid_t> groups_before_;
  int death_signal_ = 0;
  pid_t parent_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_SYSTEM_USER_H_
