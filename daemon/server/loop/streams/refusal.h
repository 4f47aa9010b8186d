// Refusals: how an error is sent at the end of a stream, with a text for people
// and a code for programs. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_REFUSAL_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_REFUSAL_H_

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Returns the same error with the code for programs.
absl::Status WithRefusalCode(absl::Status status, v1::RefusalCode code);

// The UNAVAILABLE error for all streams and calls that reach a daemon that does
// not lead. `leader`: where the leader listens; empty: there is no leader, or
// it is not known.
absl::Status NotLeader(const std::vector<std::string>& leader);

// The refusal for an error that the server itself has found, and not a Job.
v1::Refusal RefusalOf(const absl::Status& status);

// `refusal` is serialized into the error details.
grpc::Status WireStatus(absl::StatusCode code, const v1::Refusal& refusal);
// The status for an error of an admin call.
grpc::Status WireStatus(const absl::Status& status);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_REFUSAL_H_
