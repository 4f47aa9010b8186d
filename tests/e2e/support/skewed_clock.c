// Imitates a wall clock that is wrong. Preloaded into a program, it adds SKEW_S
// seconds to CLOCK_REALTIME; other clocks do not change.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long Skew(void) {
  const char* text = getenv("SKEW_S");
  return text == NULL ? 0 : atol(text);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock == CLOCK_REALTIME) now->tv_sec += Skew();
  return failed;
}
