#include "client/agent/processes/output/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/agent/processes/output/error_file.h"
#include "client/agent/processes/output/log_folder.h"
#include "daemon/core/limits.h"
#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

// One rank's bytes at a time in seconds. The expected lines are joined by '|'.
struct Piece {
  double at;
  std::string bytes;
  std::string expect;
};

void Check(const std::vector<Piece>& pieces, const std::string& finish) {
  LineCutter cutter;
  for (const Piece& piece : pieces) {
    const absl::Time now = absl::UnixEpoch() + absl::Seconds(piece.at);
    EXPECT_EQ(absl::StrJoin(cutter.Take(piece.bytes, now), "|"), piece.expect)
        << "at " << piece.at;
  }
  EXPECT_EQ(absl::StrJoin(cutter.Finish(), "|"), finish);
}

TEST(LineCutter, Lines) {
  Check({{0, "one\ntw", "one"}, {0, "o\n\nthree", "two|"}}, "three");
  Check({{0, "dos\r\nunix\n", "dos|unix"}}, "");
  Check({{0, "dos\r", ""}, {0, "\n", "dos"}}, "");
  Check({{0, "dos\r\r\n", "dos"}}, "");
}

TEST(LineCutter, AProgressBarMovesOnceASecond) {
  Check({{0.0, "\r 1%", ""},
         {0.1, "\r 2%", " 1%"},
         {0.2, "\r 3%\r 4%", ""},
         {1.2, "\r 5%", " 4%"},
         {1.3, "\r 6%\r100%\n", "100%"}},
        "");
}

TEST(LineCutter, AHugeLineIsSplit) {
  LineCutter cutter;
  const std::string huge(2 * kLineBytesMax + 5, 'x');
  const auto lines = cutter.Take(huge + "\n", absl::UnixEpoch());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), kLineBytesMax);
  EXPECT_EQ(lines[1].size(), kLineBytesMax);
  EXPECT_EQ(lines[2].size(), 5u);
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail(3, 20);
  EXPECT_EQ(tail.Text(""), "");
  EXPECT_EQ(tail.Text("open"), "open");
  for (const char* line : {"a", "b", "c", "d"}) tail.Add(line);
  EXPECT_EQ(tail.Text(""), "b\nc\nd");
  EXPECT_EQ(tail.Text("e"), "c\nd\ne");
  tail.Add("0123456789");
  tail.Add("0123456789");
  EXPECT_EQ(tail.Text(""), "123456789\n0123456789");
  tail.Add(std::string(1000, 'x') + "end");
  EXPECT_EQ(tail.Text(""), std::string(17, 'x') + "end");
}

TEST(Tail, IsValidUtf8) {
  EXPECT_EQ(ValidUtf8("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(ValidUtf8("a\xff\xc3"), "a??");
  EXPECT_EQ(ValidUtf8("\xc0\x80"), "??");            // Overlong.
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "???");       // A surrogate.
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"), "????");  // Above the last one.
  EXPECT_EQ(ValidUtf8("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(LastBytes("x\xc3\xbcy", 2), "y");
  Tail tail(3, 2);
  tail.Add("\xc3\xbc\xc3\xbc!");
  EXPECT_EQ(tail.Text(""), "!");
}

TEST(PrefixedPieces, WholeLinesThatAPipeTakesWhole) {
  const std::vector<std::string> lines(1000, std::string(40, 'x'));
  const auto pieces = PrefixedPieces(lines, "[n/0] ");
  size_t bytes = 0;
  for (const std::string& piece : pieces) {
    EXPECT_LE(piece.size(), 4096u);
    EXPECT_EQ(piece.back(), '\n');
    EXPECT_EQ(piece.substr(0, 6), "[n/0] ");
    bytes += piece.size();
  }
  EXPECT_EQ(bytes, 1000u * 47);
  EXPECT_EQ(PrefixedPieces({std::string(9000, 'x'), "y"}, "").size(), 2u);
  EXPECT_TRUE(PrefixedPieces({}, "p").empty());
}

TEST(OutputWriter, AHeldTargetFillsAndEases) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd reader(ends[0]), held(ends[1]);
  int bells[2];
  ASSERT_EQ(pipe2(bells, O_CLOEXEC), 0);
  const Fd rung(bells[0]);
  const auto bell = std::make_shared<Fd>(bells[1]);
  OutputWriter writer([bell] { (void)!write(bell->get(), "!", 1); });
  const auto target = OutputTarget::Standing(held.get());
  size_t sent = 0;
  while (!writer.full()) {
    ASSERT_LT(sent, 64u << 20);
    writer.Write(target, std::string(64 << 10, 'x'));
    sent += 64 << 10;
  }
  EXPECT_FALSE(writer.empty());
  std::string piece(1 << 20, '\0');
  for (size_t got = 0; got < sent;) {
    const ssize_t n = read(reader.get(), piece.data(), piece.size());
    ASSERT_GT(n, 0);
    got += n;
  }
  // The callback is called when the queue is half empty, and again when it is
  // empty.
  while (!writer.empty()) ASSERT_EQ(read(rung.get(), piece.data(), 1), 1);
  EXPECT_FALSE(writer.full());
}

TEST(OutputWriter, AReaderThatHasGoneCostsOnlyItsOutput) {
  TempFolder folder;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd reader(ends[0]), gone(ends[1]);
  reader.Close();
  {
    OutputWriter writer([] {});
    writer.Write(OutputTarget::Standing(gone.get()), "lost\n");
    const auto logs = std::make_shared<LogFolder>(folder / "a");
    writer.Write(OutputTarget::Folder(logs), "");
    writer.Write(OutputTarget::File(logs, "b", "log"), "kept\n");
    writer.Write(OutputTarget::File(logs, "b", "empty"), "");
  }
  EXPECT_EQ(ReadFile(folder / "a/b/log"), "kept\n");
  EXPECT_EQ(access((folder / "a/b/empty").c_str(), F_OK), 0);
}

std::string ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return absl::StrFormat("%o", status.st_mode & 0777);
}

TEST(OutputWriter, AFullDiskCostsOnlyTheLinesThatItHasNoRoomFor) {
  const int target = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(target, 0);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const auto standing = OutputTarget::Standing(target);
  testing::internal::CaptureStderr();
  {
    OutputWriter writer(nullptr);
    writer.Write(standing, "lost\n");
    writer.Write(standing, "lost as well\n");
    ASSERT_TRUE(writer.Flush(absl::Minutes(1)));
    ASSERT_EQ(dup3(pipes[1], target, O_CLOEXEC), target);  // There is room.
    writer.Write(standing, "later\n");
    ASSERT_TRUE(writer.Flush(absl::Minutes(1)));
  }
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "rollcall: cannot write lines of ranks to standard output: No space "
      "left on device; they are lost until that changes\n");
  char read_back[64];
  EXPECT_EQ(std::string(read_back, read(pipes[0], read_back, 64)), "later\n");
  close(pipes[0]);
  close(pipes[1]);
  close(target);
}

TEST(LogFolder, IsForThisUserAlone) {
  TempFolder folder;
  const mode_t before = umask(0);
  LogFolder logs(folder / "logs");
  EXPECT_TRUE(logs.OpenFile("gen-1", "rank-0.out").ok());
  umask(before);
  EXPECT_EQ(ModeOf(folder / "logs"), "700");
  EXPECT_EQ(ModeOf(folder / "logs/gen-1"), "700");
  EXPECT_EQ(ModeOf(folder / "logs/gen-1/rank-0.out"), "600");
  // The daemon starts another generation of the same number in the same run.
  EXPECT_TRUE(logs.OpenFile("gen-1", "rank-0.out").ok());
}

TEST(LogFolder, WhatIsNotItsOwnIsNotWrittenTo) {
  TempFolder folder;
  const std::string mine = folder / "mine";
  std::ofstream(mine) << "precious";
  // It has one name, unlike `mine`, which gets a second one below.
  const std::string linked = folder / "linked";
  std::ofstream(linked) << "precious";
  ASSERT_EQ(mkdir((folder / "gen-1").c_str(), 0700), 0);
  const auto at = [&](const char* name) { return (folder / "gen-1/") + name; };
  ASSERT_EQ(symlink(linked.c_str(), at("soft").c_str()), 0);
  ASSERT_EQ(symlink((folder / "new").c_str(), at("dangling").c_str()), 0);
  ASSERT_EQ(link(mine.c_str(), at("hard").c_str()), 0);
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(at("folder").c_str(), 0700), 0);
  ASSERT_EQ(symlink((folder / "gen-1").c_str(), (folder / "gen-2").c_str()), 0);
  std::vector<std::pair<std::string, std::string>> files = {
      {"gen-2", "rank-0.out"}};
  for (const char* name : {"soft", "dangling", "hard", "fifo", "folder"}) {
    files.emplace_back("gen-1", name);
  }
  if (geteuid() == 0) {
    std::ofstream(at("theirs")).flush();
    ASSERT_EQ(chown(at("theirs").c_str(), 65534, 65534), 0);
    files.emplace_back("gen-1", "theirs");
    ASSERT_EQ(mkdir((folder / "gen-3").c_str(), 0777), 0);
    ASSERT_EQ(chown((folder / "gen-3").c_str(), 65534, 65534), 0);
    files.emplace_back("gen-3", "rank-0.out");
  }
  const auto logs = std::make_shared<LogFolder>(folder.path());
  for (const auto& [subfolder, name] : files) {
    EXPECT_EQ(logs->OpenFile(subfolder, name).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << subfolder << "/" << name;
    OutputWriter writer([] {});
    writer.Write(OutputTarget::File(logs, subfolder, name), "forged");
  }
  EXPECT_EQ(ReadFile(mine), "precious");
  EXPECT_EQ(ReadFile(linked), "precious");
  EXPECT_EQ(access((folder / "new").c_str(), F_OK), -1);
  EXPECT_EQ(access(at("rank-0.out").c_str(), F_OK), -1);
}

// The folder that the user named may itself be reached through a symbolic link.
TEST(LogFolder, TheNamedFolderMayBeALink) {
  TempFolder folder;
  ASSERT_EQ(mkdir((folder / "disk").c_str(), 0700), 0);
  ASSERT_EQ(symlink((folder / "disk").c_str(), (folder / "logs").c_str()), 0);
  EXPECT_TRUE(LogFolder(folder / "logs").OpenFile("gen-1", "rank-0.out").ok());
  EXPECT_EQ(access((folder / "disk/gen-1/rank-0.out").c_str(), F_OK), 0);
}

// The user of a rank may own the parent folder, and so replace it.
TEST(LogFolder, ThePlaceOfTheFolderIsLookedUpOnce) {
  TempFolder folder;
  LogFolder logs(folder / "mine/logs");
  ASSERT_TRUE(logs.Hold().ok());
  ASSERT_EQ(mkdir((folder / "victim").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder / "victim/logs").c_str(), 0700), 0);
  ASSERT_EQ(rename((folder / "mine").c_str(), (folder / "away").c_str()), 0);
  ASSERT_EQ(symlink((folder / "victim").c_str(), (folder / "mine").c_str()), 0);
  EXPECT_TRUE(logs.OpenFile("gen-2", "rank-0.out").ok());
  EXPECT_EQ(access((folder / "victim/logs/gen-2").c_str(), F_OK), -1);
  EXPECT_EQ(access((folder / "away/logs/gen-2/rank-0.out").c_str(), F_OK), 0);
}

TEST(LogFolder, ARemovedFolderIsMadeAgain) {
  TempFolder folder;
  LogFolder logs(folder / "logs");
  ASSERT_TRUE(logs.OpenFile("gen-1", "rank-0.out").ok());
  std::filesystem::remove_all(folder / "logs");
  EXPECT_TRUE(logs.OpenFile("gen-2", "rank-0.out").ok());
  EXPECT_EQ(access((folder / "logs/gen-2/rank-0.out").c_str(), F_OK), 0);
}

TEST(ErrorFile, Table) {
  const struct {
    std::string json, expect;
    bool permanent = false;
  } kRows[] = {
      {R"({"message": "no IB", "permanent": true})", "no IB", true},
      {R"({"permanent": true})", "", true},
      {R"({"message": "m", "permanent": false})", "m"},
      {R"({"message": "m", "permanent": 1})", "m"},
      {R"({"message": "m", "permanent": "true"})", "m"},
      {R"({"message": {"message": "ValueError: 3", "extraInfo": {}}})",
       "ValueError: 3"},
      {R"({"message": "plain"})", "plain"},
      {R"({"message": {"text": "no"}})", ""},
      {R"({"message": 3})", ""},
      {R"({"other": "x"})", ""},
      {R"(["message"])", ""},
      {"{\"message\": \"cut", ""},
      {"", ""},
      {"\xff\xfe", ""},
      {std::string(100'000, '['), ""},
  };
  for (const auto& row : kRows) {
    const ErrorReport report = ParseErrorFile(row.json);
    EXPECT_EQ(report.message, row.expect) << row.json.substr(0, 80);
    EXPECT_EQ(report.permanent, row.permanent) << row.json.substr(0, 80);
  }
  const std::string longer =
      absl::StrCat("{\"message\":\"", std::string(10'000, 'x'), "end\"}");
  const std::string message = ParseErrorFile(longer).message;
  EXPECT_EQ(message.size(), Limits::stderr_tail_bytes);
  EXPECT_EQ(message.substr(message.size() - 3), "end");
}

TEST(ErrorFile, OnlyRegularFilesOfSomeSize) {
  TempFolder folder;
  EXPECT_EQ(ReadErrorFile("").message, "");
  EXPECT_EQ(ReadErrorFile(folder / "absent").message, "");
  EXPECT_EQ(ReadErrorFile(folder.path()).message, "");
  mkfifo((folder / "fifo").c_str(), 0600);
  EXPECT_EQ(ReadErrorFile(folder / "fifo").message, "");
  std::ofstream(folder / "good") << R"({"message": "m"})";
  EXPECT_EQ(ReadErrorFile(folder / "good").message, "m");
  std::ofstream(folder / "large")
      << R"({"message": ")" << std::string(2 << 20, 'x') << "\"}";
  EXPECT_EQ(ReadErrorFile(folder / "large").message, "");
}

}  // namespace
}  // namespace rollcall
