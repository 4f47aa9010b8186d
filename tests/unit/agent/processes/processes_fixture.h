// Shared by the tests of the rank processes. The test binary is its own guard;
// see main in processes_test.cc.
#ifndef ROLLCALL_TESTS_UNIT_AGENT_PROCESSES_PROCESSES_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_AGENT_PROCESSES_PROCESSES_FIXTURE_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/processes.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {

inline constexpr absl::Duration kLong = absl::Seconds(60);

// Collects what the callbacks report.
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
              for (const RankIncarnation& incarnation : gone.ranks)
                incarnations_gone_.push_back(incarnation);
              changed_.NotifyAll();
            }};
  }

  bool AwaitGone(uint64_t generation) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::count(gone_.begin(), gone_.end(), generation) > 0;
    });
  }
  bool AwaitGone(const RankIncarnation& incarnation) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::count(incarnations_gone_.begin(), incarnations_gone_.end(),
                        incarnation) > 0;
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
  // The generation of the first rank of each group that went together.
  std::vector<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);
  std::vector<RankIncarnation> incarnations_gone_ ABSL_GUARDED_BY(mutex_);
};

inline std::vector<RankIncarnation> Both(uint64_t generation) {
  return {{generation, 0}, {generation, 1}};
}

// Redirects descriptor 1 or 2 of this process to another one while it lives.
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
    // Both sides append to the end of the file, so nothing is overwritten.
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
  // Call this before anything is expected, because failures are printed on
  // descriptor 1.
  void Finish() {
    processes_.reset();
    out_.reset();
    err_.reset();
  }
  void TearDown() override { Finish(); }

  // Starts generation 1, waits until it is gone, and finishes.
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_AGENT_PROCESSES_PROCESSES_FIXTURE_H_
