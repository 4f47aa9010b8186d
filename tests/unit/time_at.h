// Points in time, for tests.
#ifndef ROLLCALL_TESTS_UNIT_TIME_AT_H_
#define ROLLCALL_TESTS_UNIT_TIME_AT_H_

#include "absl/time/time.h"

namespace rollcall {

inline absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TIME_AT_H_
