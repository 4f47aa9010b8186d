#include "client/launch/local_agents.h"

#include <signal.h>

#include <utility>

#include "client/launch/takeover/start_plan.h"

namespace rollcall {

absl::Status LocalAgents::Start(const std::string& name, bool own,
                                SpawnOptions options,
                                const std::string& join_string) {
  const absl::StatusOr<Fd> secret = PassSecret(join_string, options);
  if (!secret.ok()) return secret.status();
  if (absl::Status s = gate_.HoldBack(options); !s.ok()) return s;
  const auto pid = SpawnSelf(options);
  if (!pid.ok()) return pid.status();
  agents_[*pid] = {{name, own, IdOf(*pid)}, std::nullopt};
  return absl::OkStatus();
}

void LocalAgents::Adopt(const std::string& name, bool own,
                        KnownProcess process) {
  const pid_t pid = process.pid();
  const ProcessId id = process.id();
  agents_[pid] = {{name, own, id}, std::move(process)};
}

size_t LocalAgents::size() const {
  size_t count = 0;
  for (const auto& [pid, agent] : agents_) {
    count += agent.record.name == kSubmitName ? 0 : 1;
  }
  return count;
}

std::vector<AgentRecord> LocalAgents::Records() const {
  std::vector<AgentRecord> records;
  for (const auto& [pid, agent] : agents_) records.push_back(agent.record);
  return records;
}

void LocalAgents::AddTo(std::vector<pollfd>& fds) const {
  for (const auto& [pid, agent] : agents_) {
    if (agent.adopted) fds.push_back({agent.adopted->fd(), POLLIN, 0});
  }
}

std::vector<LocalAgents::Ended> LocalAgents::TakeEnded() {
  std::vector<Ended> ended;
  for (auto at = agents_.begin(); at != agents_.end();) {
    const Agent& agent = at->second;
    if (!agent.adopted || !agent.adopted->Ended()) {
      ++at;
      continue;
    }
    ended.push_back({agent.record.name, agent.record.own, std::nullopt});
    at = agents_.erase(at);
  }
  return ended;
}

std::optional<LocalAgents::Ended> LocalAgents::Reaped(pid_t pid,
                                                      int wait_status) {
  const auto at = agents_.find(pid);
  if (at == agents_.end()) return std::nullopt;
  Ended ended{at->second.record.name, at->second.record.own, wait_status};
  agents_.erase(at);
  return ended;
}

void LocalAgents::Kill(int signal) const {
  for (const auto& [pid, agent] : agents_) Kill(pid, agent, signal);
}

void LocalAgents::KillAgents(int signal) const {
  for (const auto& [pid, agent] : agents_) {
    if (agent.record.name != kSubmitName) Kill(pid, agent, signal);
  }
}

void LocalAgents::KillNamed(const std::string& name, int signal) const {
  for (const auto& [pid, agent] : agents_) {
    if (agent.record.name == name) Kill(pid, agent, signal);
  }
}

void LocalAgents::Kill(pid_t pid, const Agent& agent, int signal) {
  if (agent.adopted) {
    agent.adopted->Kill(signal);
  } else {
    kill(pid, signal);
  }
}

}  // namespace rollcall
