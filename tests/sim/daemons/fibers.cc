#include "tests/sim/daemons/fibers.h"

#include <cstdint>
#include <utility>

#include "daemon/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace rollcall::sim {

Fiber::Fiber(Fibers& fibers, std::function<void()> body)
    : fibers_(fibers), body_(std::move(body)) {
  if (fibers_.stacks_.empty()) {
    // The stack is not initialised, because most of it is never touched.
    stack_.reset(new char[Fibers::kStackBytes]);
  } else {
    stack_ = std::move(fibers_.stacks_.back());
    fibers_.stacks_.pop_back();
  }
  CHECK_EQ(getcontext(&context_), 0);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = Fibers::kStackBytes;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
  sanitizer_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(sanitizer_);
#endif
  if (done_) fibers_.stacks_.push_back(std::move(stack_));
}

void Fiber::Enter(unsigned high, unsigned low) {
  Fiber& self = *reinterpret_cast<Fiber*>((static_cast<uintptr_t>(high) << 32) |
                                          static_cast<uintptr_t>(low));
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.fibers_.main_stack_,
                                  &self.fibers_.main_stack_bytes_);
#endif
  self.body_();
  self.body_ = nullptr;
  self.done_ = true;
  self.fibers_.GiveWay();
}

void Fibers::Resume(Fiber& fiber) {
  CHECK(running_ == nullptr && !fiber.done_);
  running_ = &fiber;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&main_sanitizer_, fiber.stack_.get(),
                                 kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  main_sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.sanitizer_, 0);
#endif
  CHECK_EQ(swapcontext(&main_, &fiber.context_), 0);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(main_sanitizer_, nullptr, nullptr);
#endif
  running_ = nullptr;
}

void Fibers::GiveWay() {
  CHECK(running_ != nullptr);
  Fiber& fiber = *running_;
#if defined(__SANITIZE_ADDRESS__)
  // Null if the fiber has ended, because it is never resumed.
  __sanitizer_start_switch_fiber(fiber.done_ ? nullptr : &fiber.sanitizer_,
                                 main_stack_, main_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(main_sanitizer_, 0);
#endif
  CHECK_EQ(swapcontext(&fiber.context_, &main_), 0);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber.sanitizer_, &main_stack_,
                                  &main_stack_bytes_);
#endif
}

}  // namespace rollcall::sim
