// CHECK: assertions for our own bugs, on in every build.
//
// Do not use it for what came from the network, a file, the environment or a
// flag: return a Status for that. A failed CHECK prints the condition, the file
// and the line, and aborts.
#ifndef ROLLCALL_DAEMON_BASE_CHECK_H_
#define ROLLCALL_DAEMON_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace rollcall {

[[noreturn]] inline void CheckFailed(const char* what, const char* file,
                                     int line) {
  std::fprintf(stderr, "rollcall: %s:%d: CHECK failed: %s\n", file, line, what);
  std::abort();
}

}  // namespace rollcall

#define ROLLCALL_CHECK_AT(condition, what) \
  (static_cast<bool>(condition)            \
       ? static_cast<void>(0)              \
       : ::rollcall::CheckFailed(what, __FILE__, __LINE__))

#define CHECK(condition) ROLLCALL_CHECK_AT(condition, #condition)
#define CHECK_EQ(a, b) ROLLCALL_CHECK_AT((a) == (b), #a " == " #b)
#define CHECK_NE(a, b) ROLLCALL_CHECK_AT((a) != (b), #a " != " #b)
#define CHECK_LT(a, b) ROLLCALL_CHECK_AT((a) < (b), #a " < " #b)
#define CHECK_LE(a, b) ROLLCALL_CHECK_AT((a) <= (b), #a " <= " #b)
#define CHECK_GT(a, b) ROLLCALL_CHECK_AT((a) > (b), #a " > " #b)
#define CHECK_GE(a, b) ROLLCALL_CHECK_AT((a) >= (b), #a " >= " #b)

#endif  // ROLLCALL_DAEMON_BASE_CHECK_H_
