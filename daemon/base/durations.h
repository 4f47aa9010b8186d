// Converts between google.protobuf.Duration and absl::Duration, and between
// google.protobuf.Timestamp and absl::Time. No value of a message ends the
// process: a value that absl cannot represent becomes infinite.
#ifndef ROLLCALL_DAEMON_BASE_DURATIONS_H_
#define ROLLCALL_DAEMON_BASE_DURATIONS_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

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

inline absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::UnixEpoch() + absl::Seconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

// `time` must not be before 1970.
inline void ToProto(absl::Time time, google::protobuf::Timestamp* out) {
  absl::Duration rest;
  out->set_seconds(
      absl::IDivDuration(time - absl::UnixEpoch(), absl::Seconds(1), &rest));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_DURATIONS_H_
