// Call status: how a gRPC call ended, in our words.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_
#define ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace rollcall {

// The same code; the message names the endpoint and holds what the daemon
// answered, or, where none did, why in words for a person.
absl::Status CallStatus(const std::string& endpoint,
                        const grpc::Status& status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_CALL_STATUS_H_
