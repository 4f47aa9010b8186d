// RankLinks: the rank service of an agent, on the socket on which its ranks
// expect it.
//
// Thread rule: the loop thread.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_LINKS_H_
#define ROLLCALL_CLIENT_AGENT_RANK_LINKS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/node_files/attach_socket.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/rank_service/rank_service.h"
#include "client/agent/session.h"

namespace rollcall {

class RankLinks {
 public:
  // `options` and `folder` must outlive this.
  RankLinks(const AgentOptions& options, const RunFolder& folder,
            RankService::Post post);

  // Null: it has not been started.
  RankService* service() const { return service_.get(); }

  // Starts the service in the run folder, unless it is there. `in_use`: ranks
  // of an earlier world keep running on it. Returns false, after a warning, if
  // it cannot be started.
  bool Ensure(bool in_use);

  // With --attach: starts the service, before the agent dials the daemon.
  // Returns the socket's path. Errors: as of AttachSocket::Take and
  // RankService::Start.
  absl::StatusOr<std::string> OpenToAttached();

 private:
  // See RankService::Start.
  absl::Status Start(const std::string& path, uint32_t attached);

  const AgentOptions& options_;
  const RunFolder& folder_;
  const RankService::Post post_;
  // Set with --attach. It outlives the service that listens on the socket.
  std::unique_ptr<AttachSocket> attach_socket_;
  std::unique_ptr<RankService> service_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_LINKS_H_
