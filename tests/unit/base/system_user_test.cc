#include "daemon/base/processes/system_user.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "daemon/base/files/fd.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

using Entries = std::vector<std::string>;

TEST(FindSystemUser, Table) {
  const struct {
    const char* text;
    bool found;
    uid_t uid;
    gid_t gid;
    const char* name;
  } rows[] = {
      {"nobody", true, 65534, 65534, "nobody"},
      {"65534", true, 65534, 65534, "nobody"},
      {"65534:7", true, 65534, 7, ""},
      {"31337:31338", true, 31337, 31338, ""},
      {"31337:0", true, 31337, 0, ""},
      // This uid is not in the user database, so its group is unknown.
      {"31337", false, 0, 0, ""},
      {"no-such-user", false, 0, 0, ""},
      {"root", false, 0, 0, ""},
      {"0", false, 0, 0, ""},
      {"0:5", false, 0, 0, ""},
      {"", false, 0, 0, ""},
      {":", false, 0, 0, ""},
      {"1:", false, 0, 0, ""},
      {":1", false, 0, 0, ""},
      {"1:2:3", false, 0, 0, ""},
      {"nobody:7", false, 0, 0, ""},
      {"-1", false, 0, 0, ""},
      {"+1:1", false, 0, 0, ""},
      // The kernel reserves this value for "no id".
      {"4294967295:1", false, 0, 0, ""},
      {"1:4294967295", false, 0, 0, ""},
      {"4294967296:1", false, 0, 0, ""},
  };
  for (const auto& row : rows) {
    const auto user = FindSystemUser(row.text);
    EXPECT_EQ(user.ok(), row.found) << row.text;
    if (!user.ok()) {
      EXPECT_EQ(user.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    EXPECT_EQ(user->uid, row.uid) << row.text;
    EXPECT_EQ(user->gid, row.gid) << row.text;
    EXPECT_EQ(user->name, row.name) << row.text;
    EXPECT_EQ(user->groups.empty(), user->name.empty()) << row.text;
    EXPECT_EQ(user->home[0], '/') << row.text;
  }
}

TEST(SystemUser, IdsAreReadAsTheyAreWritten) {
  for (const std::vector<gid_t>& groups :
       {std::vector<gid_t>{}, std::vector<gid_t>{7},
        std::vector<gid_t>{7, 0, 31338}}) {
    const SystemUser user = {.uid = 31337, .gid = 31338, .groups = groups};
    const auto read = ParseIds(FormatIds(user));
    ASSERT_TRUE(read.has_value()) << FormatIds(user);
    EXPECT_EQ(read->uid, user.uid);
    EXPECT_EQ(read->gid, user.gid);
    EXPECT_EQ(read->groups, user.groups);
  }
  for (const char* bad : {"", "1", "1:2", "0:1:", "1:2:x", "1:2:3:4",
                          "a:1:", "1:2:-1", "4294967295:1:"}) {
    EXPECT_FALSE(ParseIds(bad).has_value()) << bad;
  }
}

TEST(SystemUser, ItsEnvironment) {
  const Entries before = {"HOME=/root",   "PATH=/bin",
                          "HOMES=x",      "USER=root",
                          "LOGNAME=root", "XDG_RUNTIME_DIR=/run/user/0"};
  const SystemUser named = {.name = "me", .uid = 1, .gid = 1, .home = "/h"};
  EXPECT_EQ(
      EnvironmentOf(named, before),
      (Entries{"PATH=/bin", "HOMES=x", "HOME=/h", "USER=me", "LOGNAME=me"}));
  const SystemUser number = {.uid = 1, .gid = 1};
  EXPECT_EQ(EnvironmentOf(number, before),
            (Entries{"PATH=/bin", "HOMES=x", "HOME=/"}));
}

class AsUserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }

  // Opens the file for reading, and returns 0 or an errno.
  int Try(const std::string& path) {
    return Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).open() ? 0 : errno;
  }

  const SystemUser user_ = {.uid = 31337, .gid = 31338, .groups = {31339}};
};

TEST_F(AsUserTest, FilesAreThatUsersAndNoOtherMayBeRead) {
  TempFolder folder;
  chmod(folder.path().c_str(), 0777);
  const struct {
    const char* name;
    uid_t uid;
    gid_t gid;
    mode_t mode;
    int error;
  } rows[] = {
      {"own", 31337, 0, 0600, 0},          {"group", 0, 31338, 0040, 0},
      {"groups", 0, 31339, 0040, 0},       {"all", 0, 0, 0004, 0},
      {"root", 0, 0, 0600, EACCES},        {"roots-group", 0, 0, 0660, EACCES},
      {"another", 31339, 0, 0600, EACCES},
  };
  for (const auto& row : rows) {
    const std::string path = folder / row.name;
    ASSERT_TRUE(Fd(open(path.c_str(), O_CREAT | O_CLOEXEC, 0600)).open());
    ASSERT_EQ(chown(path.c_str(), row.uid, row.gid), 0);
    ASSERT_EQ(chmod(path.c_str(), row.mode), 0);
  }
  const int groups_before = getgroups(0, nullptr);
  {
    const AsUser as(&user_);
    ASSERT_TRUE(as.ok());
    for (const auto& row : rows) {
      EXPECT_EQ(Try(folder / row.name), row.error) << row.name;
    }
    const std::string path = folder / "made";
    EXPECT_TRUE(Fd(open(path.c_str(), O_CREAT | O_CLOEXEC, 0600)).open());
  }
  // Everything is as before, and new files belong to the user.
  for (const auto& row : rows) EXPECT_EQ(Try(folder / row.name), 0) << row.name;
  EXPECT_EQ(getgroups(0, nullptr), groups_before);
  struct stat info;
  ASSERT_EQ(stat((folder / "made").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, user_.uid);
  EXPECT_EQ(info.st_gid, user_.gid);
  {
    const AsUser nobody(nullptr);
    EXPECT_TRUE(nobody.ok());
    EXPECT_EQ(Try(folder / "root"), 0);
  }
}

TEST_F(AsUserTest, TheUserCannotSignalWhoActs) {
  const pid_t parent = getpid();
  const AsUser as(&user_);
  ASSERT_TRUE(as.ok());
  const pid_t child = fork();
  if (child == 0) {
    if (BecomeUser(user_) != 0) _exit(2);
    _exit(kill(parent, 0) == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(AsUserTest, TheSignalForTheParentsEndStaysSet) {
  ASSERT_EQ(prctl(PR_SET_PDEATHSIG, SIGUSR1), 0);
  int during = 0;
  int after = 0;
  {
    const AsUser as(&user_);
    ASSERT_TRUE(as.ok());
    prctl(PR_GET_PDEATHSIG, &during);
  }
  prctl(PR_GET_PDEATHSIG, &after);
  prctl(PR_SET_PDEATHSIG, 0);
  EXPECT_EQ(during, SIGUSR1);
  EXPECT_EQ(after, SIGUSR1);
}

TEST_F(AsUserTest, AProcessOfAnotherUserIsKnownByItsIds) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int error = BecomeUser(user_);
    (void)!write(ready[1], &error, sizeof error);
    for (;;) pause();
  }
  int error = -1;
  ASSERT_EQ(read(ready[0], &error, sizeof error),
            static_cast<ssize_t>(sizeof error));
  EXPECT_EQ(error, 0);
  const auto user = OtherUserOf(child);
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(user->uid, user_.uid);
  EXPECT_EQ(user->gid, user_.gid);
  EXPECT_FALSE(OtherUserOf(getpid()).has_value());
  EXPECT_FALSE(OtherUserOf(0).has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace rollcall
