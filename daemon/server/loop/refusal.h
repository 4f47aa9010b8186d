// Refusals: how an error goes out at the end of a stream, so that a person can
// read it and a program needs not. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_REFUSAL_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_REFUSAL_H_

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The same error, with the code that programs are to read.
absl::Status WithRefusalCode(absl::Status status, v1::RefusalCode code);

// UNAVAILABLE, for all that reaches a daemon while it does not lead. `leader`:
// where the one listens that does; empty: nobody does, or nobody knows.
absl::Status NotLeader(const std::vector<std::string>& leader);

// The refusal that stands for an error of the shell itself.
v1::Refusal RefusalOf(const absl::Status& status);

// With the refusal, serialized, as error details.
grpc::Status WireStatus(absl::StatusCode code, const v1::Refusal& refusal);
// Of an error of an admin call.
grpc::Status WireStatus(const absl::Status& status);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_REFUSAL_H_
