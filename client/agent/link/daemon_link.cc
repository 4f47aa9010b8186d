#include "client/agent/link/daemon_link.h"

#include <random>
#include <utility>
#include <variant>

#include "client/agent/link/channel.h"

namespace rollcall {

DaemonLink::DaemonLink(std::vector<std::string> endpoints, Trust trust,
                       Inbox<LinkEvent>& inbox)
    : endpoints_(std::move(endpoints)),
      trust_(std::move(trust)),
      inbox_(inbox),
      round_(endpoints_.size()),
      leader_(endpoints_, trust_.insecure) {}

void DaemonLink::PostDown(uint64_t dial, StreamDown down) {
  std::random_device random;
  down.jitter = random() / (static_cast<double>(random.max()) + 1);
  inbox_.PostAlways({dial, std::move(down)});
}

void DaemonLink::Dial() {
  const uint64_t dial = ++dial_;
  stream_.reset();
  if (endpoints_.empty()) {
    PostDown(dial,
             {.status = absl::InvalidArgumentError("no endpoint is known")});
    return;
  }
  // Alternates between endpoints that a standby daemon named and given ones,
  // because a named one may be unreachable.
  const std::optional<std::string> leader =
      to_leader_ ? std::nullopt : leader_.Next();
  to_leader_ = leader.has_value();
  const std::string endpoint = to_leader_ ? *leader : endpoints_[round_.Next()];
  const auto verdict = std::make_shared<TrustVerdict>();
  auto channel = MakeChannel(endpoint, trust_, verdict, round_.patience());
  if (!channel.ok()) {
    // The certificate files may just be being replaced, so the error is one
    // that is retried.
    PostDown(dial,
             {.status = absl::UnavailableError(channel.status().message())});
    return;
  }
  DaemonStream::Callbacks callbacks;
  callbacks.message = [this, dial](v1::DaemonMessage message) {
    return inbox_.Post({dial, FromDaemon{std::move(message)}});
  };
  callbacks.down = [this, dial, endpoint](absl::Status status,
                                          std::optional<v1::Refusal> refusal,
                                          bool other_daemon) {
    PostDown(dial, {.status = std::move(status),
                    .refusal = std::move(refusal),
                    .other_daemon = other_daemon,
                    .endpoint = endpoint});
  };
  stream_ = std::make_unique<DaemonStream>(endpoint, *std::move(channel),
                                           verdict, std::move(callbacks));
  // Hello may be sent now; it is transmitted as soon as the connection is up.
  inbox_.PostAlways({dial, StreamUp{}});
}

bool DaemonLink::Take(LinkEvent& in) {
  if (in.dial == 0) return true;
  if (in.dial != dial_) return false;
  if (const auto* from = std::get_if<FromDaemon>(&in.event)) {
    if (from->message.has_welcome()) round_.Welcomed();
  } else if (auto* down = std::get_if<StreamDown>(&in.event)) {
    // Without the reset the channel would connect again by itself later.
    stream_.reset();
    // Until the agent should give up, an answer of another server counts as no
    // answer.
    const bool hopeless = !to_leader_ && round_.Failed(down->other_daemon);
    if (!hopeless && down->other_daemon) {
      down->status = absl::UnavailableError(down->status.message());
    }
    if (down->refusal.has_value()) {
      leader_.Hear(*down->refusal);
      to_leader_ = false;
    }
  }
  return true;
}

void DaemonLink::Send(v1::AgentMessage message) {
  stream_->Send(std::move(message));
}

void DaemonLink::Close(absl::Duration patience) {
  if (stream_ != nullptr) stream_->Close(patience);
}

}  // namespace rollcall
