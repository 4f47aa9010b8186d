// Preparation: gets this node ready for a proposed generation.
//
// For each Prepare: on every node, writes the hosts block; on node rank 0, also
// binds MASTER_PORT and has a short-lived child mint the NCCL ids. All of it
// runs on a thread of its own, so that a slow disk or library never delays a
// heartbeat. It starts no ranks and sends nothing to other nodes.
//
// Thread rule: call all functions from the agent's loop thread. `done` is
// called from the preparation thread and must only post.
//
// Only a port that cannot be bound fails the preparation. All other errors come
// back as warnings in PreparationDone.
#ifndef ROLLCALL_CLIENT_AGENT_PREPARATION_H_
#define ROLLCALL_CLIENT_AGENT_PREPARATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/agent/core/agent_events.h"
#include "client/agent/hosts/hosts_resolver.h"
#include "client/agent/nccl/network_settings.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct PreparationOptions {
  std::string node;
  // The hosts file to manage; empty: none (--no-hosts).
  std::string hosts_file = "/etc/hosts";
  // Node names that are always written to the hosts file, even if the resolver
  // or another line of the file gives them another address (--hosts-names).
  std::vector<std::string> hosts_names;
  // Resolves the names for the hosts file; null: the system's resolver.
  std::shared_ptr<HostsResolver> resolver;
  // --nccl-lib; empty: the library is searched with `environment`.
  std::string nccl_library;
  // The binary that the minting child runs, with the hidden command
  // `mint-nccl-id` (argv[0] of the child). Normally /proc/self/exe.
  std::string self = "/proc/self/exe";
  // The user as which the child mints; nullopt: this process's user.
  std::optional<SystemUser> user;
  // The command's environment, "NAME=value"; libnccl is searched with it.
  std::vector<std::string> environment;
};

class Preparation {
 public:
  using Done =
      std::function<void(std::variant<PreparationDone, PreparationFailed>)>;

  Preparation(PreparationOptions options, Done done);
  // Undoes the current generation, except the hosts block: see RestoreHosts.
  ~Preparation();

  // Begins to prepare `world` after undoing the previous generation. `done` is
  // called once, unless Undo or another Prepare comes first. `network`: which
  // settings of the network plan the command gets.
  void Prepare(const v1::World& world, uint32_t node_rank,
               const NetworkOptions& network);

  // Releases the port of that generation and ends its minting child.
  void Undo(uint64_t generation);

  // Closes the held port; called right before rank 0 is started on it. Has no
  // effect if this node holds no port. The minting child runs until Undo or the
  // next Prepare, because a NCCL root must outlive its check-ins.
  void ReleasePort(uint64_t generation);

  // Undoes the current generation and removes this agent's hosts block. Blocks.
  // Call it once, at the end: nothing can be prepared afterwards. Returns
  // warnings.
  std::vector<std::string> RestoreHosts();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PREPARATION_H_
