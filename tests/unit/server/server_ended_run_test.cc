// What a server tells about a run that has ended.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/server/server_fixture.h"

namespace rollcall {
namespace {

// --- The end of a run that another agent began -------------------------------

class EndedRunTest : public JournaledServerTest {
 protected:
  v1::Hello HelloFor(const std::string& job, const std::string& node,
                     uint32_t nodes) {
    v1::Hello hello = HelloOf(node);
    hello.set_job(job);
    if (nodes > 0) hello.mutable_settings()->set_nodes_max(nodes);
    return hello;
  }
  // A run of one node, up to its end with success. The node has received the
  // end.
  void RunAlone(HandAgent& agent, const v1::Hello& hello) {
    ASSERT_TRUE(agent.SayHello(hello));
    ASSERT_TRUE(agent.HearKind(v1::DaemonMessage::kProposal).has_value());
    v1::AgentMessage prepared, exited;
    prepared.mutable_prepared()->set_generation(1);
    prepared.mutable_prepared()->set_master_port(20000);
    ASSERT_TRUE(agent.Say(prepared));
    ASSERT_TRUE(agent.HearKind(v1::DaemonMessage::kCommit).has_value());
    exited.mutable_rank_exited()->set_generation(1);
    ASSERT_TRUE(agent.Say(exited));
    const auto end = agent.HearKind(v1::DaemonMessage::kEnd);
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->end().finished());
  }
  void Leave(HandAgent& agent) {
    v1::AgentMessage seen;
    seen.mutable_end_seen();
    ASSERT_TRUE(agent.Say(seen));
    agent.HangUp();
    EXPECT_TRUE(agent.End().ok());
  }
  // Expects that the agent is told to redial, and why.
  void ExpectToWait(const v1::Hello& hello, const std::string& why) {
    const grpc::Status turned = Turned(hello);
    ExpectRefused(turned, grpc::StatusCode::NOT_FOUND, v1::REFUSAL_CODE_NO_JOB);
    EXPECT_NE(turned.error_message().find(why), std::string::npos)
        << turned.error_message();
  }
  const std::string kEnded = "ended with exit code 0";
};

TEST_F(EndedRunTest, ATokenEarnsNoSuccess) {
  Start(Journaled(true));
  for (const char* job : {"one", "three"}) {
    HandAgent other(Dial());
    RunAlone(other, HelloFor(job, "other", 1));
    Leave(other);
    // The next two are a node of another name, and one of the same name.
    ExpectToWait(HelloFor(job, "late", 0), kEnded);
    ExpectToWait(HelloFor(job, "other", 0), kEnded);
  }
  // A restarted daemon reads the end from its journal.
  server_.reset();
  Start(Journaled(true));
  ExpectToWait(HelloFor("one", "late", 0), kEnded);
  // An agent that gives the number of nodes begins another run.
  for (const uint32_t nodes : {1u, 3u}) {
    const std::string job = nodes == 1 ? "one" : "three";
    const std::string before = StatusOf(job).run();
    HandAgent first(Dial());
    ASSERT_TRUE(first.SayHello(HelloFor(job, "first", nodes)));
    const auto welcome = first.HearWelcome();
    ASSERT_TRUE(welcome.has_value()) << first.End().error_message();
    EXPECT_NE(welcome->run(), before);
    EXPECT_NE(StatusOf(job).state(), v1::JOB_STATE_FINISHED);
  }
}

TEST_F(EndedRunTest, WhoHadAPartIsToldWhatItEarned) {
  Start(Options());
  v1::Hello hello = HelloFor("train", "a", 1);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(hello));
  const auto welcome = a.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  hello.set_run(welcome->run());
  hello.set_node_credential(welcome->node_credential());
  a.Cancel();
  a.End();
  HandAgent again(Dial());
  RunAlone(again, hello);
  Leave(again);
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(hello));
  ASSERT_TRUE(late.IsWelcome());
  const auto end = late.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end().finished());
}

TEST_F(EndedRunTest, WhileItsAgentsHearOfTheEndNoOtherRunBegins) {
  ServerOptions options = Options();
  options.limits.lease = absl::Hours(1);
  Start(std::move(options));
  HandAgent a(Dial());
  RunAlone(a, HelloFor("train", "a", 1));
  ExpectToWait(HelloFor("train", "late", 0), kEnded);
  for (const uint32_t nodes : {1u, 3u}) {
    ExpectToWait(HelloFor("train", "next", nodes), "still here");
  }
  Leave(a);
  // The daemon may not have read EndSeen yet, so the agent redials.
  for (bool begun = false; !begun;) {
    HandAgent next(Dial());
    ASSERT_TRUE(next.SayHello(HelloFor("train", "next", 3)));
    begun = next.IsWelcome();
    if (begun) break;
    ExpectRefused(next.End(), grpc::StatusCode::NOT_FOUND,
                  v1::REFUSAL_CODE_NO_JOB);
  }
}

TEST_F(EndedRunTest, TheDaemonsOnlyJobIsToldOfToAll) {
  // Only the launcher can have begun the run. The daemon stays until its agents
  // have received the end.
  ServerOptions options = Options();
  options.limits.lease = absl::Hours(1);
  StartJob(1, std::move(options));
  HandAgent a(Dial());
  RunAlone(a, HelloOf("a"));
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(HelloOf("late")));
  ASSERT_TRUE(late.IsWelcome());
  const auto end = late.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end().finished());
}

}  // namespace
}  // namespace rollcall
