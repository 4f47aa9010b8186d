// For static builds only. libstdc++'s random_device refers to arc4random, which
// glibc has since 2.36. With this definition, the binary starts on 2.35 as well
// (Ubuntu 22.04, and the CUDA images built on it).
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() {
  uint32_t value = 0;
  // Like glibc's, it cannot fail: without the kernel's random numbers the
  // process must not go on.
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
  return value;
}
