// What a launcher records, which processes it recognizes, and which processes
// wait for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/takeover/known_process.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/launch_record.h"
#include "client/launch/takeover/left_behind.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/journal/state_folder.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

class OwnFolder {
 public:
  OwnFolder() { path_ = mkdtemp(path_.data()); }
  ~OwnFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "launch-state-XXXXXX";
};

// A child process that waits until it is killed.
class Bystander {
 public:
  Bystander() {
    pid_ = fork();
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Bystander() { End(); }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

LaunchRecord Sample() {
  LaunchRecord record;
  record.terms.job = "demo";
  record.terms.settings.set_nodes_min(2);
  record.terms.settings.set_nodes_max(3);
  record.terms.settings.set_grow(v1::GROW_NEVER);
  record.terms.settings.mutable_linger()->set_seconds(90);
  record.terms.listen = "[::]:0";
  record.terms.wire = "--insecure";
  record.terms.node = "here";
  record.terms.local_workers = 1;
  record.terms.hosts = {{"b", "me@b", 8}};
  record.terms.agent_flags = {"--log-dir", "/a b/\"c\""};
  record.terms.command_digest = "abcd";
  record.ephemeral = true;
  record.port = 65535;
  record.place = {"boot", true, 18446744073709551615u, 7};
  record.daemon = {12, 34};
  record.agents = {{"here", true, {56, 78}},
                   {"local-1", false, {90, 18446744073709551615u}}};
  record.gone = {"there"};
  return record;
}

TEST(LaunchRecord, ComesBackAsItWas) {
  const std::string text = FormatLaunchRecord(Sample());
  const auto again = ParseLaunchRecord(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatLaunchRecord(*again), text);
  EXPECT_EQ(again->terms.settings.SerializeAsString(),
            Sample().terms.settings.SerializeAsString());
  EXPECT_EQ(again->agents[1].process.start_ticks, 18446744073709551615u);
  EXPECT_TRUE(again->agents[0].own);
  EXPECT_TRUE(again->place.process_one);
  EXPECT_EQ(again->place.lock_device, 18446744073709551615u);
  EXPECT_EQ(again->place.lock_inode, 7u);
  EXPECT_EQ(again->gone, std::vector<std::string>{"there"});
  ASSERT_EQ(again->terms.hosts.size(), 1u);
  EXPECT_EQ(FormatHost(again->terms.hosts[0]), "me@b slots=8");
}

// A record of an older version can be read. Missing fields prove nothing.
TEST(LaunchRecord, OneOfAnOlderRollcall) {
  const std::string text = FormatLaunchRecord(Sample());
  auto json = nlohmann::json::parse(text);
  for (const char* key : {"process_one", "lock", "gone", "hosts"})
    json.erase(key);
  const auto record = ParseLaunchRecord(json.dump());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(EndOf(record->place, {"boot", true, 0, 0}), LaunchEnd::kUnknown);
  EXPECT_TRUE(record->gone.empty());
  EXPECT_TRUE(record->terms.hosts.empty());
}

TEST(LaunchRecord, WhenAllOfAnEarlierLaunchHasEnded) {
  const struct {
    const char* what;
    LaunchPlace then;
    LaunchPlace now;
    LaunchEnd expect;
  } kRows[] = {
      {"a container that was started again",
       {"b", true, 1, 2},
       {"b", true, 1, 2},
       LaunchEnd::kNamespace},
      {"seen from outside of the container",
       {"b", true, 1, 2},
       {"b", false, 1, 2},
       LaunchEnd::kNamespace},
      // The launcher alone may have been killed, wherever the next launcher
      // runs.
      {"a launcher below a shell",
       {"b", false, 1, 2},
       {"b", false, 1, 2},
       LaunchEnd::kUnknown},
      {"a launcher below a shell, from another container",
       {"b", false, 1, 2},
       {"b", true, 1, 2},
       LaunchEnd::kUnknown},
      // The earlier launcher may still hold the lock whose inode it recorded.
      {"a copy of the folder",
       {"b", true, 1, 2},
       {"b", true, 1, 3},
       LaunchEnd::kUnknown},
      {"a file system that each container mounts for itself",
       {"b", true, 1, 2},
       {"b", true, 4, 2},
       LaunchEnd::kUnknown},
      {"a lock that could not be looked at",
       {"b", true, 0, 0},
       {"b", true, 0, 0},
       LaunchEnd::kUnknown},
      {"no boot id", {"", true, 1, 2}, {"", true, 1, 2}, LaunchEnd::kUnknown},
      {"another boot",
       {"b", false, 1, 2},
       {"c", false, 1, 2},
       LaunchEnd::kReboot},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(EndOf(row.then, row.now), row.expect) << row.what;
  }
}

TEST(LaunchRecord, WhatIsNoneIsSaidToBe) {
  const std::string whole = FormatLaunchRecord(Sample());
  const auto with = [&whole](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string bad[] = {
      "",
      "{",
      "[]",
      "null",
      whole.substr(0, whole.size() - 10),
      with("\"port\":65535", "\"port\":65536"),
      with("\"port\":65535", "\"port\":-1"),
      with("\"pid\":12", "\"pid\":2147483648"),
      with("\"pid\":12", "\"pid\":\"12\""),
      with("\"local_workers\":1", "\"local_workers\":1.5"),
      with("\"slots\":8", "\"slots\":65"),
      with("\"hosts\":[", "\"hosts\":[7,"),
      with("\"own\":true", "\"own\":1"),
      with("\"process_one\":true", "\"process_one\":1"),
      with("\"inode\":7", "\"inode\":-7"),
      with("\"gone\":[", "\"gone\":[7,"),
      with("\"GROW_NEVER\"", "\"GROW_LATER\""),
      with("\"agents\":[", "\"agents\":[7,"),
      with("\"version\":1", "\"version\":2"),
  };
  for (const std::string& text : bad) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ParseLaunchRecord(text).status()))
        << text;
  }
}

TEST(LaunchRecord, IsNobodyElsesBusiness) {
  const OwnFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadLaunchRecord(folder.path()).status()));
  ASSERT_TRUE(WriteLaunchRecord(folder.path(), Sample()).ok());
  struct stat info {};
  ASSERT_EQ(stat((folder.path() + kLaunchFile).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_TRUE(ReadLaunchRecord(folder.path()).ok());
}

TEST(LaunchFolder, IsNotLockedThroughALink) {
  const OwnFolder folder;
  const std::string victim = folder.path() + "/victim";
  std::ofstream(victim) << "kept";
  const std::string state = folder.path() + "/state";
  std::filesystem::create_directory(state);
  std::filesystem::permissions(state, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(victim, state + "/lock");
  EXPECT_TRUE(absl::IsFailedPrecondition(LaunchFolder::Open(state).status()));
  EXPECT_EQ(*ReadWholeFile(victim, 99), "kept");
  std::filesystem::remove(state + "/lock");
  EXPECT_TRUE(LaunchFolder::Open(state).ok());
}

TEST(KnownProcess, IsWatchedAndEnded) {
  Bystander other;
  const auto known = KnownProcess::Find(IdOf(other.pid()));
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_FALSE(known->Ended());
  known->Kill(SIGKILL);
  pollfd ended{known->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 10000), 1);
  EXPECT_TRUE(known->Ended());
  // The process has ended, but is not reaped yet.
  EXPECT_TRUE(absl::IsNotFound(KnownProcess::Find(IdOf(other.pid())).status()));
}

TEST(KnownProcess, ANumberAloneIsNobody) {
  Bystander other;
  ProcessId id = IdOf(other.pid());
  ASSERT_NE(id.start_ticks, 0u);
  ++id.start_ticks;
  EXPECT_TRUE(absl::IsNotFound(KnownProcess::Find(id).status()));
  EXPECT_TRUE(absl::IsNotFound(KnownProcess::Find({}).status()));
  EXPECT_TRUE(absl::IsNotFound(KnownProcess::Find({-1, 5}).status()));
  const ProcessId gone = IdOf(other.pid());
  other.End();
  EXPECT_TRUE(absl::IsNotFound(KnownProcess::Find(gone).status()));
  EXPECT_EQ(IdOf(gone.pid).pid, 0);
}

TEST(LookAround, FindsWhoIsStillTheSame) {
  const OwnFolder folder;
  const auto held = LaunchFolder::Open(folder.path());
  ASSERT_TRUE(held.ok()) << held.status();
  Bystander daemon, agent;
  LaunchRecord record = Sample();
  record.place = ThisPlace(**held);
  EXPECT_NE(record.place.lock_inode, 0u);
  EXPECT_FALSE(record.place.process_one);
  record.daemon = IdOf(daemon.pid());
  record.agents = {{"here", true, IdOf(agent.pid())},
                   {"local-1", false, {agent.pid(), 1}}};
  ASSERT_TRUE(WriteLaunchRecord(folder.path(), record).ok());
  const auto found = LookAround(**held);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->left.daemon_lives);
  EXPECT_EQ(found->left.living_agents, std::vector<std::string>{"here"});
  EXPECT_EQ(found->agents.at("here").pid(), agent.pid());
  EXPECT_EQ(found->left.ended, LaunchEnd::kUnknown);

  // After a boot, or in another container, all these pids belong to other
  // processes.
  LaunchRecord rebooted = record;
  rebooted.place.boot_id = "another";
  LaunchRecord contained = record;
  contained.place.process_one = true;
  for (const auto& [ended, expect] :
       {std::pair(rebooted, LaunchEnd::kReboot),
        std::pair(contained, LaunchEnd::kNamespace)}) {
    ASSERT_TRUE(WriteLaunchRecord(folder.path(), ended).ok());
    const auto none = LookAround(**held);
    ASSERT_TRUE(none.ok()) << none.status();
    EXPECT_EQ(none->left.ended, expect);
    EXPECT_FALSE(none->left.daemon_lives);
    EXPECT_TRUE(none->left.living_agents.empty());
    EXPECT_EQ(none->left.run, LeftBehind::Run::kNone);
  }
}

TEST(LookAround, NothingIsNothing) {
  const OwnFolder folder;
  const auto held = LaunchFolder::Open(folder.path());
  ASSERT_TRUE(held.ok()) << held.status();
  const auto found = LookAround(**held);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->left.record.has_value());
}

// Runs AwaitStart in a child process, and returns its result.
int Waited(int fd, void (*meanwhile)(StartGate&), StartGate& gate) {
  const pid_t child = fork();
  if (child == 0) {
    // Closes what exec would close.
    for (int other = 3; other < 256; ++other) {
      if (other != fd) close(other);
    }
    _exit(AwaitStart(fd) ? 1 : 0);
  }
  meanwhile(gate);
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(StartGate, LetsGoOrEnds) {
  EXPECT_TRUE(AwaitStart(-1));
  StartGate gate;
  SpawnOptions options;
  options.arguments = {"agent", "--name", "x"};
  ASSERT_TRUE(gate.HoldBack(options).ok());
  ASSERT_EQ(options.inherited_fds.size(), 1u);
  EXPECT_EQ(options.arguments[1], "--start-fd");
  EXPECT_EQ(Waited(
                options.inherited_fds[0], [](StartGate& g) { g.Open(); }, gate),
            1);
  // The holder of this gate dies.
  SpawnOptions more;
  more.arguments = {"daemon"};
  ASSERT_TRUE(gate.HoldBack(more).ok());
  EXPECT_EQ(
      Waited(
          more.inherited_fds[0], [](StartGate& g) { g = StartGate(); }, gate),
      0);
}

TEST(PassSecret, NeitherArgumentsNorEnvironmentHaveIt) {
  const std::string secret = "rc1.secret-" + std::string(4000, 'x');
  SpawnOptions options;
  options.arguments = {"agent", "--name", "x"};
  absl::StatusOr<Fd> passed = PassSecret(secret, options);
  ASSERT_TRUE(passed.ok()) << passed.status();
  ASSERT_EQ(options.inherited_fds, std::vector<int>{passed->get()});
  EXPECT_EQ(
      options.arguments,
      (std::vector<std::string>{"agent", "--secret-fd",
                                absl::StrCat(passed->get()), "--name", "x"}));
  EXPECT_TRUE(options.environment.empty());
  // Another process of this user cannot open the secret by its path either.
  const std::string path = absl::StrCat("/proc/self/fd/", passed->get());
  EXPECT_FALSE(Fd(open(path.c_str(), O_RDONLY | O_NONBLOCK)).open());
  const int fd = fcntl(passed->get(), F_DUPFD_CLOEXEC, 0);
  passed->Close();
  EXPECT_EQ(*TakePassedSecret(fd), secret);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  EXPECT_EQ(*TakePassedSecret(-1), "");
  // PassSecret never blocks, so it refuses a secret that the socket cannot
  // hold.
  EXPECT_FALSE(PassSecret(std::string(16 << 20, 'x'), options).ok());
}

TEST(LaunchFolder, OfAStandingDaemonIsLeftAsItIs) {
  const OwnFolder folder;
  const std::string state = folder.path() + "/state";
  ASSERT_TRUE(StateFolder::Open(state).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(LaunchFolder::Open(state).status()));
  EXPECT_FALSE(std::filesystem::exists(state + "/lock"));
  // If the launcher's lock was there before the daemon, the folder is the
  // launcher's.
  std::filesystem::remove(state + "/daemon.lock");
  ASSERT_TRUE(LaunchFolder::Open(state).ok());
  ASSERT_TRUE(StateFolder::Open(state).ok());
  EXPECT_TRUE(LaunchFolder::Open(state).ok());
}

}  // namespace
}  // namespace rollcall
