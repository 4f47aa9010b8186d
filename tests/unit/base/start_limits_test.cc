#include "daemon/base/processes/start_limits.h"

#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

// A user who has no other processes on this machine.
constexpr uid_t kUser = 1234567;

// Runs CheckStartLimits in a child of this process after `prepare`. Returns its
// error, or "ok".
std::string SaidAfter(const std::function<bool()>& prepare) {
  int line[2];
  if (pipe(line) != 0) return "no pipe";
  const pid_t pid = fork();
  if (pid == 0) {
    const absl::Status status =
        prepare() ? CheckStartLimits() : absl::InternalError("not prepared");
    const std::string text = status.ok() ? "ok" : std::string(status.message());
    const bool wrote = write(line[1], text.data(), text.size()) ==
                       static_cast<ssize_t>(text.size());
    _exit(wrote ? 0 : 1);
  }
  close(line[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(line[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
  }
  close(line[0]);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0) << said;
  return said;
}

bool Limit(__rlimit_resource resource, rlim_t most) {
  const rlimit limit = {most, most};
  return setrlimit(resource, &limit) == 0;
}

TEST(StartLimits, AreEnoughHere) {
  EXPECT_EQ(SaidAfter([] { return true; }), "ok");
}

TEST(StartLimits, TooFewDescriptorsAreNamed) {
  for (const rlim_t most : {0, 3, 8, 16}) {
    const std::string said =
        SaidAfter([most] { return Limit(RLIMIT_NOFILE, most); });
    EXPECT_TRUE(absl::StrContains(
        said, "may have " + std::to_string(most) + " open (ulimit -n)"))
        << said;
  }
}

TEST(StartLimits, TooFewThreadsAreNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "takes another user, and so root";
  for (const rlim_t most : {1, 2, 8, 16}) {
    const std::string said = SaidAfter([most] {
      return Limit(RLIMIT_NPROC, most) && setgroups(0, nullptr) == 0 &&
             setuid(kUser) == 0;
    });
    EXPECT_TRUE(absl::StrContains(
        said, "limited to " + std::to_string(most) + " (ulimit -u)"))
        << said;
  }
  EXPECT_EQ(
      SaidAfter([] { return Limit(RLIMIT_NPROC, 64) && setuid(kUser) == 0; }),
      "ok");
}

}  // namespace
}  // namespace rollcall
