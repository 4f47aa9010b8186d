// Between google.protobuf.Duration and absl::Duration.
#ifndef ROLLCALL_DAEMON_CORE_DURATIONS_H_
#define ROLLCALL_DAEMON_CORE_DURATIONS_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace rollcall {

inline absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

inline void ToProto(absl::Duration duration, google::protobuf::Duration* out) {
  absl::Duration rest;
  out->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_DURATIONS_H_
