#include "client/agent/link/channel.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/grpc/grpc_defaults.h"
#include "daemon/core/limits.h"

namespace rollcall {

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& endpoint, const Trust& trust,
    std::shared_ptr<TrustVerdict> verdict, absl::Duration patience) {
  auto credentials = ChannelCredentials(trust, endpoint, std::move(verdict));
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments = DefaultChannelArguments();
  // Each channel has its own connection, so that a new attempt does not reuse
  // an old one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The larger of the two values limits one connection attempt. gRPC connects
  // again by itself when the first one has passed since the start of a failed
  // attempt. So an agent whose connection is refused or closed has time to give
  // up the channel, also on a busy machine. No caller needs the second attempt.
  const int patience_ms = static_cast<int>(absl::ToInt64Milliseconds(patience));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, patience_ms);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, patience_ms);
  // Heartbeats are enough traffic to detect a dead host, because the kernel
  // applies the timeout to unacknowledged bytes. A frozen daemon still
  // acknowledges bytes, but it answers no keepalive ping; another daemon may
  // lead by then.
  constexpr Limits kLimits;
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIME_MS,
      static_cast<int>(absl::ToInt64Milliseconds(kLimits.keepalive_time)));
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(kLimits.keepalive_timeout)));
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(Limits::world_bytes_max + (1 << 20)));
  // The credentials verify the daemon's identity, so the host name is not
  // needed in the handshake and is replaced.
  if (!trust.insecure) arguments.SetSslTargetNameOverride("rollcall");
  // The fixed scheme lets a join string name only hosts.
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", endpoint),
                                   *credentials, arguments);
}

}  // namespace rollcall
