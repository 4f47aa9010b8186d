// The test binary is its own guard: see main.
#include "client/agent/processes/processes.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/agent/processes/guard.h"
#include "client/agent/processes/missing_library.h"
#include "daemon/base/clock.h"
#include "daemon/base/lines.h"
#include "daemon/base/mutex.h"
#include "daemon/core/limits.h"
#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

// What the callbacks have told.
class Told {
 public:
  Processes::Callbacks Callbacks() {
    return {[this](RankEnded ended) {
              MutexLock lock(mutex_);
              ended_[ended.local_rank] = std::move(ended);
              changed_.NotifyAll();
            },
            [this](RanksGone gone) {
              MutexLock lock(mutex_);
              gone_.push_back(gone.ranks.front().generation);
              for (const RankLife& life : gone.ranks)
                lives_gone_.push_back(life);
              changed_.NotifyAll();
            }};
  }

  bool AwaitGone(uint64_t generation) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::count(gone_.begin(), gone_.end(), generation) > 0;
    });
  }
  bool AwaitGone(const RankLife& life) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::count(lives_gone_.begin(), lives_gone_.end(), life) > 0;
    });
  }
  bool AwaitEnded(size_t count) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ended_.size() >= count;
    });
  }
  std::map<uint32_t, RankEnded> ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  std::vector<uint64_t> gone() {
    MutexLock lock(mutex_);
    return gone_;
  }

 private:
  template <typename Condition>
  bool Await(Condition condition) {
    const absl::Time deadline = MonotonicNow() + kLong;
    MutexLock lock(mutex_);
    while (!condition() && MonotonicNow() < deadline) {
      changed_.WaitFor(mutex_, deadline - MonotonicNow());
    }
    return condition();
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<uint32_t, RankEnded> ended_ ABSL_GUARDED_BY(mutex_);
  // Of the first of those that went together.
  std::vector<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);
  std::vector<RankLife> lives_gone_ ABSL_GUARDED_BY(mutex_);
};

std::vector<RankLife> Both(uint64_t generation) {
  return {{generation, 0}, {generation, 1}};
}

// Descriptor 1 or 2 of this process, taken to another for a while.
class Redirected {
 public:
  Redirected(int fd, int to) : fd_(fd), saved_(dup(fd)) { dup2(to, fd); }
  ~Redirected() { dup2(saved_.get(), fd_); }

 private:
  const int fd_;
  const Fd saved_;
};

class ProcessesTest : public testing::Test {
 protected:
  ProcessesTest() {
    options_.node = "n1";
    options_.marker = "ROLLCALL_SOCKET=" + folder_.path() + "/socket";
    options_.log_dir = folder_ / "logs";
  }

  RankCommand Command(uint32_t rank, std::vector<std::string> argv) {
    RankCommand command;
    command.local_rank = rank;
    command.rank = 10 + rank;
    command.argv = std::move(argv);
    command.marker = absl::StrCat("OWN=", folder_.path(), "/", ++marked_);
    command.environment = {"PATH=/usr/bin:/bin", options_.marker,
                           command.marker, "LIFE=" + life_.path(),
                           absl::StrCat("RANK=", 10 + rank)};
    return command;
  }
  RankCommand Shell(uint32_t rank, const std::string& script) {
    return Command(rank, {"/bin/sh", "-c", script});
  }

  void Begin() {
    // Written at the end of the file by both sides, so nothing is overwritten.
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    const Fd out(open((folder_ / "out").c_str(), flags, 0600));
    const Fd err(open((folder_ / "err").c_str(), flags, 0600));
    Begin(out.get(), err.get());
  }
  void Begin(int out, int err) {
    fflush(nullptr);
    out_ = std::make_unique<Redirected>(1, out);
    err_ = std::make_unique<Redirected>(2, err);
    processes_ = std::make_unique<Processes>(options_, told_.Callbacks());
  }
  // To be called before anything is expected: what fails is printed on 1.
  void Finish() {
    processes_.reset();
    out_.reset();
    err_.reset();
  }
  void TearDown() override { Finish(); }

  // Starts generation 1, waits until it is gone, and ends.
  void Run(const std::vector<RankCommand>& commands) {
    Begin();
    const absl::Status started = processes_->Start(1, commands);
    const bool gone = started.ok() && told_.AwaitGone(1);
    Finish();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(gone);
    ASSERT_EQ(told_.ended().size(), commands.size());
  }

  std::string Out() { return ReadFile(folder_ / "out"); }
  std::string Err() { return ReadFile(folder_ / "err"); }

  TempFolder folder_;
  LifeLine life_{folder_ / "life"};
  int marked_ = 0;
  Told told_;
  ProcessesOptions options_;
  std::unique_ptr<Redirected> out_, err_;
  std::unique_ptr<Processes> processes_;
};

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
  // Neither our descriptors nor our blocked or ignored signals.
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
  // ls has the folder itself open as 3.
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
  // Without "#!", as execvp takes it.
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
  const std::string first =
      "[n1/11] " + std::string(kLineBytesMost, 'a') + "\n";
  const std::string second =
      "[n1/11] " + std::string(100000 - kLineBytesMost, 'a') + "\n";
  EXPECT_TRUE(absl::StrContains(Out(), "[n1/10] no end\n"));
  // The other rank's line may stand between the two.
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
  // Rank 1 goes on, so the grandchild of rank 0 is not swept yet.
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

constexpr char kDaemon[] =
    "exec 9>$LIFE; setsid sh -c '(trap \"\" TERM HUP; echo up >&9; "
    "exec sleep 1000) &'; exit 0";

TEST_F(ProcessesTest, ADaemonLeftBehindIsSweptBeforeGone) {
  Begin();
  const bool started = processes_->Start(1, {Shell(0, kDaemon)}).ok();
  const bool gone = told_.AwaitGone(1);
  const bool dead = life_.AllDead(0);
  Finish();
  EXPECT_TRUE(started && gone && dead);
  EXPECT_EQ(told_.ended()[0].code, 0);
}

TEST_F(ProcessesTest, AHiddenOrphanIsSweptBeforeGoneAndReaped) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  options_.subreaper = true;
  Begin();
  // In a session of its own, without a marker, its parent gone.
  const bool started =
      processes_
          ->Start(1,
                  {Shell(0, absl::StrCat(
                                "exec 9>$LIFE; setsid env -i /bin/sh -c '",
                                kLeaveCgroup,
                                "(echo up >&9; echo up >$0; exec sleep 1000) & "
                                "echo $! >&9; while ! test -s $0; do :; done' "
                                "$LIFE.up"))})
          .ok();
  const std::vector<std::string> lines = life_.Lines(2);
  const bool gone = told_.AwaitGone(1);
  const bool dead = life_.AllDead(0);
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  Finish();
  EXPECT_TRUE(started && lines.size() == 2 && gone && dead);
  for (const std::string& line : lines) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(line, &pid)) continue;
    EXPECT_NE(kill(pid, 0), 0) << "a zombie is left";
  }
}

TEST_F(ProcessesTest, ADetachedProcessIsKnownAfterItsParentsEnd) {
  // While another rank lives, only an earlier look tells whose it is. The rank
  // knows that a look has been taken when an ended orphan has been reaped; the
  // first such look may have begun before the process detached.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  options_.subreaper = true;
  Begin();
  const bool started =
      processes_
          ->Start(
              1,
              {Shell(0, absl::StrCat(
                            "exec 9>$LIFE; setsid env -i /bin/sh -c '",
                            kLeaveCgroup,
                            "echo up >&9; echo up >$0; exec sleep 1000' "
                            "$LIFE.up & while ! test -s $LIFE.up; do :; done; "
                            "for i in 1 2; do "
                            "setsid sh -c ': & echo $! > $LIFE.orphan'; "
                            "while kill -0 $(cat $LIFE.orphan) 2>/dev/null; "
                            "do :; done; done; "
                            "echo looked >&9; exec sleep 1000")),
               Shell(1, "exec sleep 1000")})
          .ok();
  const bool up = life_.Lines(2).size() == 2;
  processes_->Stop({{1, 0}}, absl::ZeroDuration());
  const bool gone = told_.AwaitGone(RankLife{1, 0});
  const bool dead = life_.AllDead(0);
  const bool other = !told_.ended().contains(1);
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  Finish();
  EXPECT_TRUE(started && up && gone && dead && other);
}

// A process that traces another and never answers what it is told of it.
class Tracer {
 public:
  Tracer() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    ours_ = Fd(ends[0]);
    const Fd theirs(ends[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    pid_t traced = 0;
    if (read(theirs.get(), &traced, sizeof traced) != sizeof traced) _exit(0);
    const char answer =
        ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 'y' : 'n';
    (void)!write(theirs.get(), &answer, 1);
    while (true) pause();
  }
  ~Tracer() { End(); }

  bool Trace(pid_t pid) {
    char answer = 'n';
    return write(ours_.get(), &pid, sizeof pid) == sizeof pid &&
           read(ours_.get(), &answer, 1) == 1 && answer == 'y';
  }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  Fd ours_;
  pid_t pid_ = 0;
};

TEST_F(ProcessesTest, ARankThatItsTracerHoldsIsToldOnceAndHoldsUpNobody) {
  Tracer tracer;
  Begin();
  const bool started =
      processes_
          ->Start(1, {Shell(0, "exec 9>$LIFE; echo $$ >&9; exec sleep 1000"),
                      Shell(1,
                            "trap 'exit 6' USR1; exec 9>$LIFE; echo up >&9; "
                            "while :; do sleep 1000 & wait; done")})
          .ok();
  pid_t rank = 0;
  for (const std::string& line : life_.Lines(2)) {
    if (line != "up" && !absl::SimpleAtoi(line, &rank)) rank = 0;
  }
  const bool named = rank > 0;
  const bool traced = named && tracer.Trace(rank);
  if (traced) kill(rank, SIGKILL);
  const std::string text = absl::StrCat("rank 10 has ended, but process ",
                                        tracer.pid(), " traces it");
  const absl::Time deadline = MonotonicNow() + kLong;
  while (traced && !absl::StrContains(Err(), text) &&
         MonotonicNow() < deadline) {
    sched_yield();
  }
  // Another rank's end is seen meanwhile.
  processes_->Signal({{1, 1}}, SIGUSR1);
  const bool one = told_.AwaitEnded(1) && !told_.ended().contains(0);
  tracer.End();
  const bool both = told_.AwaitEnded(2);
  const bool gone = told_.AwaitGone(1);
  Finish();
  if (named && !traced) GTEST_SKIP() << "no process may be traced here";
  EXPECT_TRUE(started && one && both && gone);
  EXPECT_EQ(told_.ended()[0].signal, SIGKILL);
  EXPECT_EQ(told_.ended()[1].code, 6);
  const std::vector<std::string> parts = absl::StrSplit(Err(), text);
  EXPECT_EQ(parts.size(), 2u);
}

TEST_F(ProcessesTest, OneRankGoesAndComesWhileAnotherLives) {
  // Each with a process that has left its session and its parent behind.
  constexpr char kScript[] =
      "exec 9>$LIFE.$RANK; setsid sh -c '(echo left >&9; exec sleep 1000) &'; "
      "echo up >&9; ";
  LifeLine first(life_.path() + ".10"), second(life_.path() + ".11");
  Begin();
  const std::string script = kScript;
  const bool started = processes_
                           ->Start(1, {Shell(0, script + "exec sleep 1000"),
                                       Shell(1, script + "kill -9 $$")})
                           .ok();
  const bool up = first.Lines(2).size() == 2 && second.Lines(2).size() == 2;
  const bool ended = told_.AwaitEnded(1);
  const bool kept = second.SomebodyLives();  // Nobody told it to go.
  processes_->Stop({{1, 1}}, kLong);
  const bool gone = told_.AwaitGone(RankLife{1, 1});
  const bool swept = second.AllDead(0) && first.SomebodyLives();
  const absl::Status taken = processes_->Start(2, {Shell(0, "true")});
  processes_->Rename(0, 77);
  const bool anew =
      processes_->Start(2, {Shell(1, "echo anew; exec sleep 1000")}).ok();
  processes_->Stop({{2, 1}, {1, 0}}, kLong);
  const bool all = told_.AwaitGone(RankLife{2, 1}) &&
                   told_.AwaitGone(RankLife{1, 0}) && first.AllDead(0);
  Finish();
  EXPECT_TRUE(started && up && ended && kept && gone);
  EXPECT_TRUE(swept && anew && all);
  EXPECT_EQ(taken.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ProcessesTest, AKillOfOneLeavesItsSiblingAlone) {
  Begin();
  const std::string deaf =
      "exec 9>$LIFE; trap '' TERM; echo up >&9; while :; do sleep 1000; done";
  const bool started =
      processes_->Start(1, {Shell(0, deaf), Shell(1, deaf)}).ok();
  const bool up = life_.Lines(2).size() == 2;
  processes_->Stop({{1, 0}}, kLong);
  // The grace of one that goes is its own.
  processes_->Stop({{1, 1}}, absl::ZeroDuration());
  const bool one = told_.AwaitEnded(1) && told_.ended().contains(1);
  processes_->Stop({{1, 0}}, absl::ZeroDuration());
  const bool gone =
      told_.AwaitGone(RankLife{1, 0}) && told_.AwaitGone(RankLife{1, 1});
  Finish();
  EXPECT_TRUE(started && up && one && gone);
}

TEST_F(ProcessesTest, WhoIgnoresSigtermIsKilledAfterItsGrace) {
  Begin();
  const bool started =
      processes_
          ->Start(1, {Shell(0,
                            "exec 9>$LIFE; trap '' TERM; echo up >&9; "
                            "while :; do sleep 1000; done"),
                      Shell(1,
                            "exec 9>$LIFE; trap 'exit 9' TERM; echo up >&9; "
                            "while :; do sleep 1000 & wait; done")})
          .ok();
  const bool up = life_.Lines(2).size() == 2;
  processes_->Stop(Both(1), kLong);
  const bool one = told_.AwaitEnded(1);
  const bool waits = told_.ended().contains(1) && told_.gone().empty();
  // A shorter grace counts.
  processes_->Stop(Both(1), absl::Milliseconds(1));
  const bool gone = told_.AwaitGone(1);
  const bool dead = life_.AllDead(0);
  Finish();
  EXPECT_TRUE(started && up && one && waits && gone && dead);
  EXPECT_EQ(told_.ended()[0].signal, SIGKILL);
  EXPECT_EQ(told_.ended()[1].code, 9);
}

TEST_F(ProcessesTest, AChildOfAShellHasItsGraceToo) {
  // The shell dies of SIGTERM at once; the child saves first.
  Begin();
  const bool started =
      processes_
          ->Start(1, {Shell(0,
                            "exec 9>$LIFE; sh -c 'trap \"echo saved > "
                            "$LIFE.saved; exit\" TERM; echo up >&9; while :; "
                            "do read x < $LIFE.never; done'; true")})
          .ok();
  mkfifo((life_.path() + ".never").c_str(), 0600);
  const bool up = life_.Lines(1).size() == 1;
  processes_->Stop({{1, 0}}, kLong);
  const bool gone = told_.AwaitGone(1);
  Finish();
  EXPECT_TRUE(started && up && gone);
  EXPECT_EQ(told_.ended()[0].signal, SIGTERM);
  EXPECT_EQ(ReadFile(life_.path() + ".saved"), "saved\n");
}

TEST_F(ProcessesTest, SignalsReachTheProcessGroup) {
  Begin();
  const bool started =
      processes_
          ->Start(1, {Shell(0,
                            "exec 9>$LIFE; trap 'echo got; exit 4' USR1; "
                            "echo up >&9; while :; do sleep 1000 & wait; "
                            "done")})
          .ok();
  const bool up = life_.Lines(1).size() == 1;
  processes_->Signal({{1, 0}}, SIGUSR1);
  const bool gone = told_.AwaitGone(1);
  Finish();
  EXPECT_TRUE(started && up && gone);
  EXPECT_EQ(told_.ended()[0].code, 4);
  EXPECT_EQ(Out(), "[n1/10] got\n");
}

TEST_F(ProcessesTest, StopRightAfterStartAndStopOfNobody) {
  Begin();
  const bool started = processes_->Start(7, {Shell(0, "exec sleep 1000")}).ok();
  const absl::Status second = processes_->Start(8, {Shell(0, "true")});
  processes_->Stop({{3, 0}}, kLong);
  const bool never = told_.AwaitGone(3);
  processes_->Stop({{7, 0}}, kLong);
  const bool gone = told_.AwaitGone(7);
  const bool again =
      processes_->Start(8, {Shell(0, "exit 1")}).ok() && told_.AwaitGone(8);
  Finish();
  EXPECT_TRUE(started && never && gone && again);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(told_.gone(), (std::vector<uint64_t>{3, 7, 8}));
}

TEST_F(ProcessesTest, StartsAllRanksOrNone) {
  Begin();
  RankCommand empty = Command(1, {});
  const absl::Status status =
      processes_->Start(1, {Shell(0, "touch $LIFE.ran"), empty});
  const bool next =
      processes_->Start(2, {Shell(0, "true")}).ok() && told_.AwaitGone(2);
  Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(next);
  EXPECT_NE(access((life_.path() + ".ran").c_str(), F_OK), 0);
}

TEST_F(ProcessesTest, TheDestructorKillsWhatIsLeft) {
  Begin();
  const bool started =
      processes_
          ->Start(1, {Shell(0,
                            "exec 9>$LIFE; trap '' TERM; echo up >&9; "
                            "while :; do sleep 1000; done"),
                      Shell(1, kDaemon)})
          .ok();
  const bool up = life_.Lines(2).size() == 2;
  Finish();
  EXPECT_TRUE(started && up);
  EXPECT_TRUE(life_.AllDead(1000));
  EXPECT_TRUE(told_.gone().empty());
}

TEST_F(ProcessesTest, AHeldTerminalDelaysNoReaping) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd reader(ends[0]), held(ends[1]);
  Begin(held.get(), held.get());
  // More than the pipe holds, and more than we keep.
  const bool started =
      processes_
          ->Start(1, {Shell(0, "yes | head -c 20000000"), Shell(1, "exit 6")})
          .ok();
  const bool one = told_.AwaitEnded(1);
  const bool waits = told_.ended().contains(1) && !told_.ended().contains(0);
  processes_->Stop(Both(1), absl::ZeroDuration());
  const bool gone = told_.AwaitGone(1);
  // The terminal is let go, and what was kept comes out.
  std::thread drain([&] {
    std::string piece(1 << 20, '\0');
    while (read(reader.get(), piece.data(), piece.size()) > 0) {
    }
  });
  Finish();
  held.Close();
  drain.join();
  EXPECT_TRUE(started && one && waits && gone);
  EXPECT_EQ(told_.ended()[1].code, 6);
}

TEST_F(ProcessesTest, ManyGenerationsLeaveNothingOpen) {
  Begin();
  const auto open_fds = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         {});
  };
  bool all =
      processes_->Start(1, {Shell(0, "true")}).ok() && told_.AwaitGone(1);
  const auto before = open_fds();
  for (uint64_t generation = 2; generation < 30; ++generation) {
    all &= processes_->Start(generation, {Shell(0, "true"), Shell(1, "false")})
               .ok() &&
           told_.AwaitGone(generation);
  }
  // The writer's thread closes the last log files when it is done with them.
  const auto after = open_fds();
  Finish();
  EXPECT_TRUE(all);
  EXPECT_LE(after, before + 4);
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
