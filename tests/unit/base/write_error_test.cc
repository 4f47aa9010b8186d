#include "daemon/base/files/write_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/base/text/bytes_text.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

TEST(WriteErrorText, Table) {
  const FreeSpace kFull = {0, 64 << 10, 9, 16};
  const FreeSpace kManyFiles = {3 << 20, 9 << 20, 0, 16};
  const FreeSpace kNoCount = {512, 64 << 10, 0, 0};
  const struct {
    int error;
    std::optional<FreeSpace> space;
    std::string expect;
  } kRows[] = {
      {ENOSPC, kFull, "No space left on device (/s: 0 B of 64 KiB free)"},
      {ENOSPC, kManyFiles,
       "No space left on device (/s: 3 MiB of 9 MiB free, and all of its 16 "
       "files are used)"},
      {ENOSPC, kNoCount, "No space left on device (/s: 512 B of 64 KiB free)"},
      {ENOSPC, std::nullopt, "No space left on device (/s)"},
      {EDQUOT, kNoCount, "Disk quota exceeded (/s: 512 B of 64 KiB free)"},
      {EACCES, kFull, "Permission denied"},
      {EROFS, std::nullopt, "Read-only file system"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(WriteErrorText(row.error, "/s", row.space), row.expect);
  }
}

TEST(WriteErrorText, LooksAtTheFolderOfTheFile) {
  const std::string text = WriteErrorText(ENOSPC, "/proc/no-such-file");
  EXPECT_EQ(text.rfind("No space left on device (/proc: ", 0), 0u) << text;
  EXPECT_EQ(WriteErrorText(EACCES, "/proc/x"), "Permission denied");
  EXPECT_EQ(WriteErrorText(ENOENT, "/proc/x"), "No such file or directory");
  EXPECT_EQ(WriteErrorText(ENOENT, "/proc/none/x"),
            "the folder /proc/none does not exist; if it was moved, move it "
            "back");
  EXPECT_FALSE(FreeSpaceOf("/proc/no-such-folder").has_value());
}

TEST(WriteWhole, SaysWhyItCannot) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(WriteWhole(ends[1], "text"), 0);
  char text[8];
  EXPECT_EQ(read(ends[0], text, sizeof text), 4);
  close(ends[0]);
  EXPECT_EQ(WriteWhole(ends[1], "text"), EPIPE);
  close(ends[1]);
  EXPECT_EQ(WriteWhole(-1, "text"), EBADF);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_EQ(WriteWhole(full, "text"), ENOSPC);
  close(full);
}

TEST(BytesText, Table) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(20000), "19.5 KiB");
  EXPECT_EQ(BytesText(65536), "64 KiB");
  EXPECT_EQ(BytesText(UINT64_MAX), "unlimited");
}

}  // namespace
}  // namespace rollcall
