// Saves that are killed, or fail, at each of their system calls in turn.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/checkpoint/checkpoint_fixture.h"
#include "trainer/checkpoint/checkpoint_names.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using Names = std::vector<std::string>;

enum class Fault { kNone, kKillBefore, kKillAfter, kKillHalfWay, kFail };

// The real system calls, except that call number `which` (from 1) has the
// fault. Nothing is really synced, because a process that ends loses nothing
// that it has written.
class Faulty {
 public:
  Faulty(Fault fault, int which) : fault_(fault), which_(which) {}

  DiskCalls Calls() {
    const DiskCalls real = DiskCalls::System();
    DiskCalls calls;
    calls.make_folder = [this, real](const std::string& path) {
      return Do<int>([&] { return real.make_folder(path); });
    };
    calls.create = [this, real](const std::string& path) {
      return Do<int>([&] { return real.create(path); });
    };
    calls.write = [this, real](int file, const void* bytes, size_t size) {
      return Do<ssize_t>([&] { return real.write(file, bytes, size); },
                         [&] { return real.write(file, bytes, size / 2); });
    };
    calls.sync = [this](int) { return Do<int>([] { return 0; }); };
    calls.sync_folder = [this](const std::string&) {
      return Do<int>([] { return 0; });
    };
    calls.rename = [this, real](const std::string& from,
                                const std::string& to) {
      return Do<int>([&] { return real.rename(from, to); });
    };
    calls.remove_file = [this, real](const std::string& path) {
      return Do<int>([&] { return real.remove_file(path); });
    };
    calls.remove_folder = [this, real](const std::string& path) {
      return Do<int>([&] { return real.remove_folder(path); });
    };
    return calls;
  }

  // Starts to count here, because the calls that opened the store are not part
  // of a save.
  void Arm() {
    made_ = 0;
    armed_ = true;
  }
  int made() const { return made_; }

 private:
  template <typename Result>
  Result Do(const std::function<Result()>& call,
            const std::function<Result()>& half = nullptr) {
    if (++made_ != which_ || !armed_ || fault_ == Fault::kNone) return call();
    switch (fault_) {
      case Fault::kFail:
        errno = EIO;
        return -1;
      case Fault::kKillAfter:
        call();
        break;
      case Fault::kKillHalfWay:
        if (half != nullptr) half();
        break;
      default:
        break;
    }
    kill(getpid(), SIGKILL);
    return -1;
  }

  const Fault fault_;
  const int which_;
  bool armed_ = false;
  int made_ = 0;
};

struct Scenario {
  const char* name;
  // The steps that were saved before, and a function that spoils the last of
  // them.
  std::vector<int64_t> before;
  void (*spoil)(const std::string& last);
  // The step that is saved next.
  int64_t step;
};

void EmptyConfig(const std::string& last) {
  std::ofstream(last + "/config.json", std::ios::trunc);
}

void LeaveUnfinished(const std::string& last) {
  std::filesystem::rename(last, last + ".partial");
}

const Scenario kScenarios[] = {
    {"TheFirstOne", {}, nullptr, 100},
    {"OneMoreThanIsKept", {100, 200}, nullptr, 300},
    {"TheSameStepAnew", {100}, nullptr, 100},
    {"OverADamagedOne", {100, 200}, EmptyConfig, 200},
    {"BesideAnUnfinishedOne", {100, 200}, LeaveUnfinished, 200},
};

class CheckpointFaults : public CheckpointFixture {
 protected:
  explicit CheckpointFaults(const Scenario& scenario) : scenario_(scenario) {}

  void SaveQuietly(int64_t step) {
    Faulty none(Fault::kNone, 0);
    auto store = Open(2, none.Calls());
    const absl::Status status = Save(*store, step);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Restores the folder to its state before the save.
  void Begin() {
    std::filesystem::remove_all(Path("run"));
    Open(2);
    for (const int64_t step : scenario_.before) SaveQuietly(step);
    if (scenario_.spoil == nullptr) return;
    scenario_.spoil(
        Path("run/" + FormatCheckpointName(scenario_.before.back())));
  }

  int64_t Newest() {
    auto store = Open(2);
    Names skipped;
    return NewestStep(*store, &skipped);
  }

  // The entries of the store's folder, without unfinished checkpoints.
  Names Finished() const {
    Names names = Entries();
    std::erase_if(names, [](const std::string& name) {
      return name.find(".partial") != std::string::npos;
    });
    return names;
  }

  // Runs a process that saves and meets `fault`. Returns true if it was killed.
  bool KilledAt(Fault fault, int which) {
    const pid_t child = fork();
    if (child == 0) {
      Faulty faulty(fault, which);
      auto store = Open(2, faulty.Calls());
      faulty.Arm();
      _exit(Save(*store, scenario_.step).ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      EXPECT_EQ(WTERMSIG(status), SIGKILL);
      return true;
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return false;
  }

  const Scenario scenario_;
};

// One test for each kind of kill, because one process for each call takes long
// on a busy machine.
class KilledSave : public CheckpointFaults,
                   public testing::WithParamInterface<
                       std::tuple<Scenario, std::pair<const char*, Fault>>> {
 protected:
  KilledSave() : CheckpointFaults(std::get<0>(GetParam())) {}
};

INSTANTIATE_TEST_SUITE_P(
    Each, KilledSave,
    testing::Combine(testing::ValuesIn(kScenarios),
                     testing::Values(std::pair("Before", Fault::kKillBefore),
                                     std::pair("After", Fault::kKillAfter),
                                     std::pair("HalfWay",
                                               Fault::kKillHalfWay))),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param).name,
                          std::get<1>(info.param).first);
    });

TEST_P(KilledSave, AtEveryCallInTurn) {
  const int64_t step = scenario_.step;
  Begin();
  const int64_t old = Newest();
  int killed = 0;
  for (int which = 1;; ++which) {
    SCOPED_TRACE(absl::StrCat("call ", which));
    Begin();
    const bool was_killed = KilledAt(std::get<1>(GetParam()).second, which);
    ASSERT_FALSE(HasFailure());
    if (!was_killed) break;  // The save has no further call.
    ++killed;
    const int64_t found = Newest();
    EXPECT_TRUE(found == old || found == step) << found;
    // Training continues from that step, and leftovers are removed.
    SaveQuietly(step);
    EXPECT_EQ(Newest(), step);
    SaveQuietly(1000);
    EXPECT_EQ(Newest(), 1000);
    EXPECT_EQ(Entries(), Finished());
    for (const std::string& name : Entries()) {
      EXPECT_EQ(name.find(".replaced"), std::string::npos) << name;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(killed, 15);
}

class FailedSave : public CheckpointFaults,
                   public testing::WithParamInterface<Scenario> {
 protected:
  FailedSave() : CheckpointFaults(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Each, FailedSave, testing::ValuesIn(kScenarios),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(FailedSave, AtEveryCallInTurn) {
  const int64_t step = scenario_.step;
  int refused = 0;
  for (int which = 1;; ++which) {
    SCOPED_TRACE(absl::StrCat("call ", which));
    Begin();
    const int64_t old = Newest();
    const Names before = Finished();
    Faulty faulty(Fault::kFail, which);
    auto store = Open(2, faulty.Calls());
    faulty.Arm();
    auto saved = store->Save(StateOf(step), TensorsOf(step));
    if (faulty.made() < which) break;
    if (saved.ok()) {
      // The fault came too late to matter.
      EXPECT_EQ(Newest(), step);
      EXPECT_EQ(saved->warnings.size(), 1u);
    } else {
      ++refused;
      EXPECT_EQ(Newest(), old);
      ExpectSays(saved.status().message(), {absl::StrCat("step ", step),
                                            Path("run"), "Input/output error"});
      EXPECT_EQ(Finished(), before);
    }
    SaveQuietly(1000);
    EXPECT_EQ(Newest(), 1000);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(refused, 15);
}

// Enters its own mount namespace, in which this user is root.
bool EnterOwnMounts() {
  const std::string uid = absl::StrCat("0 ", getuid(), " 1\n");
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << uid;
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

class FullDisk : public CheckpointFixture {};

TEST_F(FullDisk, IsReported) {
  std::filesystem::create_directory(Path("run"));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!EnterOwnMounts() ||
        mount("none", Path("run").c_str(), "tmpfs", 0, "size=128k") != 0) {
      _exit(77);
    }
    int refused = 0;
    auto store = Open();
    EXPECT_TRUE(Save(*store, 100).ok());
    // Each round leaves one more page of room, until the save fits.
    for (int pages = 0; !HasFailure(); ++pages) {
      const std::string fill = Path("run/fill");
      const int file = open(fill.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      const std::string page(4096, 'x');
      off_t size = 0;
      while (write(file, page.data(), page.size()) == 4096) size += 4096;
      if (ftruncate(file, std::max<off_t>(0, size - pages * 4096)) != 0) {
        _exit(2);
      }
      close(file);
      const Names before = Entries();
      auto saved = store->Save(StateOf(200), TensorsOf(200));
      Names skipped;
      EXPECT_EQ(NewestStep(*store, &skipped), saved.ok() ? 200 : 100);
      EXPECT_EQ(skipped, Names());
      if (saved.ok() && saved->warnings.empty()) break;
      if (saved.ok()) {
        // Everything but `latest` did fit.
        EXPECT_EQ(saved->warnings.size(), 1u);
        ExpectSays(saved->warnings[0], {"latest", "No space left"});
        std::filesystem::remove_all(saved->path);
      } else {
        ++refused;
        EXPECT_EQ(saved.status().code(), Code::kResourceExhausted);
        ExpectSays(
            saved.status().message(),
            {"checkpoint of step 200", Path("run/step-00000200.partial/"),
             "No space left on device"});
        EXPECT_EQ(Entries(), before);
      }
      unlink(fill.c_str());
    }
    EXPECT_GT(refused, 3);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "NOTICE: this user may not make a mount namespace with a "
                    "small tmpfs; the full disk was not tried";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace rollcall
