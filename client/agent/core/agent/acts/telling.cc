#include "client/agent/core/agent/acts/telling.h"

#include <utility>

namespace rollcall {

void Tell(AgentState& agent, v1::AgentMessage message) {
  if (!agent.attendance.welcomed()) return;
  agent.actions.push_back(Say{std::move(message)});
}

void Tell(AgentState& agent, Report::Kind kind, std::string text) {
  agent.actions.push_back(Report{kind, std::move(text)});
}

void Tell(AgentState& agent, std::optional<Report> news) {
  if (news.has_value()) agent.actions.push_back(*std::move(news));
}

}  // namespace rollcall
