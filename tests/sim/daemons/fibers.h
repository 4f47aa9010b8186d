// Fibers: threads of which exactly one runs at a time, until it gives way. With
// them, code that blocks runs in virtual time, and in the same order each time.
//
// One kernel thread runs all of them. A fiber must not give way while it holds
// a lock that another fiber may want.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_FIBERS_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_FIBERS_H_

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
  // The fiber must have ended, or is never resumed.
  ~Fiber();
  bool done() const { return done_; }

 private:
  friend class Fibers;
  static void Enter(unsigned high, unsigned low);

  Fibers& fibers_;
  std::function<void()> body_;
  std::unique_ptr<char[]> stack_;
  ucontext_t context_;
  void* sanitizer_ = nullptr;  // The fiber's state in the sanitizer of this
                               // build.
  bool done_ = false;
};

class Fibers {
 public:
  // Enough for the deepest call, with a sanitizer's red zones.
  static constexpr size_t kStackBytes = 512 << 10;

  // Runs the fiber until it gives way or ends. Not to be called from a fiber.
  void Resume(Fiber& fiber);
  // Returns from the running fiber to the caller of its Resume.
  void GiveWay();
  // The fiber that runs; null: none.
  Fiber* running() const { return running_; }

 private:
  friend class Fiber;

  Fiber* running_ = nullptr;
  ucontext_t main_;
  // What the sanitizers have to know of the stack that calls Resume.
  void* main_sanitizer_ = nullptr;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> stacks_;  // Unused stacks.
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_FIBERS_H_
