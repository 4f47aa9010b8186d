#include "client/agent/shared_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace rollcall {
namespace {

class SharedFolder : public testing::Test {
 protected:
  SharedFolder() {
    char path[] = "/tmp/shared-folder-XXXXXX";
    root_ = mkdtemp(path);
    std::filesystem::create_directory(root_ + "/one");
    std::filesystem::create_directory(root_ + "/two");
  }
  ~SharedFolder() override { std::filesystem::remove_all(root_); }

  std::string One() const { return root_ + "/one"; }
  std::string Two() const { return root_ + "/two"; }

  std::string root_;
};

TEST_F(SharedFolder, AllWhoSeeTheMarkReportTheSame) {
  const v1::SameFile a = LookAtSharedFolder(One());
  const v1::SameFile b = LookAtSharedFolder(One() + "/");
  EXPECT_EQ(a.error(), "");
  EXPECT_EQ(a.path(), One() + "/");
  EXPECT_EQ(a.sha256().size(), 32u);
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
  const v1::SameFile other = LookAtSharedFolder(Two());
  EXPECT_EQ(other.error(), "");
  EXPECT_NE(other.sha256(), a.sha256());
}

TEST_F(SharedFolder, NothingButTheMarkIsLeft) {
  LookAtSharedFolder(One());
  LookAtSharedFolder(One());
  const std::filesystem::directory_iterator files(One());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(std::filesystem::file_size(One() + "/.rollcall-shared"), 64u);
}

// Nodes look at the same time.
TEST_F(SharedFolder, TheFirstMarkIsTheOneThatAllRead) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  constexpr int kNodes = 16;
  for (int i = 0; i < kNodes; ++i) {
    if (fork() == 0) {
      const std::string digest = LookAtSharedFolder(One()).sha256();
      _exit(write(pipe_fds[1], digest.data(), digest.size()) == 32 ? 0 : 1);
    }
  }
  for (int i = 0; i < kNodes; ++i) {
    int status = 1;
    EXPECT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  const std::string expect = LookAtSharedFolder(One()).sha256();
  for (int i = 0; i < kNodes; ++i) {
    char digest[32];
    ASSERT_EQ(read(pipe_fds[0], digest, sizeof(digest)), 32);
    EXPECT_EQ(std::string(digest, sizeof(digest)), expect);
  }
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

// A read-only mount is in tests/e2e/nodes/sharing_test.py.
TEST_F(SharedFolder, AFolderThatCannotBeWrittenHasNoDigest) {
  for (const std::string& folder : {std::string("/proc"), root_ + "/none"}) {
    const v1::SameFile file = LookAtSharedFolder(folder);
    EXPECT_NE(file.error(), "") << folder;
    EXPECT_EQ(file.sha256(), "") << folder;
  }
  // The mark is a folder.
  std::filesystem::create_directory(Two() + "/.rollcall-shared");
  EXPECT_NE(LookAtSharedFolder(Two()).error(), "");
}

}  // namespace
}  // namespace rollcall
