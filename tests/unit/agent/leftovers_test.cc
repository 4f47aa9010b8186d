// What ended agents leave behind, and how the next agent removes it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/processes/guard.h"
#include "client/facts/system/system.h"
#include "daemon/base/files/fd.h"
#include "daemon/core/limits.h"
#include "tests/unit/agent/run_folder_fixture.h"

namespace rollcall {
namespace {

TEST_F(RunFolderTest, SweepsWhatKilledAgentsLeftAndNothingElse) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  const std::string foreign = LeftBehind("rollcall-notours");
  const std::string longer = LeftBehind("rollcall-0123abcd-more");
  std::filesystem::rename(foreign, parent_ + "/other-0123abcd");
  auto living = RunFolder::Make(parent_);
  ASSERT_TRUE(living.ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/other-0123abcd"));
  EXPECT_TRUE(std::filesystem::exists(longer));
  // The folder is old, but its agent lives.
  const timeval old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimes((*living)->path().c_str(), old), 0);
  auto second = RunFolder::Make(parent_);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(std::filesystem::exists((*living)->path()));
}

TEST_F(RunFolderTest, EndsRanksThatNobodyIsLeftToEnd) {
  const std::string dead = parent_ + "/rollcall-0123abcd";
  std::filesystem::create_directories(dead);
  auto living = RunFolder::Make(parent_);
  ASSERT_TRUE(living.ok());
  // The folder is new but has a socket. So its agent had held the lock, and is
  // gone.
  std::ofstream(dead + "/agent.sock") << "";
  std::ofstream((*living)->socket()) << "";
  const pid_t orphan = StartWith("ROLLCALL_SOCKET=" + dead + "/agent.sock");
  const pid_t rank = StartWith("ROLLCALL_SOCKET=" + (*living)->socket());
  auto second = RunFolder::Make(parent_);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(std::filesystem::exists(dead));
  int status = 0;
  EXPECT_EQ(waitpid(orphan, &status, 0), orphan);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(waitpid(rank, &status, WNOHANG), 0);
  kill(rank, SIGKILL);
  waitpid(rank, &status, 0);
}

std::string PidNamespace() {
  return std::filesystem::read_symlink("/proc/self/ns/pid").string();
}

bool IsZombie(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z';
}

// A nonce of 16 bytes, and the same in hex.
std::string Nonce(char byte) {
  return std::string(Limits::incarnation_nonce_bytes, byte);
}
std::string Hex(char byte) { return absl::BytesToHexString(Nonce(byte)); }

TEST_F(RunFolderTest, TellsWhichLivesOfItsNodeAreGone) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  const std::string here = BootId() + " " + PidNamespace();
  std::ofstream(dead + "/lives")
      << "job node " << here << " " << Hex('a') << "\n"
      << "job node " << here << " " << Hex('b')
      << "\n"
      // Processes of these may still run, because they are not visible from
      // here.
      << "job node " << BootId() << " pid:[1] " << Hex('c') << "\n"
      << "job other " << here << " " << Hex('d') << "\n"
      << "other node " << here << " " << Hex('e') << "\n"
      << "job node an-earlier-boot pid:[1] " << Hex('f')
      << "\n"
      // These are no nonces: too short, too long, or not hex.
      << "job node " << here << " a1\n"
      << "job node " << here << " " << Hex('g') << "00\n"
      << "job node " << here << " " << std::string(32, 'x') << "\n"
      << "no line of ours\n";
  std::ofstream(dead + "/agent.sock") << "";
  const auto folder = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->swept(),
            (std::vector<std::string>{Nonce('a'), Nonce('b'), Nonce('f')}));
  EXPECT_FALSE(std::filesystem::exists(dead));
}

// Two nodes run on one machine, and both agents were killed.
TEST_F(RunFolderTest, AnotherNodesLivesAreLeftToItsNextAgent) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  std::ofstream(dead + "/lives") << "job node " << BootId() << " "
                                 << PidNamespace() << " " << Hex('a') << "\n";
  // The nonce was recorded long before the agent was killed.
  const timeval long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimes((dead + "/lives").c_str(), long_ago), 0);
  ASSERT_EQ(utimes(dead.c_str(), long_ago), 0);
  {
    const auto other = RunFolder::Make(parent_, "job", "other");
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE((*other)->swept().empty());
  }
  EXPECT_FALSE(std::filesystem::exists(dead + "/gen-1"));
  const auto node = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)->swept(), (std::vector<std::string>{Nonce('a')}));
  EXPECT_FALSE(std::filesystem::exists(dead));
  // A folder that no agent asks for is removed after a time.
  const std::string old = parent_ + "/rollcall-4567abcd";
  std::filesystem::create_directory(old);
  std::ofstream(old + "/lives") << "job gone - - " << Hex('a') << "\n";
  ASSERT_EQ(utimes(old.c_str(), long_ago), 0);
  ASSERT_TRUE(RunFolder::Make(parent_, "job", "node").ok());
  EXPECT_FALSE(std::filesystem::exists(old));
}

// Otherwise many folders that keep incarnations would make each agent read all
// of /proc many times.
TEST_F(RunFolderTest, AFolderIsSweptOnce) {
  const std::string dead = LeftBehind("rollcall-0123abcd");
  std::ofstream(dead + "/lives") << "job node " << BootId() << " "
                                 << PidNamespace() << " " << Hex('a') << "\n";
  const std::string marker = "ROLLCALL_SOCKET=" + dead + "/agent.sock";
  pid_t rank = StartWith(marker);
  int status = 0;
  ASSERT_TRUE(RunFolder::Make(parent_, "job", "other").ok());
  EXPECT_EQ(waitpid(rank, &status, 0), rank);
  EXPECT_TRUE(std::filesystem::exists(dead + "/lives"));
  // No rank can have this marker any more.
  rank = StartWith(marker);
  ASSERT_TRUE(RunFolder::Make(parent_, "job", "other").ok());
  EXPECT_EQ(waitpid(rank, &status, WNOHANG), 0);
  kill(rank, SIGKILL);
  waitpid(rank, &status, 0);
}

// Other users can write to this folder, so another user may have made the file
// first.
TEST_F(RunFolderTest, APipeInPlaceOfTheLockKeepsNobodyOut) {
  ASSERT_EQ(chmod(parent_.c_str(), 0777), 0);
  ASSERT_EQ(mkfifo((parent_ + "/rollcall-sweep.lock").c_str(), 0666), 0);
  EXPECT_TRUE(RunFolder::Make(parent_, "job", "node").ok());
}

// How an agent of this job and node ends, and what the next one reports as
// swept.
TEST_F(RunFolderTest, LivesOutliveTheirAgentUntilTheyAreForgotten) {
  using Lives = std::vector<std::string>;
  const struct {
    const char* how;
    std::function<void(RunFolder&)> ends;
    Lives expect;
  } kRows[] = {
      {"it never prepared for a world", [](RunFolder&) {}, {}},
      {"nobody knows of its end",
       [](RunFolder& f) {
         std::ofstream(f.path() + "/world.json") << "{}";
         f.RecordIncarnation(Nonce('a'));
         f.RecordIncarnation(Nonce('a'));
         f.RecordIncarnation(Nonce('b'));
       },
       {Nonce('a'), Nonce('b')}},
      {"nor of the next one's", [](RunFolder&) {}, {Nonce('a'), Nonce('b')}},
      {"nor of one that had a world",
       [](RunFolder& f) { f.RecordIncarnation(Nonce('c')); },
       {Nonce('a'), Nonce('b'), Nonce('c')}},
      {"too many",
       [](RunFolder& f) {
         for (int i = 0; i < Limits::swept_max - 1; ++i) {
           f.RecordIncarnation(Nonce(static_cast<char>('A' + i)));
         }
       },
       {Nonce('c'), Nonce('A'), Nonce('B'), Nonce('C'), Nonce('D'), Nonce('E'),
        Nonce('F'), Nonce('G'), Nonce('H'), Nonce('I'), Nonce('J'), Nonce('K'),
        Nonce('L'), Nonce('M'), Nonce('N'), Nonce('O')}},
      {"the daemon knows of its end",
       [](RunFolder& f) { f.ForgetIncarnations(); },
       {}},
  };
  for (const auto& row : kRows) {
    {
      const auto folder = RunFolder::Make(parent_, "job", "node");
      ASSERT_TRUE(folder.ok()) << folder.status();
      row.ends(**folder);
    }
    // There is at most one folder, with one file that only its user can read.
    size_t folders = 0;
    for (const auto& at : std::filesystem::directory_iterator(parent_)) {
      if (!at.is_directory()) continue;
      ++folders;
      for (const auto& in : std::filesystem::directory_iterator(at.path())) {
        EXPECT_EQ(in.path().filename(), "lives") << row.how;
        struct stat info;
        ASSERT_EQ(stat(in.path().c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777, 0600u) << row.how;
      }
    }
    EXPECT_EQ(folders, row.expect.empty() ? 0u : 1u) << row.how;
    const auto next = RunFolder::Make(parent_, "job", "node");
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ((*next)->swept(), row.expect) << row.how;
  }
}

// An agent of an older run of the job is alive, and cannot reach its daemon.
TEST_F(RunFolderTest, ALivingAgentOfTheNodeIsNamedAndLeftAlone) {
  const auto living = RunFolder::Make(parent_, "job", "node");
  ASSERT_TRUE(living.ok()) << living.status();
  (*living)->RecordIncarnation(Nonce('a'));
  std::filesystem::create_directories((*living)->path() + "/gen-3");
  std::ofstream((*living)->path() + "/gen-3/world.json")
      << R"({"run": "run-7"})";
  const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (*living)->socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const auto named = [&](const std::string& node) {
    const auto folder = RunFolder::Make(parent_, "job", node);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? (*folder)->living() : std::vector<std::string>();
  };
  EXPECT_TRUE(named("node").empty()) << "it has no ranks";
  const pid_t rank = StartWith("ROLLCALL_SOCKET=" + (*living)->socket());
  const std::vector<std::string> told = named("node");
  const std::vector<std::string> others = named("other");
  int status = 0;
  EXPECT_EQ(waitpid(rank, &status, WNOHANG), 0);
  kill(rank, SIGKILL);
  waitpid(rank, &status, 0);
  ASSERT_EQ(told.size(), 1u);
  for (const std::string& part :
       {std::string("job job, run run-7"), absl::StrCat("kill ", getpid())}) {
    EXPECT_TRUE(absl::StrContains(told[0], part)) << told[0];
  }
  EXPECT_TRUE(others.empty());
}

class TwoUsersTest : public RunFolderTest {
 protected:
  static constexpr uid_t kNobody = 65534;

  // A folder of user nobody, as a killed agent left it. Its rank is alive and
  // has a child of root, as after sudo. Once the rank has ended, nothing else
  // shows to which agent the child belongs.
  void SetUp() override {
    if (getuid() != 0) GTEST_SKIP() << "needs root, to have two users";
    std::filesystem::create_directory(dead_);
    ASSERT_EQ(chown(parent_.c_str(), kNobody, kNobody), 0);
    std::ofstream(dead_ + "/lives")
        << "job node " << BootId() << " " << PidNamespace() << " " << Hex('a')
        << "\n";
    std::ofstream(dead_ + "/agent.sock") << "";
    ASSERT_EQ(chown(dead_.c_str(), kNobody, kNobody), 0);
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    rank_ = fork();
    if (rank_ == 0) {
      const pid_t child = fork();
      if (child == 0) {
        close(ready[1]);
        for (;;) pause();
      }
      if (write(ready[1], &child, sizeof child) < 0) _exit(1);
      if (setuid(kNobody) != 0) _exit(1);
      std::string entry = marker_;
      std::string words[] = {"sleep", "infinity"};
      char* argv[] = {words[0].data(), words[1].data(), nullptr};
      char* environment[] = {entry.data(), nullptr};
      execve("/bin/sleep", argv, environment);
      _exit(1);
    }
    ASSERT_EQ(read(ready[0], &child_, sizeof child_), ssize_t{sizeof child_});
    close(ready[1]);
    char none;
    ASSERT_EQ(read(ready[0], &none, 1), 0);  // Closed by exec.
    close(ready[0]);
  }
  void TearDown() override {
    EndChild();
    if (rank_ <= 0) return;
    kill(rank_, SIGKILL);
    waitpid(rank_, nullptr, 0);
  }

  void EndChild() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    // The child's new parent may never reap it.
    while (kill(child_, 0) == 0 && !IsZombie(child_)) {
    }
    child_ = -1;
  }
  void ExpectRankKilled() {
    int status = 0;
    EXPECT_EQ(waitpid(rank_, &status, 0), rank_);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    rank_ = -1;
  }
  // Runs `run` in a process of user nobody, and returns the result.
  static int AsNobody(const std::function<int()>& run) {
    const pid_t pid = fork();
    if (pid == 0) _exit(setuid(kNobody) == 0 ? run() : 9);
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
  }
  // Returns 0 if the agent got its folder, and 1 if it was refused with an
  // error that names the child.
  int Make(const std::string& node) {
    return AsNobody([&] {
      const auto folder =
          RunFolder::Make(parent_, "job", node, absl::Seconds(30));
      const bool named =
          absl::StrContains(folder.status().message(), absl::StrCat(child_));
      return folder.ok() ? 0 : named ? 1 : 2;
    });
  }

  const std::string dead_ = parent_ + "/rollcall-0123abcd";
  const std::string marker_ = "ROLLCALL_SOCKET=" + dead_ + "/agent.sock";
  pid_t rank_ = -1;
  pid_t child_ = -1;
};

TEST_F(TwoUsersTest, WhatCannotBeEndedKeepsTheNextAgentsOut) {
  EXPECT_EQ(Make("node"), 1);
  EXPECT_TRUE(std::filesystem::exists(dead_));
  ExpectRankKilled();
  EXPECT_EQ(Make("node"), 1);
  // The agent of another node keeps the record of this folder.
  EXPECT_EQ(Make("other"), 0);
  EXPECT_EQ(Make("node"), 1);
  EXPECT_TRUE(std::filesystem::exists(dead_));
  EndChild();
  EXPECT_EQ(Make("node"), 0);
  EXPECT_FALSE(std::filesystem::exists(dead_));
}

TEST_F(TwoUsersTest, TheGuardRecordsWhatItCannotEnd) {
  int line[2];
  ASSERT_EQ(pipe2(line, O_CLOEXEC), 0);
  const std::string orders = "marker " + marker_ + "\n";
  ASSERT_EQ(write(line[1], orders.data(), orders.size()),
            static_cast<ssize_t>(orders.size()));
  close(line[1]);
  EXPECT_EQ(AsNobody([&] {
              dup2(line[0], 0);
              return GuardMain();
            }),
            0);
  close(line[0]);
  ExpectRankKilled();
  EXPECT_EQ(Make("node"), 1);
  EndChild();
  EXPECT_EQ(Make("node"), 0);
}

}  // namespace
}  // namespace rollcall
