#include "daemon/base/files/whole_file.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

TEST(ReadWholeFile, Table) {
  const TempFolder folder;
  const struct {
    size_t size;
    size_t bytes_max;
    bool read;
  } kRows[] = {
      {0, 0, true},        {0, 1, true},        {4, 3, false},
      {4, 4, true},        {4, 99, true},       {4095, 4096, true},
      {4096, 4096, true},  {4097, 4096, false}, {4097, 4097, true},
      {9000, 8999, false}, {9000, 9000, true},  {9000, 1 << 20, true},
  };
  for (const auto& row : kRows) {
    std::string text(row.size, 'x');
    for (size_t i = 0; i < text.size(); i += 7) text[i] = '\0';
    std::ofstream(folder / "file", std::ios::binary) << text;
    const auto read = ReadWholeFile(folder / "file", row.bytes_max);
    if (row.read) {
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, text) << row.size << " of " << row.bytes_max;
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition)
          << row.size << " of " << row.bytes_max;
    }
  }
}

TEST(ReadWholeFile, SaysWhatCannotBeRead) {
  EXPECT_EQ(ReadWholeFile("/tmp").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadWholeFile("/not-there").status().code(),
            absl::StatusCode::kUnavailable);
  // The first page of this file cannot be read.
  EXPECT_EQ(ReadWholeFile("/proc/self/mem").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace rollcall
