// Fibers: threads of which exactly one runs at a time, and only until it gives
// way: so that code which blocks runs in virtual time, the same way each time.
//
// One kernel thread runs all of them. A fiber must not give way with a lock
// held that another fiber may want.
#ifndef ROLLCALL_TESTS_SIM_FIBERS_H_
#define ROLLCALL_TESTS_SIM_FIBERS_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace rollcall::sim {

class Fibers;

class Fiber {
 public:
  Fiber(Fibers& fibers, std::function<void()> body);
  // It has ended, or is never resumed.
  ~Fiber();
  bool done() const { return done_; }

 private:
  friend class Fibers;
  static void Enter(unsigned high, unsigned low);

  Fibers& fibers_;
  std::function<void()> body_;
  std::unique_ptr<char[]> stack_;
  ucontext_t context_;
  void* sanitizer_ = nullptr;  // Of whichever sanitizer there is.
  bool done_ = false;
};

class Fibers {
 public:
  // Enough for the deepest call there is, with a sanitizer's red zones.
  static constexpr size_t kStackBytes = 512 << 10;

  // Runs it until it gives way or ends. From no fiber.
  void Resume(Fiber& fiber);
  // From a fiber: goes back to who resumed it.
  void GiveWay();
  // Null: none.
  Fiber* running() const { return running_; }

 private:
  friend class Fiber;

  Fiber* running_ = nullptr;
  ucontext_t main_;
  // What the sanitizers want to know of the stack that resumes.
  void* main_sanitizer_ = nullptr;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> stacks_;  // Free ones.
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_FIBERS_H_
