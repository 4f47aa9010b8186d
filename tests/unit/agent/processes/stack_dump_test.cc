#include "client/agent/processes/stack_dump.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

const std::vector<std::string> kNoNccl{"NCCL_RAS_ENABLE=0"};

// The process state as in /proc/PID/stat; 0: the process is gone.
char State(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? 0 : stat[name_end + 2];
}

// Whether the process reaches this state within a minute.
bool Reaches(pid_t pid, char state) {
  const absl::Time begun = MonotonicNow();
  while (State(pid) != state) {
    if (MonotonicNow() - begun > absl::Minutes(1)) return false;
    sched_yield();
  }
  return true;
}

// A process in its own session that waits for a signal.
class Waiting {
 public:
  Waiting() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      const pid_t child = fork();
      if (child != 0) (void)!write(ready[1], &child, sizeof child);
      for (;;) pause();
    }
    EXPECT_EQ(read(ready[0], &child_, sizeof child_),
              static_cast<ssize_t>(sizeof child_));
    EXPECT_GT(child_, 1);
    close(ready[0]);
    close(ready[1]);
    EXPECT_TRUE(Reaches(pid_, 'S'));
  }
  ~Waiting() {
    if (child_ > 1) kill(child_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // A child in the same session.
  pid_t child() const { return child_; }
  // Returns once the process is stopped.
  void Stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  pid_t child_ = 0;
};

bool Has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(DumpStacks, TellsWhereAProcessStands) {
  const Waiting process;
  const StackDump dump = DumpStacks({process.pid()}, absl::Seconds(20));
  EXPECT_FALSE(dump.stopped);
  EXPECT_TRUE(Has(dump.summary, "sleeps")) << dump.summary;
  EXPECT_TRUE(Has(dump.text, "(stack_dump_test)")) << dump.text;
#ifdef __SANITIZE_THREAD__
  const char* const threads = ", 2 threads:";  // One is the sanitizer's own.
#else
  const char* const threads = ", 1 threads:";
#endif
  EXPECT_TRUE(Has(dump.text, threads)) << dump.text;
  // The output of a stack tool, or the text that there is none.
  EXPECT_TRUE(Has(dump.text, "pause") || Has(dump.text, "elfutils") ||
              Has(dump.text, "not permitted"))
      << dump.text;
}

TEST(DumpStacks, AStoppedOneIsStoppedAndStaysSo) {
  Waiting process;
  process.Stop();
  const Waiting other;
  const StackDump dump =
      DumpStacks({other.pid(), process.pid()}, absl::Seconds(20));
  EXPECT_TRUE(dump.stopped);
  EXPECT_TRUE(Has(dump.summary, "is stopped by a signal")) << dump.summary;
  // Neither the dump nor its end has woken the process. For a moment after the
  // dump, the process is on its way back to the stopped state.
  EXPECT_TRUE(Reaches(process.pid(), 'T'));
}

TEST(DumpStacks, AToolThatIsKilledLeavesNoProcessStopped) {
  const Waiting process;
  // The tool is killed before, while and after it attaches to the process.
  for (int i = 0; i < 60; ++i) {
    DumpStacks({process.pid()}, absl::Microseconds(500 * i));
    ASSERT_TRUE(Reaches(process.pid(), 'S')) << State(process.pid());
  }
}

TEST(DumpStacks, WhoIsGoneIsSaidToBe) {
  pid_t gone = 0;
  {
    const Waiting process;
    gone = process.pid();
  }
  const StackDump dump = DumpStacks({gone}, absl::Seconds(20));
  EXPECT_FALSE(dump.stopped);
  EXPECT_TRUE(Has(dump.summary, "is gone")) << dump.summary;
  EXPECT_FALSE(DumpStacks({}, absl::Seconds(1)).summary.empty());
}

TEST(DumpStacks, ItsTimeIsBounded) {
  const Waiting process;
  const absl::Time begun = MonotonicNow();
  const StackDump dump = DumpStacks({process.pid()}, absl::ZeroDuration());
  EXPECT_LT(MonotonicNow() - begun, absl::Seconds(10));
  EXPECT_TRUE(Has(dump.text, "threads")) << dump.text;
}

TEST(StackDumps, AllIsSaidBeforeTheVerdict) {
  const Limits limits;
  EXPECT_LT(Ras::kPatience + limits.stacks_patience, limits.hang_blame_window);
}

TEST(StackDumps, AnswersForAWholeSessionAndFirstForWhoNamedItself) {
  Waiting process;
  process.Stop();
  const pid_t linked = process.child();
  std::promise<StackDump> told;
  StackDumps dumps(absl::Seconds(20), kNoNccl,
                   [&](const RankIncarnation& incarnation, StackDump d) {
                     EXPECT_EQ(incarnation, (RankIncarnation{3, 1}));
                     told.set_value(std::move(d));
                   });
  dumps.Take({3, 1}, {process.pid(), StartTicks(process.pid())}, linked);
  const StackDump dump = told.get_future().get();
  EXPECT_TRUE(dump.stopped);
  const size_t first = dump.text.find(absl::StrCat("process ", linked, " "));
  const size_t second =
      dump.text.find(absl::StrCat("process ", process.pid(), " "));
  EXPECT_LT(first, second) << dump.text;
  EXPECT_NE(second, std::string::npos) << dump.text;
  EXPECT_TRUE(Has(dump.text, "local rank 1 makes no progress"));
}

TEST(StackDumps, WhoNamesAnotherOnesProcessIsNotBelieved) {
  const Waiting process;
  Waiting stranger;
  stranger.Stop();
  std::promise<StackDump> told;
  StackDumps dumps(absl::Seconds(20), kNoNccl,
                   [&](const RankIncarnation&, StackDump d) {
                     told.set_value(std::move(d));
                   });
  dumps.Take({3, 1}, {process.pid(), StartTicks(process.pid())},
             stranger.pid());
  const StackDump dump = told.get_future().get();
  EXPECT_FALSE(dump.stopped);
  EXPECT_FALSE(Has(dump.text, absl::StrCat("process ", stranger.pid(), " ")))
      << dump.text;
}

TEST(StackDumps, AnswersWhereThereIsNobody) {
  std::promise<StackDump> told;
  StackDumps dumps(absl::Seconds(20), kNoNccl,
                   [&](const RankIncarnation&, StackDump d) {
                     told.set_value(std::move(d));
                   });
  dumps.Take({1, 0}, {}, 0);
  EXPECT_FALSE(told.get_future().get().summary.empty());
}

}  // namespace
}  // namespace rollcall
