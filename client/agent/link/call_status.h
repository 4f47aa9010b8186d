// Call status: the end of a gRPC call as an absl::Status with a readable text.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_
#define ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace rollcall {

// Keeps the code. The message names the endpoint and contains the daemon's
// answer, or a readable reason if no daemon answered.
absl::Status CallStatus(const std::string& endpoint,
                        const grpc::Status& status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_
