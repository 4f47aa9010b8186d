// Channel: how every client of a daemon connects: the same arguments, the same
// trust.
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

// A channel of its own to `endpoint`, HOST:PORT: nothing is shared with another
// one, names are resolved anew. Nothing is dialled yet. `patience`: how long
// one attempt to connect may take, handshake included. `verdict`: as
// ChannelCredentials. FAILED_PRECONDITION: as ChannelCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& endpoint, const Trust& trust,
    std::shared_ptr<TrustVerdict> verdict,
    absl::Duration patience = absl::Seconds(3));

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_CHANNEL_H_
