// AgentStory: tells an Agent a story in a table and renders its actions as
// text, one term for each action. The agent is node "b" with two ranks, in a
// world of three ranks.
//
// Reports are left out. Tell checks that each step answers what its row says.
#ifndef ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_
#define ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/agent/core/agent/agent.h"

namespace rollcall {

class AgentStory {
 public:
  struct Row {
    double at;
    AgentEvent event;
    std::string expect;
  };

  // `once`, `attach`: the agent was started with --once or --attach.
  explicit AgentStory(bool once = false, bool attach = false);
  // The agent was started with --setup and --setup-retries.
  static AgentStory WithSetup(uint32_t retries);
  void Tell(const std::vector<Row>& rows);

  // The latest Hello.
  const v1::Hello& hello() const { return hello_; }
  // Whether a rank of this node has linked, in the last heartbeat.
  bool ranks_link() const { return ranks_link_; }
  // How long the slowest of these ranks took, in the last heartbeat.
  double start_took_s() const { return start_took_s_; }
  Agent& agent() { return agent_; }

 private:
  AgentStory(const v1::Hello& hello, bool attach, uint32_t setup_retries);
  std::string Text(const v1::AgentMessage& m);
  std::string Render(const std::vector<AgentAction>& actions);

  Agent agent_;
  v1::Hello hello_;
  bool ranks_link_ = false;
  double start_took_s_ = -1;
};

// --- Events of the stories ---------------------------------------------------

// No process of these ranks of `generation` is left.
RanksGone Gone(uint64_t generation, std::vector<uint32_t> ranks = {0, 1});

FromDaemon Welcome(const std::string& credential = "");
// The Welcome of a daemon that knows set-up commands.
FromDaemon WelcomeToSetup();
FromDaemon Proposal(uint64_t generation);
// A proposal for nodes that were started with --once. `first`: this node is
// node rank 0.
FromDaemon ProposalOnce(uint64_t generation, bool first = false);
// `source`: the rank from whose state all ranks start.
FromDaemon CommitOf(uint64_t generation,
                    std::optional<uint32_t> source = std::nullopt);
FromDaemon AbortOf(uint64_t generation);
// RanksLink as an older daemon sends it.
FromDaemon RanksLink();
FromDaemon RanksLink(uint64_t generation, double timeout_s);
FromDaemon EndOf(int code, v1::ReasonCode reason = v1::REASON_CODE_FINISHED);
StreamDown Down(absl::StatusCode code = absl::StatusCode::kUnavailable,
                v1::RefusalCode refusal = v1::REFUSAL_CODE_UNSPECIFIED);

// The rows from Hello to a running world.
std::vector<AgentStory::Row> Running(uint64_t generation);
// The same for generation 1, with these limits of the job.
std::vector<AgentStory::Row> RunningWith(const v1::JobSettings& settings);
// As Running; both ranks are linked and elastic.
std::vector<AgentStory::Row> RunningLinked(uint64_t generation);
// An abort of generation 1 by a hang, for which this node's rank is blamed.
FromDaemon AbortFor(const std::string& node, uint32_t local_rank);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_
