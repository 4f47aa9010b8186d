#include "client/agent/shared_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

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
  const auto marks = SharedMarks::Make({One()}, "demo", false);
  ASSERT_TRUE(marks.ok()) << marks.status();
  const v1::SameFile a = LookAtSharedFolder(One(), "demo");
  const v1::SameFile b = LookAtSharedFolder(One() + "/", "demo");
  EXPECT_EQ(a.error(), "");
  EXPECT_EQ(a.path(), One() + "/");
  EXPECT_EQ(a.sha256().size(), 32u);
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
  // Another folder, another job.
  EXPECT_NE(LookAtSharedFolder(Two(), "demo").error(), "");
  EXPECT_EQ(LookAtSharedFolder(Two(), "demo").sha256(), "");
  EXPECT_NE(LookAtSharedFolder(One(), "other").error(), "");
}

TEST_F(SharedFolder, NothingIsLeft) {
  {
    const auto marks = SharedMarks::Make({One(), Two()}, "demo", false);
    ASSERT_TRUE(marks.ok()) << marks.status();
    LookAtSharedFolder(One(), "demo");
    EXPECT_FALSE(std::filesystem::is_empty(One()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(One()));
  EXPECT_TRUE(std::filesystem::is_empty(Two()));
  EXPECT_FALSE(SharedMarks::Make({One(), root_ + "/none"}, "demo", false).ok());
  EXPECT_TRUE(std::filesystem::is_empty(One()));
}

TEST_F(SharedFolder, ANewRunHasAnotherMarkAndOneThatGoesOnTheSame) {
  auto first = SharedMarks::Make({One()}, "demo", false);
  ASSERT_TRUE(first.ok());
  const std::string before = LookAtSharedFolder(One(), "demo").sha256();
  const auto again = SharedMarks::Make({One()}, "demo", true);
  EXPECT_EQ(LookAtSharedFolder(One(), "demo").sha256(), before);
  const auto fresh = SharedMarks::Make({One()}, "demo", false);
  EXPECT_NE(LookAtSharedFolder(One(), "demo").sha256(), before);
}

// One that cannot be written is tested with a read-only mount, in
// tests/e2e/sharing_test.py.
TEST_F(SharedFolder, AFolderWithoutAMarkHasNoDigest) {
  for (const std::string& folder : {std::string("/proc"), root_ + "/none"}) {
    const v1::SameFile file = LookAtSharedFolder(folder, "demo");
    EXPECT_NE(file.error(), "") << folder;
    EXPECT_EQ(file.sha256(), "") << folder;
  }
}

}  // namespace
}  // namespace rollcall
