// Channel: how every client of a daemon connects: the same channel arguments
// and the same trust.
//
// Any thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_CHANNEL_H_
#define ROLLCALL_CLIENT_AGENT_LINK_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/security/trust.h"

namespace rollcall {

// Makes a channel to `endpoint`, HOST:PORT, that shares nothing with other
// channels; names are resolved again. Dials nothing yet. `patience`: how long
// one attempt to connect may take, handshake included. `verdict` and
// FAILED_PRECONDITION: as in ChannelCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& endpoint, const Trust& trust,
    std::shared_ptr<TrustVerdict> verdict,
    absl::Duration patience = absl::Seconds(3));

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_CHANNEL_H_
