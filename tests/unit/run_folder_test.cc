#include "client/agent/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace rollcall
