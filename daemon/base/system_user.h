// SystemUser: another user of this machine, as whom root's agent runs its ranks
// (--rank-user), and ways to act as that user.
//
// Thread rule: any thread. FindSystemUser may load modules of the user database
// (nsswitch.conf); call it before the process holds secrets.
#ifndef ROLLCALL_DAEMON_BASE_SYSTEM_USER_H_
#define ROLLCALL_DAEMON_BASE_SYSTEM_USER_H_

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

// `text`: NAME or UID of the user database, or UID:GID, which need not be in
// it. INVALID_ARGUMENT: any other text, an unknown user, or root. UNAVAILABLE:
// the user database does not answer.
absl::StatusOr<SystemUser> FindSystemUser(const std::string& text);

// "user NAME" or "user UID:GID", for messages.
std::string UserText(const SystemUser& user);

// Whether this process may run ranks as another user and reach their files.
// FAILED_PRECONDITION: it is not root, or lacks one of root's capabilities; the
// message names it.
absl::Status MayActAsOthers();

// `environment` ("NAME=value") with the user's HOME, USER and LOGNAME, and
// without XDG_RUNTIME_DIR, which is a folder of the caller.
std::vector<std::string> EnvironmentOf(
    const SystemUser& user, const std::vector<std::string>& environment);

// "UID:GID:GROUP,GROUP...", for the argv of a child. Parsing sets no name and
// no home; nullopt: another text.
std::string FormatIds(const SystemUser& user);
std::optional<SystemUser> ParseIds(const std::string& text);

// The user of a process, by its real ids; without name, groups and home.
// nullopt: this process is not root, or there is no such process, or it is
// root's too.
std::optional<SystemUser> OtherUserOf(pid_t pid);

// Turns this process, which has one thread, into the user for good, without a
// way to more privileges (no_new_privs). Returns 0 or an errno; then the
// process must end.
int BecomeUser(const SystemUser& user);

// While it exists, this thread uses files with the user's permissions: files
// that it makes are the user's, and it can be led to no file that the user may
// not use. The same goes for what it reads in /proc of the user's processes,
// for which root would need CAP_SYS_PTRACE. The user can neither signal nor
// trace this thread. The whole process is not dumpable afterwards.
//
// Do not nest it, and start no process or thread meanwhile.
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

  const bool changed_;
  bool ok_ = true;
  std::vector<gid_t> groups_before_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_SYSTEM_USER_H_
