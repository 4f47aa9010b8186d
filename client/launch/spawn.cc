#include "client/launch/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

void SetAttributes(posix_spawnattr_t& attributes) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID |
                                            POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETSIGMASK);
}

void SetFiles(const SpawnOptions& options, posix_spawn_file_actions_t& files) {
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  if (!options.log_file.empty()) {
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO,
                                     options.log_file.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  if (options.inherited_fd >= 0) {
    // To itself: clears close-on-exec in the child alone.
    posix_spawn_file_actions_adddup2(&files, options.inherited_fd,
                                     options.inherited_fd);
  }
}

}  // namespace

absl::StatusOr<pid_t> SpawnSelf(const SpawnOptions& options) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), "rollcall");
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  SetAttributes(attributes);
  SetFiles(options, files);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, "/proc/self/exe", &files, &attributes,
                                 Pointers(arguments).data(),
                                 Pointers(options.environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start `rollcall ",
                     options.arguments.empty() ? "" : options.arguments.front(),
                     "`: ", strerror(failed)));
  }
  return pid;
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(wait_status));
  }
  return absl::StrCat("exited with code ", WEXITSTATUS(wait_status));
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

}  // namespace rollcall
