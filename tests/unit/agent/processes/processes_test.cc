// How rank processes start, and where their output goes. The test binary is its
// own guard; see main.
#include "client/agent/processes/processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/agent/processes/guard.h"
#include "client/agent/processes/output/missing_library.h"
#include "daemon/base/text/lines.h"
#include "daemon/core/limits.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/processes/processes_fixture.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

TEST_F(ProcessesTest, TheEnvironmentIsExactlyWhatWasGiven) {
  RankCommand command = Command(0, {"env"});
  command.environment.push_back("EMPTY=");
  command.environment.push_back("TWO=a b\tc\"$X'");
  Run({command});
  std::string expect;
  for (const std::string& entry : command.environment) {
    absl::StrAppend(&expect, "[n1/10] ", entry, "\n");
  }
  EXPECT_EQ(Out(), expect);
}

TEST_F(ProcessesTest, ARankStartsWithNothingOfOurs) {
  // The rank inherits neither our descriptors nor our blocked or ignored
  // signals.
  signal(SIGUSR1, SIG_IGN);
  const Fd leaky(dup(0));
  RankCommand command =
      Shell(0,
            "ls /proc/self/fd | tr '\\n' ' '; "
            "grep -E '^(SigBlk|SigIgn)' /proc/self/status | tr -d '\\n\\t'; "
            "readlink /proc/self/fd/0; "
            "[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo leads a session");
  Run({command});
  signal(SIGUSR1, SIG_DFL);
  // Descriptor 3 is the folder that ls itself has open.
  EXPECT_EQ(Out(),
            "[n1/10] 0 1 2 3 SigBlk:0000000000000000SigIgn:0000000000000000"
            "/dev/null\n[n1/10] leads a session\n");
}

TEST_F(ProcessesTest, CodesAndSignals) {
  RankCommand missing = Command(4, {"no-such-command", "x"});
  RankCommand absent = Command(5, {folder_ / "no-such-file"});
  std::ofstream(folder_ / "plain") << "text\n";
  RankCommand plain = Command(6, {folder_ / "plain"});
  RankCommand folder = Command(7, {folder_.path()});
  Run({Shell(0, "exit 0"), Shell(1, "exit 3"), Shell(2, "kill -9 $$"),
       Shell(3, "kill -SEGV $$"), missing, absent, plain, folder});
  auto ended = told_.ended();
  const std::vector<std::pair<int, int>> expect = {
      {0, 0},   {3, 0},   {0, SIGKILL}, {0, SIGSEGV},
      {127, 0}, {127, 0}, {126, 0},     {126, 0}};
  for (uint32_t i = 0; i < expect.size(); ++i) {
    EXPECT_EQ(ended[i].code, expect[i].first) << i;
    EXPECT_EQ(ended[i].signal, expect[i].second) << i;
    EXPECT_EQ(ended[i].generation, 1u);
  }
  EXPECT_EQ(ended[0].stderr_tail, "");
  EXPECT_TRUE(absl::StrContains(ended[4].stderr_tail, "no-such-command"));
  EXPECT_TRUE(absl::StrContains(ended[4].stderr_tail, "/usr/bin:/bin"));
  EXPECT_TRUE(absl::StrContains(ended[6].stderr_tail, strerror(EACCES)));
  EXPECT_TRUE(absl::StrContains(Err(), "[n1/14] " + ended[4].stderr_tail));
}

TEST_F(ProcessesTest, TheCommandIsFoundInTheRanksOwnPath) {
  const std::string tool = folder_ / "tool";
  // The script has no "#!", which execvp accepts.
  std::ofstream(tool) << "echo tool \"$@\"\n";
  chmod(tool.c_str(), 0700);
  RankCommand command = Command(0, {"tool", "a b", "c"});
  command.environment[0] = "PATH=/nowhere:" + folder_.path() + ":/bin";
  Run({command});
  EXPECT_EQ(Out(), "[n1/10] tool a b c\n");
}

TEST_F(ProcessesTest, ALibraryThatIsMissingIsToldOnce) {
  const char* loader =
      "echo rollcall-train: error while loading shared libraries: "
      "libibverbs.so.1: cannot open shared object file: No such file >&2; ";
  Run({Shell(0, absl::StrCat(loader, "exit 127")),
       Shell(1, absl::StrCat(loader, "exit 1")), Shell(2, "exit 127")});
  auto ended = told_.ended();
  EXPECT_TRUE(absl::StrContains(ended[0].stderr_tail,
                                "\nrollcall: the command needs "
                                "libibverbs.so.1, which is not on this node; "
                                "install it: `apt-get install libibverbs1`"))
      << ended[0].stderr_tail;
  EXPECT_TRUE(absl::StrContains(Err(), "apt-get install libibverbs1"));
  EXPECT_FALSE(absl::StrContains(ended[1].stderr_tail, "apt-get"));
  EXPECT_EQ(ended[2].stderr_tail, "");
}

TEST(MissingLibrary, IsNamedWithItsPackage) {
  const char* other = "install the package of this system that has it";
  struct {
    const char* tail;
    const char* library;
    const char* install;
  } const rows[] = {
      {"x\n./rollcall-train: error while loading shared libraries: "
       "libgloo.so.0: cannot open shared object file: No such file or "
       "directory\n",
       "libgloo.so.0", "apt-get install libgloo0`"},
      {"a: error while loading shared libraries: libfoo.so.7: cannot open "
       "shared object file: No such file or directory",
       "libfoo.so.7", other},
      {"Error loading shared library libibverbs.so.1: No such file or "
       "directory "
       "(needed by /usr/lib/libgloo.so.0)",
       "libibverbs.so.1", "apt-get install libibverbs1`"},
  };
  for (const auto& row : rows) {
    const std::string advice = MissingLibraryAdvice(row.tail);
    EXPECT_TRUE(absl::StrContains(
        advice, absl::StrCat("needs ", row.library, ", which")))
        << advice;
    EXPECT_TRUE(absl::StrContains(advice, row.install)) << advice;
  }
  for (const char* tail :
       {"", "sh: 1: rollcall-train: not found",
        "a: error while loading shared libraries: libfoo.so.7: wrong ELF class",
        "error while loading shared libraries: : cannot open shared object "
        "file"}) {
    EXPECT_EQ(MissingLibraryAdvice(tail), "") << tail;
  }
}

TEST_F(ProcessesTest, LinesStayWholeUnderConcurrency) {
  std::vector<RankCommand> commands;
  for (uint32_t i = 0; i < 8; ++i) {
    commands.push_back(
        Shell(i,
              "i=0; while [ $i -lt 1000 ]; do echo line $i of rank $RANK; "
              "i=$((i+1)); done"));
  }
  Run(commands);
  std::map<std::string, int> next;
  size_t lines = 0;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(Out(), '\n'))) {
    if (line.empty()) continue;
    const std::string rank = line.substr(4, 2);
    EXPECT_EQ(line, absl::StrCat("[n1/", rank, "] line ", next[rank]++,
                                 " of rank ", rank));
    ++lines;
  }
  EXPECT_EQ(lines, 8000u);
  for (uint32_t rank = 10; rank < 18; ++rank) {
    const std::string log =
        ReadFile(absl::StrCat(folder_ / "logs/gen-1/rank-", rank, ".out"));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1000);
    EXPECT_TRUE(absl::EndsWith(log, absl::StrCat("999 of rank ", rank, "\n")));
  }
}

TEST_F(ProcessesTest, PartialHugeAndRawOutput) {
  Run({Shell(0, "printf 'no end'; printf 'x\\ry\\rz' >&2"),
       Shell(1, "head -c 100000 /dev/zero | tr '\\0' a; echo")});
  const std::string first = "[n1/11] " + std::string(kLineBytesMax, 'a') + "\n";
  const std::string second =
      "[n1/11] " + std::string(100000 - kLineBytesMax, 'a') + "\n";
  EXPECT_TRUE(absl::StrContains(Out(), "[n1/10] no end\n"));
  // A line of the other rank may come between the two.
  const size_t at = Out().find(first);
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(Out().find(second, at + first.size()), std::string::npos);
  EXPECT_TRUE(absl::EndsWith(Err(), "[n1/10] z\n"));
  EXPECT_EQ(told_.ended()[0].stderr_tail, "x\nz");
  EXPECT_EQ(ReadFile(folder_ / "logs/gen-1/rank-10.out"), "no end");
  EXPECT_EQ(ReadFile(folder_ / "logs/gen-1/rank-10.err"), "x\ry\rz");
  EXPECT_EQ(ReadFile(folder_ / "logs/gen-1/rank-11.out").size(), 100001u);
}

TEST_F(ProcessesTest, TheTailOfAFailureAndItsErrorFile) {
  RankCommand command =
      Shell(0,
            "i=0; while [ $i -lt 30 ]; do echo e$i >&2; i=$((i+1)); done; "
            "printf 'last' >&2; printf '{\"message\":{\"message\":\"why\"}}' > "
            "$LIFE.json; exit 1");
  command.error_file = life_.path() + ".json";
  RankCommand fine = Shell(1, "exit 0");
  fine.error_file = command.error_file;
  Run({command, fine});
  auto ended = told_.ended();
  const std::vector<std::string> tail =
      absl::StrSplit(ended[0].stderr_tail, '\n');
  ASSERT_EQ(tail.size(), Limits::stderr_tail_lines);
  EXPECT_EQ(tail.front(), "e11");
  EXPECT_EQ(tail.back(), "last");
  EXPECT_EQ(ended[0].error_file, "why");
  EXPECT_EQ(ended[1].error_file, "");
}

TEST_F(ProcessesTest, OutputToStderrForJson) {
  options_.output_to_stderr = true;
  Run({Shell(0, "echo data")});
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Err(), "[n1/10] data\n");
}

TEST_F(ProcessesTest, AGrandchildThatHoldsThePipeDelaysNobody) {
  // Rank 1 still runs, so the grandchild of rank 0 is not killed yet.
  Begin();
  const absl::Status started = processes_->Start(
      1, {Shell(0,
                "exec 9>$LIFE; sleep 1000 & echo up >&9; echo oops >&2; "
                "exit 5"),
          Shell(1, "exec 8>$LIFE; exec sleep 1000")});
  const bool ended = told_.AwaitEnded(1);
  const bool lives = life_.Lines(1).size() == 1 && life_.SomebodyLives();
  auto told = told_.ended();
  processes_->Stop(Both(1), kLong);
  const bool gone = told_.AwaitGone(1);
  Finish();
  EXPECT_TRUE(started.ok() && ended && lives && gone);
  EXPECT_EQ(told[0].code, 5);
  EXPECT_EQ(told[0].stderr_tail, "oops");
  EXPECT_EQ(told_.ended()[1].signal, SIGTERM);
  EXPECT_TRUE(life_.AllDead(0));
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "guard") {
    return rollcall::GuardMain();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
