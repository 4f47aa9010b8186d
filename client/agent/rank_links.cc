#include "client/agent/rank_links.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/session_parts.h"

namespace rollcall {

RankLinks::RankLinks(const AgentOptions& options, const RunFolder& folder,
                     RankService::Post post)
    : options_(options), folder_(folder), post_(std::move(post)) {}

bool RankLinks::Ensure(bool in_use) {
  // The socket is missing if a program cleaned /tmp, with the run folder in it.
  const bool lost = access(folder_.socket().c_str(), F_OK) != 0;
  // Ranks that keep running need their connections.
  if (lost && !in_use) service_.reset();
  if (service_ != nullptr) return true;
  const absl::Status started = Start(folder_.socket(), 0);
  if (!started.ok()) {
    Warn(options_, absl::StrCat("ranks cannot be linked: ", started.message()));
  }
  return started.ok();
}

absl::StatusOr<std::string> RankLinks::OpenToAttached() {
  auto taken = AttachSocket::Take(
      options_.socket.empty() ? folder_.attach_socket() : options_.socket,
      options_.user());
  if (!taken.ok()) return taken.status();
  attach_socket_ = *std::move(taken);
  const std::string& path = attach_socket_->path();
  if (absl::Status started = Start(path, options_.hello.ranks());
      !started.ok()) {
    return started;
  }
  return path;
}

absl::Status RankLinks::Start(const std::string& path, uint32_t attached) {
  auto service = RankService::Start(path, post_, options_.user(), attached);
  if (!service.ok()) return service.status();
  service_ = *std::move(service);
  return absl::OkStatus();
}

}  // namespace rollcall
