#include "trainer/cuda/kernels/emulation.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace rollcall::cuda::emulation {
namespace {

// AddressSanitizer clears the shadow memory of a whole stack at each switch to
// it: with 256 KiB, the tests of the backend take more than twice as long.
constexpr size_t kStackBytes = 64 << 10;
constexpr int kWarp = 32;

// Of a launch.
constexpr int kThreadsMax = 1024;
constexpr unsigned kBlocksMaxX = (1u << 31) - 1;
constexpr unsigned kBlocksMaxYZ = 65535;
constexpr size_t kSharedMax = 227 << 10;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "block %u %u %u, thread %u: %s\n", place.block.x,
               place.block.y, place.block.z, place.thread.x, why.c_str());
  std::abort();
}

// The number of fibers that wait at a barrier, and how often all of them have
// reached it.
struct Barrier {
  int expected = 0;
  int here = 0;
  uint64_t rounds = 0;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool ended = false;
  void* sanitizer = nullptr;
  std::vector<Copy> copies;  // Copies that were begun, but not waited for.
};

// The running block: its fibers, and the barriers that they wait at.
struct Block {
  std::vector<Fiber> fibers;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned char> warp_room;
  ucontext_t outside;
  void* outside_sanitizer = nullptr;
  const void* outside_stack = nullptr;
  size_t outside_stack_bytes = 0;
  const std::function<void()>* body = nullptr;
  uint64_t moves = 0;  // Counts reached barriers and ended fibers.
};
Block* running = nullptr;

Fiber& Current() { return running->fibers[place.thread.x]; }

// Tells a sanitizer that the stack is about to be switched.
void BeforeSwitch([[maybe_unused]] void** own, [[maybe_unused]] const void* to,
                  [[maybe_unused]] size_t bytes,
                  [[maybe_unused]] void* to_fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(own, to, bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to_fiber, 0);
#endif
}
void AfterSwitch([[maybe_unused]] void* own, [[maybe_unused]] const void** from,
                 [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own, from, bytes);
#endif
}

void Yield() {
  Fiber& fiber = Current();
  void* own = nullptr;
  BeforeSwitch(&own, running->outside_stack, running->outside_stack_bytes,
               running->outside_sanitizer);
  swapcontext(&fiber.context, &running->outside);
  AfterSwitch(own, nullptr, nullptr);
}

void Begin() {
  AfterSwitch(nullptr, &running->outside_stack, &running->outside_stack_bytes);
  (*running->body)();
  Current().ended = true;
  ++running->moves;
  BeforeSwitch(nullptr, running->outside_stack, running->outside_stack_bytes,
               running->outside_sanitizer);
  setcontext(&running->outside);
}

void Await(Barrier& barrier) {
  const uint64_t round = barrier.rounds;
  ++running->moves;
  if (++barrier.here == barrier.expected) {
    barrier.here = 0;
    ++barrier.rounds;
  }
  while (barrier.rounds == round) Yield();
}

void Resume(int thread) {
  place.thread = dim3(thread, 0, 0);
  Fiber& fiber = running->fibers[thread];
  void* own = nullptr;
  BeforeSwitch(&own, fiber.stack.get(), kStackBytes, fiber.sanitizer);
  swapcontext(&running->outside, &fiber.context);
  AfterSwitch(own, nullptr, nullptr);
}

void RunBlock(Block& block, int threads, size_t shared) {
  // With all bits set, a float, a double and a bf16 are NaN.
  std::vector<unsigned char> memory(shared + 32, 0xff);
  const size_t skip = (32 - reinterpret_cast<uintptr_t>(memory.data()) % 32);
  memory.resize(skip % 32 + shared, 0xff);
  place.shared = memory.data() + skip % 32;
  block.all = Barrier{threads};
  block.warps.assign(threads / kWarp, Barrier{kWarp});
  for (Fiber& fiber : block.fibers) {
    fiber.ended = false;
    fiber.copies.clear();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, Begin, 0);
  }
  for (int living = threads; living > 0;) {
    const uint64_t moves = block.moves;
    living = 0;
    for (int i = 0; i < threads; ++i) {
      const int thread = downwards ? threads - 1 - i : i;
      if (block.fibers[thread].ended) continue;
      Resume(thread);
      if (!block.fibers[thread].ended) ++living;
    }
    if (living > 0 && block.moves == moves) {
      std::fprintf(stderr,
                   "block %u %u %u: %d threads wait at a barrier that the "
                   "others do not reach\n",
                   place.block.x, place.block.y, place.block.z, living);
      std::abort();
    }
  }
}

}  // namespace

std::string LaunchError(dim3 blocks, int threads, size_t shared) {
  const auto over = [](const char* what, size_t found, size_t most) {
    return std::string(what) + ": " + std::to_string(found) + ", at most " +
           std::to_string(most);
  };
  if (threads < kWarp || threads > kThreadsMax || threads % kWarp != 0) {
    return "threads of a block: " + std::to_string(threads) +
           ", expected whole warps, at most " + std::to_string(kThreadsMax);
  }
  if (blocks.x > kBlocksMaxX) return over("blocks.x", blocks.x, kBlocksMaxX);
  if (blocks.y > kBlocksMaxYZ) return over("blocks.y", blocks.y, kBlocksMaxYZ);
  if (blocks.z > kBlocksMaxYZ) return over("blocks.z", blocks.z, kBlocksMaxYZ);
  if (shared > kSharedMax) return over("shared memory", shared, kSharedMax);
  return "";
}

void RequireAligned(const void* at, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (address % bytes == 0) return;
  Fail("an access of " + std::to_string(bytes) + " bytes is off by " +
       std::to_string(address % bytes));
}

void AwaitBlock() { Await(running->all); }
void AwaitWarp() { Await(running->warps[place.thread.x / kWarp]); }

unsigned char* WarpRoom() {
  return running->warp_room.data() +
         place.thread.x / kWarp * kWarp * kLaneBytes;
}

void CopyLater(void* to, const void* from, size_t bytes) {
  Current().copies.push_back({to, from, bytes});
}
void CopyNow() {
  for (const Copy& copy : Current().copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
  Current().copies.clear();
}

void Run(dim3 blocks, int threads, size_t shared,
         const std::function<void()>& body) {
  if (const std::string why = LaunchError(blocks, threads, shared);
      !why.empty()) {
    Fail(why);
  }
  Block block;
  block.fibers.resize(threads);
  block.warp_room.resize(threads * kLaneBytes);
  block.body = &body;
#if defined(__SANITIZE_THREAD__)
  block.outside_sanitizer = __tsan_get_current_fiber();
  for (Fiber& f : block.fibers) f.sanitizer = __tsan_create_fiber(0);
#endif
  running = &block;
  place.grid = blocks;
  place.threads = dim3(threads);
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        place.block = dim3(x, y, z);
        RunBlock(block, threads, shared);
      }
    }
  }
  running = nullptr;
#if defined(__SANITIZE_THREAD__)
  for (Fiber& f : block.fibers) __tsan_destroy_fiber(f.sanitizer);
#endif
}

}  // namespace rollcall::cuda::emulation
