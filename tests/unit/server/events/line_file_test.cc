// LineFile: what is in the file after odd beginnings and at its bound.
#include "daemon/server/events/line_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace rollcall {
namespace {

class LineFileTest : public testing::Test {
 protected:
  LineFileTest() {
    char path[] = "/tmp/line_file_XXXXXX";
    folder_ = mkdtemp(path);
    path_ = folder_ + "/new";
    older_ = folder_ + "/older";
  }
  ~LineFileTest() override { std::filesystem::remove_all(folder_); }

  static std::string Text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
  std::string path_;
  std::string older_;
};

TEST_F(LineFileTest, EndsTheLineOfAKilledDaemon) {
  const struct {
    const char* before;
    const char* after;
  } rows[] = {
      {"", "new\n"},
      {"whole\n", "whole\nnew\n"},
      {"whole\ncu", "whole\ncu\nnew\n"},
  };
  for (const auto& row : rows) {
    std::ofstream(path_) << row.before;
    EXPECT_TRUE(LineFile(path_, older_, 99).Append("new\n"));
    EXPECT_EQ(Text(path_), row.after);
    std::filesystem::remove(path_);
  }
}

TEST_F(LineFileTest, OnlyItsOwnerReadsIt) {
  const mode_t before = umask(0);
  EXPECT_TRUE(LineFile(path_, older_, 99).Append("new\n"));
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(LineFileTest, AFullFileIsRenamed) {
  LineFile file(path_, older_, 12);
  for (const char* line : {"one\n", "two\n", "six\n"}) {
    EXPECT_TRUE(file.Append(line));
  }
  EXPECT_EQ(Text(path_), "one\ntwo\nsix\n");
  EXPECT_FALSE(std::filesystem::exists(older_));
  EXPECT_TRUE(file.Append("ten\n"));
  EXPECT_EQ(Text(older_), "one\ntwo\nsix\n");
  EXPECT_EQ(Text(path_), "ten\n");
}

// A limit on the size of files stands in for a full disk.
TEST_F(LineFileTest, AFullDiskLeavesNoPart) {
  std::signal(SIGXFSZ, SIG_IGN);
  LineFile file(path_, older_, 8, [] { return "first\n"; });
  EXPECT_TRUE(file.Append("one\n"));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = 6;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const bool second = file.Append("two\n");
  const std::string after_second = Text(path_);
  full.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const bool third = file.Append("three\n");
  const std::string after_third = Text(path_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(second);
  EXPECT_EQ(after_second, "one\n");
  EXPECT_FALSE(third);
  EXPECT_EQ(after_third, "");
  EXPECT_EQ(Text(older_), "one\n");
  EXPECT_TRUE(file.Append("x\n"));
  EXPECT_EQ(Text(path_), "first\nx\n");
}

}  // namespace
}  // namespace rollcall
