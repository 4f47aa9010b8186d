#include "trainer/checkpoint/checkpoint_saver.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// Lowers the calling thread's priority for the processor and the disk. If this
// fails, saves disturb the steps more.
void LowerPriority() {
  // Values from <linux/ioprio.h>, which some build machines do not have.
  constexpr int kWhoProcess = 1;
  constexpr int kBestEffort = 2;
  constexpr int kClassShift = 13;
  constexpr int kLowest = 7;
  constexpr int kNice = 10;
  const pid_t thread = static_cast<pid_t>(syscall(SYS_gettid));
  (void)syscall(SYS_ioprio_set, kWhoProcess, thread,
                kBestEffort << kClassShift | kLowest);
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(thread), kNice);
}

}  // namespace

CheckpointSaver::CheckpointSaver(CheckpointStore& store)
    : store_(store), thread_([this] { Run(); }) {}

CheckpointSaver::~CheckpointSaver() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void CheckpointSaver::AwaitIdle() {
  while (saving_) changed_.Wait(mutex_);
}

absl::StatusOr<CheckpointSaver::Begun> CheckpointSaver::Begin(
    const TrainState& state,
    const std::function<absl::Status(StateTensors&)>& fill) {
  Begun begun;
  const absl::Time start = MonotonicNow();
  begun.before = Wait();
  const absl::Time idle = MonotonicNow();
  state_ = state;
  absl::Status status = fill(room_);
  begun.waited = idle - start;
  begun.copied = MonotonicNow() - idle;

  MutexLock lock(mutex_);
  if (!status.ok()) {
    outcome_ = std::move(begun.before);  // It was not returned, so Ended or
                                         // Wait returns it later.
    return status;
  }
  saving_ = true;
  changed_.NotifyAll();
  return begun;
}

std::optional<CheckpointSaver::Outcome> CheckpointSaver::Ended() {
  MutexLock lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

std::optional<CheckpointSaver::Outcome> CheckpointSaver::Wait() {
  MutexLock lock(mutex_);
  AwaitIdle();
  return std::exchange(outcome_, std::nullopt);
}

void CheckpointSaver::Run() {
  LowerPriority();
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!saving_ && !stopping_) changed_.Wait(mutex_);
      if (!saving_) return;
    }
    Outcome outcome = store_.Save(state_, room_);
    MutexLock lock(mutex_);
    outcome_ = std::move(outcome);
    saving_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace rollcall
