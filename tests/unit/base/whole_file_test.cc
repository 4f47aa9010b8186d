#include "daemon/base/files/whole_file.h"

#include <string.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "daemon/base/files/fd.h"
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
      {0, 0, true},           {0, 1, true},          {1, 0, false},
      {4, 3, false},          {4, 4, true},          {4, 99, true},
      {8191, 1 << 20, true},  {8192, 1 << 20, true}, {16384, 16383, false},
      {16384, 16384, true},   {16384, 99999, true},  {16385, 16384, false},
      {16385, 16385, true},   {90000, 89999, false}, {90000, 90000, true},
      {90000, 1 << 20, true},
  };
  for (const auto& row : kRows) {
    std::string text(row.size, 'x');
    for (size_t i = 0; i < text.size(); i += 7) text[i] = '\0';
    ASSERT_TRUE(std::ofstream(folder / "file", std::ios::binary) << text);
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

TEST(ReadWholeFile, ReadsAPipeToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reading(ends[0]);
  std::thread writer([to = ends[1]] {
    const Fd writing(to);
    for (const char* part : {"a few", " short", " writes"}) {
      (void)!write(writing.get(), part, strlen(part));
    }
  });
  const auto read = ReadWholeFile("/dev/fd/" + std::to_string(reading.get()));
  writer.join();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, "a few short writes");
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
