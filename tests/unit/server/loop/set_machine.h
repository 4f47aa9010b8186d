// SetMachine: this machine, with a wall clock that can be set forward.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_LOOP_SET_MACHINE_H_
#define ROLLCALL_TESTS_UNIT_SERVER_LOOP_SET_MACHINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/machine.h"

namespace rollcall {

class SetMachine final : public Machine {
 public:
  void SetForward(absl::Duration by) { forward_s_ = absl::ToInt64Seconds(by); }

  absl::Time Now() override { return RealMachine().Now(); }
  absl::Time LeaseNow() override { return RealMachine().LeaseNow(); }
  absl::Time WallNow() override {
    return RealMachine().WallNow() + absl::Seconds(forward_s_.load());
  }
  std::unique_ptr<Thread> Start(std::function<void()> body) override {
    return RealMachine().Start(std::move(body));
  }
  void WaitFor(CondVar& condition, Mutex& mutex, absl::Duration most) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    RealMachine().WaitFor(condition, mutex, most);
  }
  void Notify(CondVar& condition) override { RealMachine().Notify(condition); }

 private:
  std::atomic<int64_t> forward_s_{0};
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_LOOP_SET_MACHINE_H_
