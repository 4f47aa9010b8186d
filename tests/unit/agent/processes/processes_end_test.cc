// Rank processes end, and none of their processes is left behind.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/agent/processes/processes.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/lines.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/processes/processes_fixture.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

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
  // The process has its own session and no marker, and its parent has ended.
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
  // While another rank lives, only an earlier look at /proc shows to which rank
  // the process belongs. The rank knows that there was such a look when an
  // ended orphan has been reaped. The first look may have begun before the
  // process detached. The orphan ends after its parent, which would reap it.
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
                            "setsid sh -c '(while kill -0 $$ 2>/dev/null; do "
                            ":; done) & echo $! > $LIFE.orphan'; "
                            "while kill -0 $(cat $LIFE.orphan) 2>/dev/null; "
                            "do :; done; done; "
                            "echo looked >&9; exec sleep 1000")),
               Shell(1, "exec sleep 1000")})
          .ok();
  const bool up = life_.Lines(2).size() == 2;
  processes_->Stop({{1, 0}}, absl::ZeroDuration());
  const bool gone = told_.AwaitGone(RankIncarnation{1, 0});
  const bool dead = life_.AllDead(0);
  const bool other = !told_.ended().contains(1);
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  Finish();
  EXPECT_TRUE(started && up && gone && dead && other);
}

// A process that traces another one and never handles the trace stops.
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
  // Meanwhile the end of another rank is reported.
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
  // Each rank starts a process that leaves its session and its parent.
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
  const bool kept = second.SomebodyLives();  // It was not asked to end.
  processes_->Stop({{1, 1}}, kLong);
  const bool gone = told_.AwaitGone(RankIncarnation{1, 1});
  const bool swept = second.AllDead(0) && first.SomebodyLives();
  const absl::Status taken = processes_->Start(2, {Shell(0, "true")});
  processes_->Rename(0, 77);
  const bool anew =
      processes_->Start(2, {Shell(1, "echo anew; exec sleep 1000")}).ok();
  processes_->Stop({{2, 1}, {1, 0}}, kLong);
  const bool all = told_.AwaitGone(RankIncarnation{2, 1}) &&
                   told_.AwaitGone(RankIncarnation{1, 0}) && first.AllDead(0);
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
  // A rank that is stopped has its own grace period.
  processes_->Stop({{1, 1}}, absl::ZeroDuration());
  const bool one = told_.AwaitEnded(1) && told_.ended().contains(1);
  processes_->Stop({{1, 0}}, absl::ZeroDuration());
  const bool gone = told_.AwaitGone(RankIncarnation{1, 0}) &&
                    told_.AwaitGone(RankIncarnation{1, 1});
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
  // If a second Stop gives a shorter grace period, that one counts.
  processes_->Stop(Both(1), absl::Milliseconds(1));
  const bool gone = told_.AwaitGone(1);
  const bool dead = life_.AllDead(0);
  Finish();
  EXPECT_TRUE(started && up && one && waits && gone && dead);
  EXPECT_EQ(told_.ended()[0].signal, SIGKILL);
  EXPECT_EQ(told_.ended()[1].code, 9);
}

TEST_F(ProcessesTest, AChildOfAShellHasItsGraceToo) {
  // The shell dies of SIGTERM at once, and the child first saves.
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
  // The output is more than the pipe holds and more than we keep.
  const bool started =
      processes_
          ->Start(1, {Shell(0, "yes | head -c 20000000"), Shell(1, "exit 6")})
          .ok();
  const bool one = told_.AwaitEnded(1);
  const bool waits = told_.ended().contains(1) && !told_.ended().contains(0);
  processes_->Stop(Both(1), absl::ZeroDuration());
  const bool gone = told_.AwaitGone(1);
  // The reader starts to read, so the output that was kept is written.
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
