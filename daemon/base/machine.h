// Machine: what the shells of a daemon use of the machine they run on: clocks,
// threads and waiting. There are two: the real machine, and the simulator's, in
// which the same code runs in virtual time.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_BASE_MACHINE_H_
#define ROLLCALL_DAEMON_BASE_MACHINE_H_

#include <time.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

namespace rollcall {

class Machine {
 public:
  class Thread {
   public:
    virtual ~Thread() = default;
    // Call it once, before the destructor. Blocks until the thread has ended.
    virtual void Join() = 0;
  };

  virtual ~Machine() = default;

  // See MonotonicNow.
  virtual absl::Time Now() = 0;
  // Also monotonic; it also counts the time that the machine sleeps, as leases
  // do.
  virtual absl::Time LeaseNow() = 0;
  // The machine's wall clock; it may go backwards.
  virtual absl::Time WallNow() = 0;
  virtual std::unique_ptr<Thread> Start(std::function<void()> body) = 0;
  // Returns after a notification, a spurious wake-up or `most`.
  virtual void WaitFor(CondVar& condition, Mutex& mutex, absl::Duration most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
  // Wakes one waiting thread.
  virtual void Notify(CondVar& condition) = 0;
};

// The machine that this process runs on. It has no state.
inline Machine& RealMachine() {
  class Real final : public Machine {
   public:
    absl::Time Now() override { return MonotonicNow(); }
    absl::Time LeaseNow() override {
      timespec now = {};
      clock_gettime(CLOCK_BOOTTIME, &now);
      return absl::TimeFromTimespec(now);
    }
    absl::Time WallNow() override { return absl::Now(); }
    std::unique_ptr<Thread> Start(std::function<void()> body) override {
      class Started final : public Thread {
       public:
        explicit Started(std::function<void()> body)
            : thread_(std::move(body)) {}
        void Join() override { thread_.join(); }

       private:
        std::thread thread_;
      };
      return std::make_unique<Started>(std::move(body));
    }
    void WaitFor(CondVar& condition, Mutex& mutex, absl::Duration most) override
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      condition.WaitFor(mutex, most);
    }
    void Notify(CondVar& condition) override { condition.NotifyOne(); }
  };
  static Real real;
  return real;
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_MACHINE_H_
