#include "client/agent/processes/process_tree/sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "client/agent/processes/process_tree/exit_watch.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

class SweepTest : public testing::Test {
 protected:
  // Runs a shell script as a rank, and returns its pid.
  pid_t Run(const std::string& script, const std::vector<std::string>& more,
            int cgroup = -1, const SystemUser* user = nullptr) {
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin",
                                            "LIFE=" + life_.path()};
    environment.insert(environment.end(), more.begin(), more.end());
    auto rank = ForkRank({"/bin/sh", "-c", script}, environment, cgroup, user);
    EXPECT_TRUE(rank.ok()) << rank.status();
    if (!rank.ok()) return -1;
    Release(*rank);
    started_.push_back(rank->pid);
    start_ticks_ = rank->start_ticks;
    return rank->pid;
  }

  void TearDown() override {
    for (const pid_t pid : started_) {
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
      PeekExit(pid);
      Reap(pid);
    }
  }

  TempFolder folder_;
  LifeLine life_{folder_ / "life"};
  std::vector<pid_t> started_;
  uint64_t start_ticks_ = 0;
};

// A process that has left its parent and its session.
constexpr char kDaemon[] =
    "exec 9>$LIFE; setsid sh -c 'sh -c \"trap : TERM HUP; echo up >&9; "
    "exec sleep 1000\" &' ; true";

TEST_F(SweepTest, FindsByMarkerWhoHasLeftParentAndSession) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  Run(kDaemon, {"X=1", marker, "Y=2"});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const SweepResult result = Sweep({.markers = {marker}}, kPatience);
  EXPECT_GE(result.ended, 1u);
  EXPECT_TRUE(result.left.empty());
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(SweepTest, FindsAnotherUsersByMarkerWithoutCapPtrace) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  chmod(folder_.path().c_str(), 0755);
  chmod(life_.path().c_str(), 0666);
  const SystemUser user = {.uid = 31337, .gid = 31338};
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  // 38 is CAP_PERFMON, which older headers do not define.
  const WithoutCapabilities less({CAP_SYS_PTRACE, CAP_SYS_ADMIN, 38});
  Run(kDaemon, {marker}, -1, &user);
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  // The process belongs to that user and cannot gain more privileges.
  const std::vector<FoundProcess> found = FindMatching({.markers = {marker}});
  ASSERT_FALSE(found.empty());
  const std::string status =
      ReadFile("/proc/" + std::to_string(found[0].pid) + "/status");
  EXPECT_NE(status.find("Uid:\t31337\t31337\t31337\t31337\n"),
            std::string::npos);
  EXPECT_NE(status.find("NoNewPrivs:\t1\n"), std::string::npos);
  const SweepResult result = Sweep({.markers = {marker}}, kPatience);
  EXPECT_GE(result.ended, 1u);
  EXPECT_TRUE(result.left.empty());
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(SweepTest, AwaitsOneThatHasBegunToEnd) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // The process holds so much memory that freeing it takes a while.
  const pid_t pid = Run(
      "exec 9>$LIFE; echo up >&9; exec dd if=/dev/zero bs=512M count=1 1<>" +
          pipe + " 2>/dev/null",
      {marker});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const std::string proc = "/proc/" + std::to_string(pid);
  pollfd polled{open(pipe.c_str(), O_RDONLY | O_CLOEXEC), POLLIN, 0};
  const Fd closed(polled.fd);
  ASSERT_EQ(poll(&polled, 1, 60'000), 1);
  kill(pid, SIGKILL);
  while (!ReadFile(proc + "/environ").empty()) {
  }
  const SweepResult result = Sweep({.markers = {marker}}, kPatience);
  EXPECT_TRUE(result.left.empty());
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(SweepTest, WithoutPatienceItKillsAndDoesNotWait) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  Run(kDaemon, {marker});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  EXPECT_GE(Sweep({.markers = {marker}}, absl::ZeroDuration()).ended, 1u);
  EXPECT_TRUE(life_.AllDead(60'000));
}

// The marker of a process is not read if its session shows it.
TEST_F(SweepTest, ItsSessionOrItsMarkerShowsAProcess) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  const pid_t pid = Run("exec 9>$LIFE; echo up >&9; exec sleep 1000", {marker});
  const uint64_t start_ticks = start_ticks_;
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  // The marker shows a process that only seems to be in the session, because
  // the session's number was used again.
  for (const uint64_t of_session : {start_ticks, start_ticks - 1}) {
    const auto found =
        FindMatching({.markers = {marker}, .sessions = {{pid, of_session}}});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].pid, pid);
  }
}

TEST_F(SweepTest, ASimilarMarkerIsAnotherMarker) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  Run(kDaemon, {marker + "2", "A" + marker, "B=" + marker});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  EXPECT_EQ(Sweep({.markers = {marker}}, kPatience).ended, 0u);
  EXPECT_TRUE(life_.SomebodyLives());
  EXPECT_GE(Sweep({.markers = {"X=1", marker + "2"}}, kPatience).ended, 1u);
  EXPECT_TRUE(life_.AllDead(0));
}

// An environment is read in pieces of 16 KiB.
TEST_F(SweepTest, FindsAMarkerThatTwoPiecesShare) {
  constexpr size_t kPiece = 16 << 10;
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string filler = "F=";
  const size_t before = std::string("PATH=/usr/bin:/bin").size() + 1 +
                        ("LIFE=" + life_.path()).size() + 1 + filler.size() + 1;
  const std::string script = "exec 9>$LIFE; echo up >&9; read x <" + pipe;
  for (const size_t first : {0, 1, 10, 40}) {
    const std::string marker =
        absl::StrCat("ROLLCALL_SOCKET=", folder_.path(), "/sock", 1000 + first);
    ASSERT_GT(marker.size(), first);
    const std::string fills =
        filler + std::string(kPiece - first - before, 'x');
    Run(script, {fills, marker + "2", "Z=1"});
    ASSERT_EQ(life_.Lines(1).size(), 1u);
    EXPECT_TRUE(FindMatching({.markers = {marker}}).empty()) << first;
    const pid_t pid = Run(script, {fills, marker, "Z=1"});
    ASSERT_EQ(life_.Lines(1).size(), 1u);
    const auto found = FindMatching({.markers = {marker}});
    ASSERT_EQ(found.size(), 1u) << first;
    EXPECT_EQ(found[0].pid, pid);
  }
}

TEST_F(SweepTest, FindsBySessionAndByDescent) {
  // The child empties its environment and has its own session, but its parent
  // is in our session.
  const pid_t pid = Run(
      "exec 9>$LIFE; setsid env -i /bin/sh -c 'echo up >&9; exec sleep 1000' & "
      "echo up >&9; wait",
      {});
  ASSERT_EQ(life_.Lines(2).size(), 2u);
  const SweepResult result =
      Sweep({.sessions = {{pid, start_ticks_}}}, kPatience);
  EXPECT_GE(result.ended, 2u);
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(SweepTest, AReusedSessionNumberIsNotHit) {
  const pid_t pid = Run("exec 9>$LIFE; echo up >&9; exec sleep 1000", {});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const std::vector<RankSession> others = {{pid, start_ticks_ - 1},
                                           {pid, start_ticks_ + 1}};
  EXPECT_EQ(Sweep({.sessions = others}, kPatience).ended, 0u);
  EXPECT_TRUE(life_.SomebodyLives());
}

TEST_F(SweepTest, FindsWhatAnEarlierSweepFound) {
  const pid_t pid = Run("exec 9>$LIFE; echo up >&9; exec sleep 1000", {});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  // The pid has been given to another process since.
  EXPECT_EQ(Sweep({.processes = {{pid, 0, start_ticks_ - 1}}}, kPatience).ended,
            0u);
  EXPECT_TRUE(life_.SomebodyLives());
  EXPECT_EQ(Sweep({.processes = {{pid, 0, start_ticks_}}}, kPatience).ended,
            1u);
  EXPECT_TRUE(life_.AllDead(0));
}

// While this object lives, this process is the subreaper of its descendants.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); }
};

// The process has no marker and is not in our session, and its parent has
// ended.
constexpr char kHidden[] =
    "exec 9>$LIFE; setsid env -i /bin/sh -c '(echo up >&9; exec sleep 1000) &'";

TEST_F(SweepTest, FindsOrphansThatTheKernelGaveToItsProcess) {
  const Subreaper subreaper;
  const pid_t rank = Run(kHidden, {});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  PeekExit(rank);
  // A helper process of our own in our session. Its child has left the session.
  LifeLine own(folder_ / "own");
  std::string shell = "/bin/sh", option = "-c";
  std::string script =
      "exec 9>" + own.path() +
      "; setsid sh -c 'echo $$ >&9; exec sleep 1000' & echo $$ >&9; wait";
  char* const argv[] = {shell.data(), option.data(), script.data(), nullptr};
  pid_t helper = 0;
  ASSERT_EQ(
      posix_spawn(&helper, shell.c_str(), nullptr, nullptr, argv, environ), 0);
  const std::vector<std::string> helpers = own.Lines(2);

  EXPECT_EQ(Sweep({}, kPatience).ended, 0u);
  EXPECT_EQ(LookFor({{.reparented = true}}).found[0].size(), 1u);
  EXPECT_EQ(Sweep({.reparented = true}, kPatience).ended, 1u);
  EXPECT_TRUE(life_.AllDead(0));
  EXPECT_TRUE(LookFor({{.reparented = true}}).found[0].empty());
  // LookFor reports the ended orphans and the rank. It does not report the
  // helper, which this test reaps itself.
  for (const std::string& pid : helpers) kill(std::stoi(pid), SIGKILL);
  // The helper is awaited first, because then its child becomes ours. A process
  // that has closed its files may not have ended yet.
  PeekExit(helper);
  for (const std::string& pid : helpers) PeekExit(std::stoi(pid));
  EXPECT_TRUE(own.AllDead(10'000));
  std::vector<pid_t> ended = LookFor({}).ended_children;
  EXPECT_EQ(std::count(ended.begin(), ended.end(), rank), 1);
  EXPECT_EQ(std::count(ended.begin(), ended.end(), helper), 0);
  EXPECT_GE(ended.size(), 2u);
  std::erase(ended, rank);
  for (const pid_t pid : ended) Reap(pid);
  EXPECT_EQ(LookFor({}).ended_children, std::vector<pid_t>{rank});
  Reap(helper);
}

TEST_F(SweepTest, ALookTellsThePartsAndWhereTheyAre) {
  const pid_t rank =
      Run("exec 9>$LIFE; setsid env -i /bin/sh -c 'echo $$ >&9; "
          "exec sleep 1000' & echo $! >&9; wait",
          {});
  const RankSession session = {rank, start_ticks_};
  const std::vector<std::string> child = life_.Lines(2);
  ASSERT_EQ(child.size(), 2u);
  const Look look = LookFor({{.sessions = {session}}, {}});
  ASSERT_EQ(look.found.size(), 2u);
  ASSERT_EQ(look.found[0].size(), 2u);
  EXPECT_TRUE(look.found[1].empty());
  for (const FoundProcess& found : look.found[0]) {
    EXPECT_EQ(found.session, found.pid);
    EXPECT_EQ(found.pid == rank, std::to_string(found.pid) != child[0]);
  }
  // Without its parent, the child is known only from the earlier look.
  kill(-rank, SIGKILL);
  PeekExit(rank);
  EXPECT_TRUE(FindMatching({.sessions = {session}}).empty());
  EXPECT_EQ(Sweep({.processes = look.found[0]}, kPatience).ended, 1u);
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(SweepTest, SparesWhomItIsTold) {
  const pid_t pid = Run("exec 9>$LIFE; echo up >&9; exec sleep 1000", {});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const ProcessMatcher matcher = {.sessions = {{pid, start_ticks_}},
                                  .spared = {pid}};
  EXPECT_EQ(Sweep(matcher, kPatience).ended, 0u);
  EXPECT_TRUE(life_.SomebodyLives());
}

TEST_F(SweepTest, NeverItself) {
  const pid_t self = getpid();
  const ProcessMatcher matcher = {
      .sessions = {{getsid(0), 1}, {self, StartTicks(self)}},
      .spared = {getppid()}};
  for (const FoundProcess& found : FindMatching(matcher))
    EXPECT_NE(found.pid, self);
}

TEST_F(SweepTest, ChasesWhoKeepsForking) {
  const std::string marker = "ROLLCALL_SOCKET=" + folder_.path() + "/s";
  // Each process starts the next in a new session and ends. The chain ends when
  // this test's folder is removed, so a sweep that fails leaves nothing behind.
  Run("exec 9>$LIFE; echo up >&9; "
      "exec sh -c 'f() { setsid sh -c \"$0\" \"$0\" & }; f' "
      "'test -e \"$LIFE\" && setsid sh -c \"$0\" \"$0\" & sleep 0.01'",
      {marker});
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const SweepResult result = Sweep({.markers = {marker}}, kPatience);
  EXPECT_TRUE(result.left.empty());
  EXPECT_TRUE(life_.AllDead(5000));
}

TEST_F(SweepTest, ZombiesAreNobody) {
  const pid_t pid = Run("exit 0", {});
  PeekExit(pid);  // It has ended, but is not reaped.
  EXPECT_TRUE(FindMatching({.sessions = {{pid, start_ticks_}}}).empty());
}

TEST_F(SweepTest, CgroupHoldsWhoHasLeftEverything) {
  auto cgroup = RankCgroup::Make("rollcall-sweep-test");
  if (!cgroup) GTEST_SKIP() << "no cgroup v2 can be made here";
  Run("exec 9>$LIFE; setsid env -i /bin/sh -c '(echo up >&9; exec sleep 1000) "
      "&'",
      {}, cgroup->entrance());
  ASSERT_EQ(life_.Lines(1).size(), 1u);
  const SweepResult result = Sweep({.cgroups = {cgroup->folder()}}, kPatience);
  EXPECT_TRUE(result.left.empty());
  EXPECT_TRUE(life_.AllDead(1000));
  TearDown();
  EXPECT_TRUE(RemoveCgroup(cgroup->folder()));
  EXPECT_NE(access(cgroup->folder().c_str(), F_OK), 0);
}

TEST(OwnCgroupFolder, Table) {
  const std::string hybrid =
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string pure =
      "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
  const std::string bound =
      "30 23 0:26 /pod/a /sys/fs/my\\040cgroup ro - cgroup2 cgroup rw\n";
  const struct {
    std::string mounts, own, expect;
  } kRows[] = {
      {hybrid, "1:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"},
      {pure, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
      {bound, "0::/pod/a/b\n", "/sys/fs/my cgroup/b"},
      {bound, "0::/pod/a\n", "/sys/fs/my cgroup"},
      {bound, "0::/pod/ab\n", ""},
      {bound, "0::/elsewhere\n", ""},
      {pure, "0::/../../outside\n", ""},
      {pure, "1:cpu:/x\n", ""},
      {"", "0::/\n", ""},
      {"garbage - cgroup2 x\n - \n", "0::/\n", ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(OwnCgroupFolder(row.mounts, row.own), row.expect) << row.own;
  }
}

TEST(ExitWatch, TellsOfTheEndByEitherMeans) {
  for (const auto means :
       {ExitWatch::Means::kPidfd, ExitWatch::Means::kThread}) {
    auto rank = ForkRank({"/bin/sh", "-c", "exit 7"}, {}, -1);
    ASSERT_TRUE(rank.ok());
    ExitWatch watch(rank->pid, means);
    pollfd polled{watch.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 0), 0);  // It waits at its gate.
    Release(*rank);
    EXPECT_EQ(poll(&polled, 1, 20'000), 1);
    EXPECT_EQ(PeekExit(rank->pid).code, 7);
    EXPECT_EQ(PeekExit(rank->pid).code, 7);  // It is not reaped yet.
    Reap(rank->pid);
    EXPECT_EQ(PeekExit(rank->pid).code, 255);  // It is no child of ours now.
  }
}

TEST(ForkRank, OneThatIsNeverReleasedRunsNothing) {
  TempFolder folder;
  {
    auto rank =
        ForkRank({"/bin/sh", "-c", "touch " + (folder / "ran")}, {}, -1);
    ASSERT_TRUE(rank.ok());
    const pid_t pid = rank->pid;
    rank->gate.Close();
    PeekExit(pid);
    Reap(pid);
  }
  EXPECT_NE(access((folder / "ran").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace rollcall
