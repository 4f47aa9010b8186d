#include "client/agent/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/system.h"

namespace rollcall {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    char name[] = "/tmp/run-folder-test-XXXXXX";
    parent_ = mkdtemp(name);
  }
  ~RunFolderTest() override { std::filesystem::remove_all(parent_); }

  // A folder as an agent that was killed leaves it, last touched long ago.
  std::string LeftBehind(const std::string& name) {
    const std::string path = parent_ + "/" + name;
    std::filesystem::create_directories(path + "/gen-1");
    std::ofstream(path + "/gen-1/world.json") << "{}";
    const timeval old[2] = {{1000, 0}, {1000, 0}};
    EXPECT_EQ(utimes(path.c_str(), old), 0);
    return path;
  }

  // A process with this in its environment, which only a signal ends.
  static pid_t StartWith(std::string entry) {
    std::string words[] = {"sleep", "infinity"};
    char* argv[] = {words[0].data(), words[1].data(), nullptr};
    char* environment[] = {entry.data(), nullptr};
    pid_t pid = -1;
    EXPECT_EQ(
        posix_spawn(&pid, "/bin/sleep", nullptr, nullptr, argv, environment),
        0);
    return pid;
  }

  std::string parent_;
};

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

TEST_F(RunFolderTest, SweepsWhatKilledAgentsLeftAndNothingElse) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  const std::string foreign = LeftBehind("rollcall-notours");
  const std::string longer = LeftBehind("rollcall-0123abcd-more");
  std::filesystem::rename(foreign, parent_ + "/other-0123abcd");
  auto living = RunFolder::Make(parent_);
  ASSERT_TRUE(living.ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/other-0123abcd"));
  EXPECT_TRUE(std::filesystem::exists(longer));
  // Old, but its agent lives.
  const timeval old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimes((*living)->path().c_str(), old), 0);
  auto second = RunFolder::Make(parent_);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(std::filesystem::exists((*living)->path()));
}

TEST_F(RunFolderTest, EndsRanksThatNobodyIsLeftToEnd) {
  const std::string dead = parent_ + "/rollcall-0123abcd";
  std::filesystem::create_directories(dead);
  auto living = RunFolder::Make(parent_);
  ASSERT_TRUE(living.ok());
  // It has a socket, so its agent had the lock and is gone, however young.
  std::ofstream(dead + "/agent.sock") << "";
  std::ofstream((*living)->socket()) << "";
  const pid_t orphan = StartWith("ROLLCALL_SOCKET=" + dead + "/agent.sock");
  const pid_t rank = StartWith("ROLLCALL_SOCKET=" + (*living)->socket());
  auto second = RunFolder::Make(parent_);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
  int status = 0;
  EXPECT_EQ(waitpid(orphan, &status, 0), orphan);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(waitpid(rank, &status, WNOHANG), 0);
  kill(rank, SIGKILL);
  waitpid(rank, &status, 0);
}

std::string PidNamespace() {
  return std::filesystem::read_symlink("/proc/self/ns/pid").string();
}

TEST_F(RunFolderTest, TellsWhichLivesOfItsNodeAreGone) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  const std::string here = BootId() + " " + PidNamespace();
  std::ofstream(dead + "/lives")
      << "job node " << here << " a1\n"
      << "job node " << here
      << " b2\n"
      // Others' processes may still run: they could not be seen from here.
      << "job node " << BootId() << " pid:[1] c3\n"
      << "job other " << here << " d4\n"
      << "other node " << here << " e5\n"
      << "job node an-earlier-boot pid:[1] f6\n"
      << "job node " << here << " 0\n"
      << "no line of ours\n";
  std::ofstream(dead + "/agent.sock") << "";
  const auto folder = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->swept(), (std::vector<uint64_t>{0xa1, 0xb2, 0xf6}));
  EXPECT_FALSE(std::filesystem::exists(dead));
}

// Two nodes of one machine, both of whose agents were killed.
TEST_F(RunFolderTest, AnotherNodesLivesAreLeftToItsNextAgent) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  std::ofstream(dead + "/lives")
      << "job node " << BootId() << " " << PidNamespace() << " a1\n";
  {
    const auto other = RunFolder::Make(parent_, "job", "other");
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE((*other)->swept().empty());
  }
  EXPECT_FALSE(std::filesystem::exists(dead + "/gen-1"));
  const auto node = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)->swept(), (std::vector<uint64_t>{0xa1}));
  EXPECT_FALSE(std::filesystem::exists(dead));
  // Nobody asks for it for ever.
  const std::string old = LeftBehind("rollcall-4567abcd");
  std::ofstream(old + "/lives") << "job gone - - a1\n";
  const timeval long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimes((old + "/lives").c_str(), long_ago), 0);
  ASSERT_TRUE(RunFolder::Make(parent_, "job", "node").ok());
  EXPECT_FALSE(std::filesystem::exists(old));
}

// In a folder that others can write to, somebody else may have been first.
TEST_F(RunFolderTest, APipeInPlaceOfTheLockKeepsNobodyOut) {
  ASSERT_EQ(chmod(parent_.c_str(), 0777), 0);
  ASSERT_EQ(mkfifo((parent_ + "/rollcall-sweep.lock").c_str(), 0666), 0);
  EXPECT_TRUE(RunFolder::Make(parent_, "job", "node").ok());
}

TEST_F(RunFolderTest, ItsOwnLivesAreRead) {
  std::string copy;
  {
    const auto folder = RunFolder::Make(parent_, "job", "node");
    ASSERT_TRUE(folder.ok());
    (*folder)->RecordLife(7);
    (*folder)->RecordLife(7);
    (*folder)->RecordLife(8);
    copy = parent_ + "/rollcall-0123abcd";
    std::filesystem::create_directory(copy);
    std::filesystem::copy((*folder)->path() + "/lives", copy + "/lives");
  }
  std::ofstream(copy + "/agent.sock") << "";
  const auto next = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->swept(), (std::vector<uint64_t>{7, 8}));
}

// A rank's child that is another user's: as after sudo.
TEST_F(RunFolderTest, WhatCannotBeEndedKeepsTheNextAgentOut) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to have two users";
  constexpr uid_t kNobody = 65534;
  const std::string dead = parent_ + "/rollcall-0123abcd";
  std::filesystem::create_directory(dead);
  ASSERT_EQ(chown(parent_.c_str(), kNobody, kNobody), 0);
  std::ofstream(dead + "/lives")
      << "job node " << BootId() << " " << PidNamespace() << " a1\n";
  std::ofstream(dead + "/agent.sock") << "";
  ASSERT_EQ(chown(dead.c_str(), kNobody, kNobody), 0);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t child = fork();
    if (child == 0) {
      close(ready[1]);
      for (;;) pause();
    }
    if (write(ready[1], &child, sizeof child) < 0) _exit(1);
    if (setuid(kNobody) != 0) _exit(1);
    std::string entry = "ROLLCALL_SOCKET=" + dead + "/agent.sock";
    std::string words[] = {"sleep", "infinity"};
    char* argv[] = {words[0].data(), words[1].data(), nullptr};
    char* environment[] = {entry.data(), nullptr};
    execve("/bin/sleep", argv, environment);
    _exit(1);
  }
  pid_t child = -1;
  ASSERT_EQ(read(ready[0], &child, sizeof child), ssize_t{sizeof child});
  close(ready[1]);
  char none;
  ASSERT_EQ(read(ready[0], &none, 1), 0);  // Closed by its exec.
  close(ready[0]);
  const auto make_as_nobody = [&](const std::string& node) {
    const pid_t maker = fork();
    if (maker == 0) {
      if (setuid(kNobody) != 0) _exit(9);
      const auto folder =
          RunFolder::Make(parent_, "job", node, absl::Seconds(30));
      const bool named =
          absl::StrContains(folder.status().message(), absl::StrCat(child));
      _exit(folder.ok() ? 0 : named ? 1 : 2);
    }
    int status = -1;
    EXPECT_EQ(waitpid(maker, &status, 0), maker);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(make_as_nobody("node"), 1);
  EXPECT_TRUE(std::filesystem::exists(dead));
  kill(child, SIGKILL);
  kill(parent, SIGKILL);
  int status = 0;
  waitpid(parent, &status, 0);
  EXPECT_EQ(make_as_nobody("node"), 0);
  EXPECT_FALSE(std::filesystem::exists(dead));
}

}  // namespace
}  // namespace rollcall
