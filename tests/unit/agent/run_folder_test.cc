#include "client/agent/node_files/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/left_processes.h"
#include "daemon/base/files/fd.h"
#include "tests/unit/agent/run_folder_fixture.h"

namespace rollcall {
namespace {

TEST_F(RunFolderTest, IsPrivateAndGoesWithItsOwner) {
  std::string path;
  {
    auto folder = RunFolder::Make(parent_);
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = (*folder)->path();
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunFolderTest, AnotherUsersRanksReachItsFilesAndNoMore) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const SystemUser user = {.uid = 31337, .gid = 31338};
  const auto folder =
      RunFolder::Make(parent_, "", "", absl::ZeroDuration(), nullptr, &user);
  ASSERT_TRUE(folder.ok()) << folder.status();
  // The folder is in /tmp, because that user may have no access to `parent_`.
  EXPECT_EQ((*folder)->path().rfind("/tmp/rollcall-0-", 0), 0u);
  struct stat info;
  ASSERT_EQ(stat((*folder)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0710u);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_gid, user.gid);
}

TEST_F(RunFolderTest, OnlyASafeTmpServesAnotherUsersRanks) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr int kNoMount = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/tmp", "tmpfs", 0, "mode=0777") != 0) {
      _exit(kNoMount);
    }
    const SystemUser user = {.uid = 31337, .gid = 31338};
    const auto make = [&user] {
      return RunFolder::Make("", "", "", absl::ZeroDuration(), nullptr, &user)
          .status();
    };
    const absl::Status refused = make();
    if (!absl::IsFailedPrecondition(refused) ||
        !absl::StrContains(refused.message(), "0777")) {
      _exit(1);
    }
    // Ranks of the agent's own user gain nothing from an unsafe /tmp.
    if (!RunFolder::Make("").ok()) _exit(2);
    if (chmod("/tmp", 01777) != 0 || !make().ok()) _exit(3);
    if (chown("/tmp", user.uid, 0) != 0) _exit(kNoMount);
    _exit(absl::IsFailedPrecondition(make()) ? 0 : 4);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

TEST_F(RunFolderTest, EachGenerationsFolderIsTheRanksUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const SystemUser user = {.uid = 31337, .gid = 31338};
  const auto folder =
      RunFolder::Make(parent_, "", "", absl::ZeroDuration(), nullptr, &user);
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (int retries = 0; retries < 2; ++retries) {
    ASSERT_TRUE((*folder)->Add(3).ok());
  }
  struct stat info;
  const std::string path = (*folder)->path() + "/gen-3";
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(info.st_uid, user.uid);
  EXPECT_EQ(info.st_gid, user.gid);
  (*folder)->Remove(3);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A program that cleans /tmp may remove the folder.
TEST_F(RunFolderTest, OneThatIsGoneIsMadeAsAtFirst) {
  const bool root = geteuid() == 0;
  const SystemUser user = {.uid = 31337, .gid = 31338};
  for (const bool check_made_one : {false, true}) {
    const auto folder =
        RunFolder::Make(parent_, "job", "node", absl::ZeroDuration(), nullptr,
                        root ? &user : nullptr);
    ASSERT_TRUE(folder.ok()) << folder.status();
    const std::string path = (*folder)->path();
    (*folder)->RecordIncarnation("0123456789abcdef");
    ASSERT_TRUE((*folder)->Add(1).ok());
    std::filesystem::remove_all(path);
    // A node check may have made the folder again.
    if (check_made_one) {
      ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    }
    ASSERT_TRUE((*folder)->Add(2).ok());
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, root ? 0710u : 0700u);
    EXPECT_EQ(info.st_gid, root ? user.gid : getegid());
    EXPECT_TRUE(std::filesystem::exists(path + "/gen-2"));
    EXPECT_TRUE(std::filesystem::exists(path + "/lives"));
    // The agent lives, so the next agent leaves the folder alone.
    std::ofstream(path + "/agent.sock") << "";
    ASSERT_TRUE(RunFolder::Make(parent_, "job", "other").ok());
    EXPECT_TRUE(std::filesystem::exists(path + "/gen-2"));
    (*folder)->ForgetIncarnations();
    EXPECT_FALSE(std::filesystem::exists(path + "/lives"));
  }
}

class ReplacedTest : public RunFolderTest {
 protected:
  // Files that only root may change, named like files of the agent.
  ReplacedTest() {
    std::filesystem::create_directory(victim_);
    std::ofstream(victim_ + "/precious") << "precious";
    std::ofstream(victim_ + "/lives") << "theirs";
    std::filesystem::create_directory(victim_ + "/gen-1");
  }
  void ExpectUntouched() {
    struct stat info;
    ASSERT_EQ(stat(victim_.c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, geteuid());
    std::set<std::string> names;
    for (const auto& at : std::filesystem::directory_iterator(victim_)) {
      names.insert(at.path().filename());
    }
    EXPECT_EQ(names, (std::set<std::string>{"gen-1", "lives", "precious"}));
    std::string text;
    std::ifstream(victim_ + "/lives") >> text;
    EXPECT_EQ(text, "theirs");
  }
  // Everything that an agent does with its folder.
  static void Use(std::unique_ptr<RunFolder> folder, bool keeps_lives) {
    const absl::Status added = folder->Add(2);
    EXPECT_TRUE(absl::IsFailedPrecondition(added)) << added;
    EXPECT_TRUE(absl::StrContains(added.message(), folder->path())) << added;
    folder->RecordIncarnation("0123456789abcdef");
    folder->Remove(1);
    if (!keeps_lives) folder->ForgetIncarnations();
  }

  const std::string victim_ = parent_ + "/victim";
};

TEST_F(ReplacedTest, NothingIsDoneBehindALink) {
  for (const bool keeps_lives : {false, true}) {
    auto folder = RunFolder::Make(parent_);
    ASSERT_TRUE(folder.ok());
    const std::string path = (*folder)->path();
    std::filesystem::rename(path, parent_ + "/away");
    std::filesystem::create_directory_symlink(victim_, path);
    Use(*std::move(folder), keeps_lives);
    ExpectUntouched();
    std::filesystem::remove(path);
    std::filesystem::remove_all(parent_ + "/away");
  }
}

TEST_F(ReplacedTest, NothingIsDoneInAnotherUsersFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const SystemUser user = {.uid = 31337, .gid = 31338};
  auto folder =
      RunFolder::Make("", "", "", absl::ZeroDuration(), nullptr, &user);
  ASSERT_TRUE(folder.ok());
  const std::string path = (*folder)->path();
  std::filesystem::remove_all(path);
  std::filesystem::create_directory(path);
  for (const char* name : {"/gen-1", "/gen-2"}) {
    std::filesystem::create_directory_symlink(victim_, path + name);
  }
  ASSERT_EQ(chown(path.c_str(), user.uid, user.gid), 0);
  Use(*std::move(folder), false);
  ExpectUntouched();
  EXPECT_TRUE(std::filesystem::is_symlink(path + "/gen-2"));
  std::filesystem::remove_all(path);
}

// The paths are longer than PATH_MAX, and deeper than there are descriptors.
TEST_F(RunFolderTest, DeepFoldersAreRemoved) {
  auto folder = RunFolder::Make(parent_);
  ASSERT_TRUE(folder.ok());
  const std::string path = (*folder)->path();
  const std::string name(200, 'd');
  for (const char* top : {"/gen-1", "/gen-2"}) {
    ASSERT_EQ(mkdir((path + top).c_str(), 0700), 0);
    Fd at(open((path + top).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0700), 0);
      ASSERT_EQ(symlinkat("/", at.get(), "link"), 0);
      at = Fd(
          openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  (*folder)->Remove(1);
  EXPECT_FALSE(std::filesystem::exists(path + "/gen-1"));
  folder->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ReplacedTest, WhatIsLeftIsNotRecordedBehindALink) {
  const SweepResult result = {.left = {{.pid = 7, .start_ticks = 8}}};
  const std::string precious = victim_ + "/precious";
  std::filesystem::create_directory_symlink(victim_, parent_ + "/link");
  RecordLeft(parent_ + "/link", result);
  ExpectUntouched();
  const std::string folder = LeftBehind("rollcall-0123abcd");
  std::filesystem::create_symlink(precious, folder + "/left");
  RecordLeft(folder, result);
  EXPECT_EQ(std::filesystem::file_size(precious), 8u);
  std::filesystem::remove(folder + "/left");
  RecordLeft(folder, result);
  EXPECT_EQ(ReadLeft(folder).size(), 1u);
}

}  // namespace
}  // namespace rollcall
