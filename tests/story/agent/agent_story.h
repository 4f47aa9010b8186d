// AgentStory: tells an Agent a story in a table and writes its actions as text,
// one word an action, for a node "b" of two ranks in a world of three.
//
// Reports are left out. Tell checks that each step answers what its row says.
#ifndef ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_
#define ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/agent/core/agent.h"

namespace rollcall {

class AgentStory {
 public:
  struct Row {
    double at;
    AgentEvent event;
    std::string expect;
  };

  // `once`, `attach`: its agent was started with --once or --attach.
  explicit AgentStory(bool once = false, bool attach = false);
  void Tell(const std::vector<Row>& rows);

  // The latest Hello.
  const v1::Hello& hello() const { return hello_; }
  // Of the last heartbeat: whether a rank of this node has linked.
  bool ranks_link() const { return ranks_link_; }
  // The same: how long the slowest of them took.
  double start_took_s() const { return start_took_s_; }
  Agent& agent() { return agent_; }

 private:
  std::string Text(const v1::AgentMessage& m);
  std::string Render(const std::vector<AgentAction>& actions);

  Agent agent_;
  v1::Hello hello_;
  bool ranks_link_ = false;
  double start_took_s_ = -1;
};

// --- Words of the stories ----------------------------------------------------

// No process of these ranks of `generation` is left.
RanksGone Gone(uint64_t generation, std::vector<uint32_t> ranks = {0, 1});

FromDaemon Welcome(const std::string& credential = "");
FromDaemon Proposal(uint64_t generation);
// Its nodes were started with --once. `first`: this one is node rank 0.
FromDaemon ProposalOnce(uint64_t generation, bool first = false);
// `source`: the rank from whose state all ranks start.
FromDaemon CommitOf(uint64_t generation,
                    std::optional<uint32_t> source = std::nullopt);
FromDaemon AbortOf(uint64_t generation);
// As an older daemon sends it.
FromDaemon RanksLink();
FromDaemon RanksLink(uint64_t generation, double timeout_s);
FromDaemon EndOf(int code, v1::ReasonCode reason = v1::REASON_CODE_FINISHED);
StreamDown Down(absl::StatusCode code = absl::StatusCode::kUnavailable,
                v1::RefusalCode refusal = v1::REFUSAL_CODE_UNSPECIFIED);

// From Hello to a running world.
std::vector<AgentStory::Row> Running(uint64_t generation);
// The same for generation 1, with these limits of the job.
std::vector<AgentStory::Row> RunningWith(const v1::JobSettings& settings);
// This node's rank is to blame for a hang of generation 1.
FromDaemon AbortFor(const std::string& node, uint32_t local_rank);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_STORY_AGENT_AGENT_STORY_H_
