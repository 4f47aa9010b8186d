// Channel: the channel arguments and the trust with which every client connects
// to a daemon.
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
// channels, so that names are resolved again. Does not connect yet. `patience`:
// the limit for one connection attempt, including the handshake. `verdict` and
// FAILED_PRECONDITION: see ChannelCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& endpoint, const Trust& trust,
    std::shared_ptr<TrustVerdict> verdict,
    absl::Duration patience = absl::Seconds(3));

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_CHANNEL_H_
