// The path of the socket to which ranks attach.
#include "client/agent/node_files/attach_socket.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"

namespace rollcall {
namespace {

class AttachSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/attach_socket.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Makes a socket at path_ on which this process listens.
  Fd Listen() {
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    EXPECT_EQ(listen(fd.get(), 1), 0);
    return fd;
  }

  absl::Status Take() { return AttachSocket::Take(path_, nullptr).status(); }

  std::string folder_;
  std::string path_;
};

TEST_F(AttachSocketTest, OneAgentHasIt) {
  auto taken = AttachSocket::Take(path_, nullptr);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(Take()));
  taken->reset();
  EXPECT_TRUE(Take().ok());
}

TEST_F(AttachSocketTest, TheSocketOfADeadAgentIsReplaced) {
  { const Fd dead = Listen(); }
  ASSERT_TRUE(std::filesystem::exists(path_));
  ASSERT_TRUE(Take().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(AttachSocketTest, ALivingOnesIsRefused) {
  const Fd living = Listen();
  const absl::Status taken = Take();
  EXPECT_TRUE(absl::IsFailedPrecondition(taken));
  EXPECT_TRUE(absl::StrContains(taken.message(), path_)) << taken;
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

TEST_F(AttachSocketTest, AnotherFileIsNotTouched) {
  std::ofstream(path_) << "mine";
  EXPECT_TRUE(absl::IsFailedPrecondition(Take()));
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(AttachSocketTest, AMissingFolderIsMadeForThisUserAlone) {
  path_ = folder_ + "/made/s";
  ASSERT_TRUE(Take().ok());
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/made").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  path_ = folder_ + "/no/such/s";
  EXPECT_TRUE(absl::IsFailedPrecondition(Take()));
}

TEST_F(AttachSocketTest, AFolderInWhichAllMayRenameIsRefused) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const absl::Status taken = Take();
  EXPECT_TRUE(absl::IsFailedPrecondition(taken));
  EXPECT_TRUE(absl::StrContains(taken.message(), "0777")) << taken;
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_TRUE(Take().ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  path_ = folder_ + "/made/s";
  EXPECT_TRUE(Take().ok());
}

TEST_F(AttachSocketTest, PathsThatNoSocketCanHave) {
  for (const std::string& path :
       {std::string(), std::string("s"), std::string("/tmp/"),
        "/" + std::string(107, 'a')}) {
    path_ = path;
    EXPECT_TRUE(absl::IsInvalidArgument(Take())) << path;
  }
}

}  // namespace
}  // namespace rollcall
