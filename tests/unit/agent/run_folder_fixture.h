// RunFolderTest: a parent of run folders, with what killed agents left in it.
#ifndef ROLLCALL_TESTS_UNIT_AGENT_RUN_FOLDER_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_AGENT_RUN_FOLDER_FIXTURE_H_

#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/time.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rollcall {

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    char name[] = "/tmp/run-folder-test-XXXXXX";
    parent_ = mkdtemp(name);
  }
  ~RunFolderTest() override { std::filesystem::remove_all(parent_); }

  // A folder that a killed agent left, last touched long ago.
  std::string LeftBehind(const std::string& name) {
    const std::string path = parent_ + "/" + name;
    std::filesystem::create_directories(path + "/gen-1");
    std::ofstream(path + "/gen-1/world.json") << "{}";
    const timeval old[2] = {{1000, 0}, {1000, 0}};
    EXPECT_EQ(utimes(path.c_str(), old), 0);
    return path;
  }

  // Starts a process with this entry in its environment. Only a signal ends it.
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_AGENT_RUN_FOLDER_FIXTURE_H_
