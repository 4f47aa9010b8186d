// HeapBytes: the number of bytes that this process has allocated and not freed.
#ifndef ROLLCALL_TESTS_UNIT_HEAP_H_
#define ROLLCALL_TESTS_UNIT_HEAP_H_

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Declared as in sanitizer/allocator_interface.h, which not every compiler
// provides.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#else
#include <malloc.h>
#endif

namespace rollcall {

inline size_t HeapBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_HEAP_H_
