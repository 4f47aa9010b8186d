#include "client/agent/hosts/hosts_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/edit_file.h"
#include "client/agent/hosts/hosts_text.h"
#include "tests/unit/agent/hosts/hosts_fixture.h"

namespace rollcall {
namespace {

// --- The file ---------------------------------------------------------------

class HostsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rollcall-hosts-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/hosts";
    options_.lock_folders = {folder_};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string Read() {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  HostsFile File() { return HostsFile(path_, options_); }
  std::string NotePath() { return folder_ + "/" + UndoNoteName(path_); }

  // The names in the folder except the hosts file and its lock.
  std::vector<std::string> Leftovers() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name != "hosts" && name != LockName(path_)) names.push_back(name);
    }
    return names;
  }

  std::string folder_;
  std::string path_;
  EditFileOptions options_;
  std::vector<std::string> warnings_;
  const v1::World world_ = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
};

TEST_F(HostsFileTest, WritesAndRestoresToTheByte) {
  const std::string before = "127.0.0.1 localhost\n# mine, no newline";
  Write(before);
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  EXPECT_EQ(Entries(Read()),
            "10.0.0.1 a node-0.train.rollcall\n"
            "10.0.0.2 b node-1.train.rollcall\n");
  EXPECT_EQ(ParseHosts(Read()).rest, before);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_EQ(Read(), before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(HostsFileTest, MakesAFileAndTakesItAway) {
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(HostsFileTest, WritesInPlaceWhereAnotherNameShowsTheSameFile) {
  Write("127.0.0.1 localhost\n");
  const std::string twin = folder_ + "/twin";
  ASSERT_EQ(link(path_.c_str(), twin.c_str()), 0);
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 2u);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_EQ(Read(), "127.0.0.1 localhost\n");
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"twin"});
}

TEST_F(HostsFileTest, FollowsASymbolicLink) {
  const std::string real = folder_ + "/real";
  std::ofstream(real) << "127.0.0.1 localhost\n";
  ASSERT_EQ(symlink("real", path_.c_str()), 0);
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
}

TEST_F(HostsFileTest, UndoesAnInPlaceWriteThatWasCutOff) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine\n";
  const std::string after = Put(before, world_, Owner("dead", 1));
  for (size_t k = 1; k < after.size(); k += 7) {
    std::string torn = before;
    if (torn.size() < k) torn.resize(k);
    torn.replace(0, k, after.substr(0, k));
    Write(torn);
    std::ofstream(NotePath()) << FormatUndoNote({before, after});
    ASSERT_EQ(chmod(NotePath().c_str(), 0600), 0);
    const HostsOwner owner = ThisOwner("a");
    ASSERT_TRUE(
        File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
    EXPECT_EQ(ParseHosts(Read()).rest, before) << k;
    ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
    EXPECT_EQ(Read(), before) << k;
    EXPECT_NE(access(NotePath().c_str(), F_OK), 0);
  }
}

TEST_F(HostsFileTest, AnUndoNoteThatDoesNotFitOrIsNotOursIsPassedOver) {
  const std::string now = "10.9.9.9 edited since\n";
  Write(now);
  std::ofstream(NotePath()) << FormatUndoNote({"old\n", "new\n"});
  ASSERT_EQ(chmod(NotePath().c_str(), 0600), 0);
  ASSERT_TRUE(File().Remove("train", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), now);
  // Any user could have written this note, so it is ignored although the file
  // looks like a torn write.
  Write("ne");
  std::ofstream(NotePath()) << FormatUndoNote({"", "new\n"});
  ASSERT_EQ(chmod(NotePath().c_str(), 0666), 0);
  ASSERT_TRUE(File().Remove("train", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), "ne");
}

// A child whose file size is limited dies of SIGXFSZ in the middle of its
// in-place write. This is a real crash.
TEST_F(HostsFileTest, AWriterThatIsKilledInTheMiddleCostsNothing) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine\n";
  Write(before);
  ASSERT_EQ(link(path_.c_str(), (folder_ + "/twin").c_str()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string after = Put(before, world_, ThisOwner("a"));
    // The child writes the undo note first, as EditFile does. Then its write of
    // the file is cut off.
    std::ofstream(NotePath()) << FormatUndoNote({before, after});
    chmod(NotePath().c_str(), 0600);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int fd = open(path_.c_str(), O_WRONLY);
    for (size_t at = 0; at < after.size();) {
      at += pwrite(fd, after.data() + at, after.size() - at, at);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the write was not cut off";
  EXPECT_EQ(Read().size(), 100u);
  ASSERT_TRUE(File().Remove("other", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), before);
}

TEST_F(HostsFileTest, SaysWhyItCannot) {
  struct {
    const char* path;
    absl::StatusCode code;
  } const kRows[] = {
      {"/tmp", absl::StatusCode::kFailedPrecondition},
      {"/dev/null", absl::StatusCode::kFailedPrecondition},
      {"/nonexistent-folder/hosts", absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& row : kRows) {
    HostsFile file(row.path, options_);
    EXPECT_EQ(
        file.Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
            .code(),
        row.code)
        << row.path;
  }
  // Two lock folders cannot be used: one cannot be made, and others may write
  // to the other one. Others may also write to the file's own folder.
  Write("x\n");
  options_.lock_folders = {"/nonexistent-folder/below", "/tmp"};
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(File()
                .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Read(), "x\n");
  // The next usable lock folder is used, and the file's own folder last.
  options_.lock_folders.push_back(folder_ + "/locks");
  EXPECT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_EQ(access((folder_ + "/locks/" + LockName(path_)).c_str(), F_OK), 0);
  options_.lock_folders.pop_back();
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
}

TEST_F(HostsFileTest, BadNamesOfJobRunAndNodeAreRefused) {
  Write("x\n");
  const HostsOwner owner = ThisOwner("a");
  v1::World world = world_;
  world.set_job("Not A Job");
  EXPECT_EQ(File().Write(world, 0, NoneFound(world), owner, &warnings_).code(),
            absl::StatusCode::kInvalidArgument);
  world = world_;
  world.set_run("r1\n6.6.6.6 evil");
  EXPECT_EQ(File().Write(world, 0, NoneFound(world), owner, &warnings_).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a b"), &warnings_)
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(), "x\n");
}

TEST_F(HostsFileTest, ALockFileThatIsALinkIsNotFollowed) {
  Write("x\n");
  const std::string lock = folder_ + "/" + LockName(path_);
  ASSERT_EQ(symlink(path_.c_str(), lock.c_str()), 0);
  EXPECT_EQ(File()
                .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Read(), "x\n");
}

// Another user has made a file of every name that a lock could have.
TEST_F(HostsFileTest, LocksThatOthersMadeBeforehandDoNotSwitchTheBlockOff) {
  Write("x\n");
  if (geteuid() != 0) {
    GTEST_SKIP() << "NOTICE: only root can make files of another user; not "
                    "tried";
  }
  const std::string shared = folder_ + "/shared";
  const std::string theirs = folder_ + "/theirs";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(mkdir(shared.c_str(), 0777), 0);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  ASSERT_EQ(mkdir(theirs.c_str(), 0755), 0);
  ASSERT_EQ(chown(theirs.c_str(), 65534, 65534), 0);
  ASSERT_EQ(symlink(theirs.c_str(), link.c_str()), 0);
  const std::string lock = shared + "/" + LockName(path_);
  std::ofstream(lock).flush();
  ASSERT_EQ(chown(lock.c_str(), 65534, 65534), 0);
  options_.lock_folders = {shared, theirs, link};
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  EXPECT_EQ(access((theirs + "/" + LockName(path_)).c_str(), F_OK), -1);
}

TEST_F(HostsFileTest, AHeldLockCostsATimeoutAndNoMore) {
  Write("x\n");
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  const std::string lock = folder_ + "/" + LockName(path_);
  const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  options_.lock_timeout = absl::Milliseconds(30);
  EXPECT_EQ(File().Remove("train", "r1", ThisOwner("a"), &warnings_).code(),
            absl::StatusCode::kUnavailable);
  close(fd);
  options_.lock_timeout = absl::Seconds(10);
  EXPECT_TRUE(File().Remove("train", "r1", ThisOwner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), "x\n");
}

TEST_F(HostsFileTest, WithoutPermissionThereIsAStatusAndNothingElse) {
  Write("127.0.0.1 localhost\n");
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  }
  const std::string locks = folder_ + "-locks";
  const pid_t child = fork();
  if (child == 0) {
    // Root may write everything, so the child becomes another user.
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(9);
    options_.lock_folders = {locks};
    std::vector<std::string> warnings;
    const auto status =
        HostsFile(path_, options_)
            .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings);
    std::filesystem::remove_all(locks);
    _exit(static_cast<int>(status.code()));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status),
            static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(Read(), "127.0.0.1 localhost\n");
  chmod(folder_.c_str(), 0755);
}

// Each writer adds its block, checks that it is in the file, and removes it,
// `rounds` times. In the end the file is unchanged.
void Hammer(const HostsFile& shared, const std::string& node, int rounds,
            int* failures) {
  HostsFile file = shared;
  const HostsOwner owner = ThisOwner(node);
  std::vector<std::string> warnings;
  for (int i = 0; i < rounds; ++i) {
    v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}}, i + 1);
    // Odd writers use a job of their own.
    if (node.back() % 2 == 1) world.set_job("job-" + node);
    if (!file.Write(world, 0, NoneFound(world), owner, &warnings).ok())
      ++*failures;
    if (!file.Remove(world.job(), "r1", owner, &warnings).ok()) ++*failures;
  }
}

TEST_F(HostsFileTest, ThreadsAndProcessesMayHammerOneFile) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine";
  Write(before);
  for (const bool in_place : {false, true}) {
    if (in_place) {
      ASSERT_EQ(link(path_.c_str(), (folder_ + "/twin").c_str()), 0);
    }
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        int failures = 0;
        Hammer(File(), absl::StrCat("p", i), 20, &failures);
        _exit(failures == 0 ? 0 : 1);
      }
      children.push_back(child);
    }
    int failures[2] = {0, 0};
    std::thread one(Hammer, File(), "t0", 20, &failures[0]);
    std::thread two(Hammer, File(), "t1", 20, &failures[1]);
    one.join();
    two.join();
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(failures[0], 0);
    EXPECT_EQ(failures[1], 0);
    EXPECT_EQ(Read(), before) << (in_place ? "in place" : "by rename");
  }
}

TEST_F(HostsFileTest, ABlockOfAKilledAgentIsSweptByTheNext) {
  Write("x\n");
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::string> warnings;
    _exit(File().Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings)
                  .ok()
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  ASSERT_TRUE(File().Remove("other", "r9", ThisOwner("b"), &warnings_).ok());
  EXPECT_EQ(Read(), "x\n");
}

TEST(HostsOwner, ReadsBackAsItIsWritten) {
  HostsOwner owner = Owner("a-1.b");
  EXPECT_EQ(ParseHostsOwner(FormatHostsOwner(owner)), owner);
  owner.boot_id.clear();
  owner.node.clear();
  EXPECT_EQ(ParseHostsOwner(FormatHostsOwner(owner)), owner);
  for (const char* text : {"", "pid=1", "pid=x start=1 pidns=1", "pid"}) {
    EXPECT_EQ(ParseHostsOwner(text), std::nullopt) << text;
  }
}

// A power cut leaves blocks like these. The node is a spare from then on.
TEST_F(HostsFileTest, DeadBlocksGoWithoutABlockOfOnesOwn) {
  const std::string rest = "127.0.0.1 localhost\n";
  HostsOwner dead = ThisOwner("z");
  dead.boot_id = "an-earlier-boot";
  const std::string living =
      Put(rest, MakeWorld({{"a", "10.0.0.1"}}, 1, "lives"), ThisOwner("a"));
  Write(Put(living, world_, dead));
  const std::vector<HostsBlock> found = File().DeadBlocks();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].job, "train");
  EXPECT_TRUE(File().RemoveDead().empty());
  EXPECT_EQ(Read(), living);
  EXPECT_TRUE(File().DeadBlocks().empty());
  // Without dead blocks, no lock is taken and nothing is written.
  options_.lock_folders = {folder_ + "/none"};
  EXPECT_TRUE(File().RemoveDead().empty());
  EXPECT_TRUE(warnings_.empty());
}

// Every container has a hosts file that is a mount point.
TEST_F(HostsFileTest, WritesInPlaceOverABindMount) {
  Write("127.0.0.1 localhost\n");
  const std::string source = folder_ + "/source";
  std::ofstream(source) << "127.0.0.1 localhost\n";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(source.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      _exit(77);
    }
    const HostsOwner owner = ThisOwner("a");
    std::vector<std::string> warnings;
    if (rename(source.c_str(), path_.c_str()) == 0 || errno != EBUSY) _exit(2);
    if (!File().Write(world_, 0, NoneFound(world_), owner, &warnings).ok())
      _exit(3);
    if (ParseHosts(Read()).blocks.size() != 1) _exit(4);
    if (!File().Remove("train", "r1", owner, &warnings).ok()) _exit(5);
    if (Read() != "127.0.0.1 localhost\n") _exit(6);
    // We made the file and it is a mount point, so it cannot be removed and is
    // left empty.
    std::ofstream(path_, std::ios::trunc).flush();
    EXPECT_TRUE(EditFile(path_, options_, [](const std::string&, bool) {
                  return EditedText{"", true};
                }).ok());
    _exit(access(path_.c_str(), F_OK) == 0 ? 0 : 7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "NOTICE: this user may not make a mount namespace; the "
                    "bind mount was not tried";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"source"});
}

TEST(HostsOwner, LivesAsLongAsItsProcess) {
  const HostsOwner self = ThisOwner("a");
  EXPECT_TRUE(HostsOwnerLives(self));
  HostsOwner owner = self;
  owner.start_ticks += 1;
  EXPECT_FALSE(HostsOwnerLives(owner)) << "its pid was given to another";
  owner = self;
  owner.boot_id = "another boot";
  EXPECT_FALSE(HostsOwnerLives(owner));
  owner = self;
  owner.pid_namespace += 1;
  owner.pid = 1 << 30;
  EXPECT_TRUE(HostsOwnerLives(owner)) << "another container: cannot be judged";
  owner = self;
  owner.pid = 1 << 30;
  EXPECT_FALSE(HostsOwnerLives(owner));
  owner.pid = -1;
  EXPECT_FALSE(HostsOwnerLives(owner)) << "never a process group";
}

}  // namespace
}  // namespace rollcall
