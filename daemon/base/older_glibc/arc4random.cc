// Static builds alone: libstdc++'s random_device refers to arc4random, which
// glibc has only since 2.36. With this one, the binary starts on 2.35 as well
// (Ubuntu 22.04, and the CUDA images built on it).
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() {
  uint32_t value = 0;
  // Like the real one it cannot fail: without the kernel's random numbers no
  // process should go on.
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
  return value;
}
