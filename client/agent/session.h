// Session: the shell around Agent. Owns the loop thread, the gRPC stream to the
// daemon, the preparation, the processes and the rank service, and carries out
// what Agent::Step returns.
//
// Thread rule: RunAgent blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_AGENT_SESSION_H_
#define ROLLCALL_CLIENT_AGENT_SESSION_H_

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/nccl/network_settings.h"
#include "client/facts/facts.h"
#include "client/facts/later_same_files.h"
#include "daemon/base/processes/system_user.h"
#include "daemon/core/limits.h"
#include "daemon/security/trust.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct AgentOptions {
  // Endpoints of the daemon, HOST:PORT, tried in rotation.
  std::vector<std::string> endpoints;
  // How the daemon proves its identity.
  Trust trust;
  // The Hello without the facts, the incarnation and the swept nonces.
  // command_digest is set.
  v1::Hello hello;
  // Empty with `attach`.
  std::vector<std::string> command;
  // Other processes start the ranks, which connect to the socket. (--attach)
  bool attach = false;
  // The path of the socket for attached ranks; empty: one in the agent's own
  // folder. (--socket)
  std::string socket;
  // A shell command that runs before the node gets a seat (--setup), and how
  // often it may be run again (--setup-retries). Empty: none.
  std::string setup;
  uint32_t setup_retries = 0;
  // Reads the files of --same and the folders of --shared after the set-up
  // command; null: they are in `network.facts` already, or there are none.
  std::shared_ptr<LaterSameFiles> later_same_files;
  // The agent's own environment, "NAME=value".
  std::vector<std::string> environment;
  absl::Duration join_timeout = absl::Minutes(10);
  std::string hosts_file = "/etc/hosts";  // Empty: --no-hosts.
  // Node names that are always written to the hosts file, even if the resolver
  // or another line of the file gives them another address (--hosts-names).
  std::vector<std::string> hosts_names;
  std::string log_dir;
  std::string nccl_library;
  // Which settings of the network plan the command gets. `network.facts`: the
  // node's facts, gathered when the agent started.
  NetworkOptions network;
  // How facts are gathered again for the node's checks.
  NodeFactsOptions facts;
  bool output_to_stderr = false;
  int live_bell = -1;
  // The user as which ranks run (--rank-user); nullopt: this process's user.
  std::optional<SystemUser> rank_user;
  const SystemUser* user() const { return rank_user ? &*rank_user : nullptr; }
  // This process is the subreaper of its ranks (BecomeSubreaper).
  bool subreaper = false;
  // The signal that announces a notice to plain ranks (--preempt-signal).
  int preempt_signal = SIGTERM;
  Limits limits;
  // Called on the loop thread for each Report; must not block for long.
  std::function<void(const Report&)> report;
};

struct AgentResult {
  int exit_code = 0;
  std::string reason;
  std::optional<v1::End> end;
};

// Attends the job until its end. Installs handlers for SIGTERM, SIGINT,
// SIGUSR1, SIGHUP and SIGUSR2 while it runs. Returns when all ranks are gone
// and the hosts file is restored.
AgentResult RunAgent(AgentOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_SESSION_H_
