// The test binary plays three parts: the test, an agent that will be killed
// ("agent"), and that agent's guard ("guard"); see main.
#include "client/agent/processes/guard.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/agent/hosts/edit_file.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/agent/processes/processes.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/file_lock.h"
#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

// Writes the names of a world of one node.
absl::Status WriteHosts(const std::string& path, const std::string& job,
                        const HostsOwner& owner) {
  v1::World world;
  world.set_job(job);
  world.set_run("r1");
  world.set_generation(1);
  world.set_world_size(1);
  v1::Member& member = *world.add_members();
  member.set_node(owner.node);
  member.set_address("10.0.0.1");
  member.set_ranks(1);
  std::vector<std::string> warnings;
  return HostsFile(path).Write(world, 0, HostsNames(), owner, &warnings);
}

// The child processes of `parent` whose command is a guard.
std::vector<pid_t> GuardsOf(pid_t parent) {
  std::vector<pid_t> guards;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const std::string folder = absl::StrCat("/proc/", pid);
    if (ReadFile(folder + "/cmdline") != std::string("rollcall\0guard\0", 15)) {
      continue;
    }
    const std::string stat = ReadFile(folder + "/stat");
    const std::vector<std::string> fields = absl::StrSplit(
        stat.substr(std::min(stat.size(), stat.rfind(')') + 2)), ' ');
    pid_t its_parent = 0;
    if (fields.size() > 1 && fields[0] != "Z" &&
        absl::SimpleAtoi(fields[1], &its_parent) && its_parent == parent) {
      guards.push_back(pid);
    }
  }
  return guards;
}

// Waits for a guard of `parent` other than `not_this`; 0: there is none. No
// event tells an unrelated process of an exec, so this polls.
pid_t AwaitGuardOf(pid_t parent, pid_t not_this) {
  const absl::Time deadline = MonotonicNow() + absl::Seconds(20);
  while (MonotonicNow() < deadline) {
    for (const pid_t pid : GuardsOf(parent)) {
      if (pid != not_this) return pid;
    }
    sched_yield();
  }
  return 0;
}

class GuardTest : public testing::Test {
 protected:
  // Starts an agent with one rank that runs `script`. `hosts`: the file to
  // which it writes its names; empty: none.
  void StartAgent(const std::string& script, const std::string& hosts = "") {
    std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::string mode = "agent", life = life_.path(), command = script;
    std::string file = hosts;
    char* const argv[] = {self.data(),    mode.data(), life.data(),
                          command.data(), file.data(), nullptr};
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    ASSERT_EQ(
        posix_spawn(&agent_, self.c_str(), nullptr, &attributes, argv, environ),
        0);
    posix_spawnattr_destroy(&attributes);
  }

  void KillAgent() {
    if (agent_ == 0) return;
    kill(agent_, SIGKILL);
    waitpid(agent_, nullptr, 0);
    agent_ = 0;
  }

  void TearDown() override { KillAgent(); }

  // Kills the agent and waits until its guard has cleaned up.
  void KillAgentAndAwaitGuard() {
    const pid_t guard = AwaitGuard(0);
    ASSERT_GT(guard, 0);
    const Fd guard_end(syscall(SYS_pidfd_open, guard, 0));
    KillAgent();
    pollfd polled{guard_end.get(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 20'000), 1);
  }

  pid_t AwaitGuard(pid_t not_this) { return AwaitGuardOf(agent_, not_this); }

  TempFolder folder_;
  LifeLine life_{folder_ / "life"};
  pid_t agent_ = 0;
};

// A rank with a child, a grandchild that ignores signals, and a daemon that has
// left its parent and session. They write four lines, and are at least four
// processes.
constexpr char kFamily[] =
    "exec 9>$LIFE; trap '' TERM HUP INT; echo rank >&9; "
    "sh -c 'echo child >&9; sh -c \"echo grandchild >&9; sleep 1000\"; true' & "
    "setsid sh -c '(echo daemon >&9; exec sleep 1000) &'; "
    "while :; do sleep 1000; done";

TEST_F(GuardTest, KillsAllWhenTheAgentIsKilled) {
  StartAgent(kFamily);
  ASSERT_EQ(life_.Lines(4).size(), 4u);
  EXPECT_TRUE(life_.SomebodyLives());
  const pid_t guard = AwaitGuard(0);
  ASSERT_GT(guard, 0);
  const Fd guard_end(syscall(SYS_pidfd_open, guard, 0));
  KillAgent();
  EXPECT_TRUE(life_.AllDead(10'000));
  // Then the guard itself ends.
  pollfd polled{guard_end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
}

// Waits until the agent has reaped two orphans, one after the other. The look
// at /proc that found the first may have begun before this script did, but the
// next look did not. After that, the guard knows all processes that were hidden
// before. An orphan ends only when its parent is gone, because its parent could
// reap it otherwise.
constexpr char kAwaitLook[] =
    "for i in 1 2; do setsid sh -c '(while kill -0 $$ 2>/dev/null; do :; done) "
    "& echo $! > $LIFE.orphan'; "
    "while kill -0 $(cat $LIFE.orphan) 2>/dev/null; do :; done; done; "
    "echo looked >&9; exec sleep 1000";

TEST_F(GuardTest, KillsAHiddenOneThatTheAgentHadFound) {
  // The process has its own session and no marker, and its parent has ended.
  StartAgent(
      absl::StrCat("exec 9>$LIFE; setsid env -i /bin/sh -c '", kLeaveCgroup,
                   "(echo hidden >&9; exec sleep 1000) &'; ", kAwaitLook));
  ASSERT_EQ(life_.Lines(2).size(), 2u);
  KillAgentAndAwaitGuard();
  EXPECT_TRUE(life_.AllDead(0));
}

TEST_F(GuardTest, KillsAHiddenOneWhoseParentDiesWithTheAgent) {
  StartAgent(
      absl::StrCat("exec 9>$LIFE; setsid env -i /bin/sh -c '", kLeaveCgroup,
                   "echo hidden >&9; echo up >$0; exec sleep 1000' $LIFE.up & "
                   "while ! test -s $LIFE.up; do :; done; ",
                   kAwaitLook));
  ASSERT_EQ(life_.Lines(2).size(), 2u);
  // A new guard is told of the hidden process, too.
  const pid_t first = AwaitGuard(0);
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  ASSERT_GT(AwaitGuard(first), 0);
  KillAgent();
  EXPECT_TRUE(life_.AllDead(10'000));
}

// An agent that has written its names to a hosts file of the test.
class GuardedHostsTest : public GuardTest {
 protected:
  void SetUp() override { std::ofstream(path_) << kBefore; }
  void TearDown() override {
    GuardTest::TearDown();
    // Removes the locks; the file itself is gone now.
    for (const std::string& folder : LockFolders({geteuid(), false})) {
      unlink(absl::StrCat(folder, "/", LockName(path_)).c_str());
    }
  }

  // Starts an agent that writes its names before its rank writes `up`.
  void StartWriter() {
    StartAgent("exec 9>$LIFE; echo up >&9; sleep 1000", path_);
    ASSERT_EQ(life_.Lines(1).size(), 1u);
    ASSERT_EQ(ParseHosts(ReadFile(path_)).blocks.size(), 1u);
  }

  static constexpr char kBefore[] = "127.0.0.1 localhost\n";
  const std::string path_ = folder_ / "hosts";
};

TEST_F(GuardedHostsTest, TheNamesOfAKilledAgentGo) {
  StartWriter();
  KillAgentAndAwaitGuard();
  EXPECT_TRUE(life_.AllDead(0));
  EXPECT_EQ(ReadFile(path_), kBefore);
}

TEST_F(GuardedHostsTest, TheyStayWhereAnotherOwnerLives) {
  StartWriter();
  const HostsOwner other = ThisOwner("other");
  ASSERT_TRUE(WriteHosts(path_, "train", other).ok());
  ASSERT_TRUE(WriteHosts(path_, "another-job", other).ok());
  const std::vector<HostsBlock> before = ParseHosts(ReadFile(path_)).blocks;
  ASSERT_EQ(before.size(), 2u);
  KillAgentAndAwaitGuard();
  const std::vector<HostsBlock> after = ParseHosts(ReadFile(path_)).blocks;
  ASSERT_EQ(after.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after[i].job, before[i].job);
    EXPECT_EQ(after[i].entries, before[i].entries);
    EXPECT_EQ(after[i].owners, std::vector<HostsOwner>{other});
  }
}

TEST_F(GuardTest, OutlivesTheSignalsOfATerminal) {
  StartAgent(kFamily);
  ASSERT_EQ(life_.Lines(4).size(), 4u);
  const pid_t guard = AwaitGuard(0);
  ASSERT_GT(guard, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    kill(guard, signal);
  }
  kill(-agent_, SIGKILL);  // The agent's whole session, as a hang-up would.
  KillAgent();
  EXPECT_TRUE(life_.AllDead(10'000));
}

TEST_F(GuardTest, AnotherTakesThePlaceOfOneThatWasKilled) {
  StartAgent(kFamily);
  ASSERT_EQ(life_.Lines(4).size(), 4u);
  const pid_t first = AwaitGuard(0);
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  const pid_t second = AwaitGuard(first);
  ASSERT_GT(second, 0);
  EXPECT_TRUE(life_.SomebodyLives());
  KillAgent();
  EXPECT_TRUE(life_.AllDead(10'000));
}

TEST_F(GuardTest, TheMarkerIsNeitherInItsArgumentsNorInItsEnvironment) {
  setenv("ROLLCALL_JOIN", "secret", 1);
  setenv("HARMLESS", "1", 1);
  Guard guard("/proc/self/exe", "ROLLCALL_SOCKET=/x");
  ASSERT_TRUE(guard.Start().ok());
  unsetenv("ROLLCALL_JOIN");
  unsetenv("HARMLESS");
  // The guard is found by its argv, which must be exactly this.
  EXPECT_EQ(AwaitGuardOf(getpid(), 0), guard.pid());
  const std::string folder = absl::StrCat("/proc/", guard.pid());
  const std::string environment = ReadFile(folder + "/environ");
  EXPECT_EQ(environment.find("ROLLCALL_JOIN"), std::string::npos);
  EXPECT_EQ(environment.find("ROLLCALL_SOCKET"), std::string::npos);
  EXPECT_NE(environment.find("HARMLESS=1"), std::string::npos);
}

TEST_F(GuardTest, ItsDeathIsSeenAndItsEndIsClean) {
  Guard guard("/proc/self/exe", "");
  ASSERT_TRUE(guard.Start().ok());
  pollfd polled{guard.watched(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  kill(guard.pid(), SIGKILL);
  EXPECT_EQ(poll(&polled, 1, 20'000), 1);
  guard.AddSession({123456, 1});  // No guard reads this; no SIGPIPE.
  guard.End();
  EXPECT_FALSE(guard.running());
  ASSERT_TRUE(guard.Start().ok());
  EXPECT_TRUE(guard.running());
}

TEST_F(GuardTest, OneThatIsStoppedDoesNotHoldUpTheEnd) {
  Guard guard("/proc/self/exe", "");
  ASSERT_TRUE(guard.Start().ok());
  kill(guard.pid(), SIGSTOP);
  // The destructor kills the guard after a second.
}

TEST_F(GuardTest, ABinaryThatIsNotThere) {
  Guard guard("/no/such/binary", "");
  EXPECT_EQ(guard.Start().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(guard.running());
}

TEST(GuardOrders, Table) {
  GuardOrders orders;
  const auto shape = [&] {
    std::string text = absl::StrJoin(orders.matcher().markers, "+");
    for (const RankSession& s : orders.matcher().sessions) {
      absl::StrAppend(&text, " ", s.id, "@", s.start_ticks);
    }
    for (const std::string& c : orders.matcher().cgroups) {
      absl::StrAppend(&text, " ", c);
    }
    for (const FoundProcess& p : orders.matcher().processes) {
      absl::StrAppend(&text, " ", p.pid, "!", p.start_ticks);
    }
    if (!orders.hosts().path.empty()) {
      absl::StrAppend(&text, " ", orders.hosts().owner.pid, ":",
                      orders.hosts().owner.node, ">", orders.hosts().path);
    }
    return text + (orders.done() ? " done" : "");
  };
  const struct {
    std::string line, expect;
  } kRows[] = {
      {"marker A=b c", "A=b c"},
      {"session 10 99", "A=b c 10@99"},
      {"session 11 100", "A=b c 10@99 11@100"},
      {"cgroup /c/d e", "A=b c 10@99 11@100 /c/d e"},
      {"", "A=b c 10@99 11@100 /c/d e"},
      {"session 1 5", "A=b c 10@99 11@100 /c/d e"},   // Never process 1.
      {"session -1 5", "A=b c 10@99 11@100 /c/d e"},  // Nor -1, which is all.
      {"session 12", "A=b c 10@99 11@100 /c/d e"},
      {"session x y", "A=b c 10@99 11@100 /c/d e"},
      {"cgroup relative", "A=b c 10@99 11@100 /c/d e"},
      {"nonsense 1", "A=b c 10@99 11@100 /c/d e"},
      {"forget 10", "A=b c 11@100 /c/d e"},
      {"forget /c/d e", "A=b c 11@100"},
      {"forget", "A=b c 11@100"},
      {"process 20 30", "A=b c 11@100 20!30"},
      {"process 1 30", "A=b c 11@100 20!30"},
      {"process 21", "A=b c 11@100 20!30"},
      {"process 21 31", "A=b c 11@100 20!30 21!31"},
      {"ended 20 31", "A=b c 11@100 20!30 21!31"},  // Not the same process.
      {"ended 20 30", "A=b c 11@100 21!31"},
      {"forget 21", "A=b c 11@100 21!31"},
      {"ended 21 31", "A=b c 11@100"},
      {"owner pid=7 start=8 boot=b pidns=9 node=n", "A=b c 11@100"},
      {"hosts etc/hosts", "A=b c 11@100"},
      {"hosts /etc/my hosts", "A=b c 11@100 7:n>/etc/my hosts"},
      {"owner pid=6", "A=b c 11@100 7:n>/etc/my hosts"},
      {"done", "A=b c 11@100 7:n>/etc/my hosts done"},
  };
  for (const auto& row : kRows) {
    orders.Read(row.line);
    EXPECT_EQ(shape(), row.expect) << row.line;
  }
}

// The main function of the agent that will be killed.
int AgentMain(const std::string& life, const std::string& script,
              const std::string& hosts) {
  ProcessesOptions options;
  options.node = "victim";
  options.hosts_file = hosts;
  options.subreaper = BecomeSubreaper();
  options.marker = "ROLLCALL_SOCKET=" + life + ".socket";
  Processes processes(options, {[](RankEnded) {}, [](RanksGone) {}});
  RankCommand command;
  command.argv = {"/bin/sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin", options.marker, "LIFE=" + life};
  if (!hosts.empty() &&
      !WriteHosts(hosts, "train", ThisOwner(options.node)).ok()) {
    return 1;
  }
  if (!processes.Start(1, {command}).ok()) return 1;
  while (true) pause();
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "guard") return rollcall::GuardMain();
  if (mode == "agent" && argc == 5)
    return rollcall::AgentMain(argv[2], argv[3], argv[4]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
