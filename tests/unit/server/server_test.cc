// The daemon's shell over real gRPC streams and bare sockets, on loopback and
// on ports that the kernel chooses.
#include "daemon/server/server.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/server/connections/peer_address.h"
#include "tests/unit/server/server_fixture.h"

namespace rollcall {
namespace {

// --- A whole run -------------------------------------------------------------

uint64_t ProposedTo(HandAgent& agent) {
  const auto message = agent.HearKind(v1::DaemonMessage::kProposal);
  EXPECT_TRUE(message.has_value());
  return message.has_value() ? message->proposal().generation() : 0;
}

TEST_F(ServerTest, TwoNodesRunToTheEnd) {
  StartJob(2);
  HandAgent a(Dial()), b(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(b.SayHello(HelloOf("b")));
  const auto proposal = a.HearKind(v1::DaemonMessage::kProposal);
  ASSERT_TRUE(proposal.has_value());
  EXPECT_EQ(ProposedTo(b), 1u);
  for (HandAgent* agent : {&a, &b}) {
    v1::AgentMessage prepared;
    prepared.mutable_prepared()->set_generation(1);
    prepared.mutable_prepared()->set_master_port(20000);
    ASSERT_TRUE(agent->Say(prepared));
  }
  for (HandAgent* agent : {&a, &b}) {
    ASSERT_TRUE(agent->HearKind(v1::DaemonMessage::kCommit).has_value());
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_generation(1);
    ASSERT_TRUE(agent->Say(exited));
  }
  for (HandAgent* agent : {&a, &b}) {
    const auto end = agent->HearKind(v1::DaemonMessage::kEnd);
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->end().finished());
    v1::AgentMessage seen;
    seen.mutable_end_seen()->set_generation(1);
    ASSERT_TRUE(agent->Say(seen));
  }
  const std::optional<v1::End> end = server_->Wait();
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->finished());
  server_->Shutdown();
  EXPECT_TRUE(a.End().ok());
  EXPECT_TRUE(b.End().ok());
}

TEST_F(ServerTest, StopEndsTheJob) {
  StartJob(2);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(a.IsWelcome());
  v1::StopResponse response;
  ASSERT_TRUE(Stop("train", 75, &response).ok());
  EXPECT_EQ(response.state(), v1::JOB_STATE_FAILED);
  const auto end = a.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->end().exit_code(), 75);
  EXPECT_EQ(end->end().code(), v1::REASON_CODE_STOPPED);
  v1::AgentMessage seen;
  seen.mutable_end_seen();
  ASSERT_TRUE(a.Say(seen));
  EXPECT_EQ(server_->Wait()->exit_code(), 75);
  // A second stop does not change how the job ended.
  ASSERT_TRUE(Stop("train", 1, &response).ok());
  EXPECT_EQ(StatusOf("train").exit_code(), 75);
}

TEST_F(ServerTest, WatchTellsChangesAndTheEnd) {
  StartJob(2);
  grpc::ClientContext context;
  Authorize(context);
  v1::StatusRequest request;  // The only job is meant.
  const auto stub = AdminStub();
  const auto watch = stub->Watch(&context, request);
  v1::JobStatus status;
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.job(), "train");
  EXPECT_EQ(status.nodes_size(), 0);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  while (status.nodes_size() == 0) ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.nodes(0).node(), "a");
  v1::StopResponse response;
  ASSERT_TRUE(Stop("", 3, &response).ok());
  while (status.state() != v1::JOB_STATE_FAILED) {
    ASSERT_TRUE(watch->Read(&status));
  }
  EXPECT_EQ(status.exit_code(), 3);
  EXPECT_FALSE(watch->Read(&status));
  EXPECT_TRUE(watch->Finish().ok());
}

// --- Messages of an agent ----------------------------------------------------

TEST_F(ServerTest, MessagesOutOfOrderAreInvalid) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  v1::AgentMessage heartbeat, nothing, unfit, hello;
  heartbeat.mutable_heartbeat();
  unfit.mutable_rank_exited()->set_local_rank(99);
  *hello.mutable_hello() = HelloOf("good");
  hello.mutable_hello()->set_node("no name");
  for (const v1::AgentMessage& first : {heartbeat, nothing, unfit, hello}) {
    HandAgent bad(Dial());
    bad.Say(first);
    ExpectRefused(bad.End(), grpc::StatusCode::INVALID_ARGUMENT,
                  v1::REFUSAL_CODE_INVALID);
  }
  ExpectUndisturbed(good);
  *hello.mutable_hello() = HelloOf("other");
  // Each message uses its own node name, because the previous name may still be
  // taken.
  int number = 0;
  for (const v1::AgentMessage& second : {nothing, unfit, hello}) {
    HandAgent bad(Dial());
    ASSERT_TRUE(bad.SayHello(HelloOf("bad" + std::to_string(++number))));
    ASSERT_TRUE(bad.IsWelcome());
    bad.Say(second);
    ExpectRefused(bad.End(), grpc::StatusCode::INVALID_ARGUMENT,
                  v1::REFUSAL_CODE_INVALID);
  }
}

TEST_F(ServerTest, WhoSaysNoHelloIsDisconnected) {
  ServerOptions options = Options();
  options.limits.hello_timeout = absl::Milliseconds(50);
  StartJob(2, std::move(options));
  HandAgent silent(Dial());
  // The code lets an agent that was only slow dial again.
  EXPECT_EQ(silent.End().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, AdminCallsAreChecked) {
  StartJob(2);
  const auto stub = AdminStub();
  v1::StopResponse response;
  EXPECT_EQ(Stop("train", 256, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Stop("no job", 0, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Stop("other", 0, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  Authorize(context);
  v1::DrainRequest drain;
  drain.set_node("a");
  v1::DrainResponse drained;
  EXPECT_EQ(stub->Drain(&context, drain, &drained).error_code(),
            grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext nowhere;
  Authorize(nowhere);
  EXPECT_EQ(stub->Drain(&nowhere, v1::DrainRequest(), &drained).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, ADrainedNodeIsLetGo) {
  StartJob(2);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(a.IsWelcome());
  const auto stub = AdminStub();
  v1::DrainRequest drain;
  drain.set_node("a");
  v1::DrainResponse drained;
  drain.mutable_deadline()->set_seconds(-1);
  grpc::ClientContext backwards;
  Authorize(backwards);
  EXPECT_EQ(stub->Drain(&backwards, drain, &drained).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  drain.clear_deadline();
  grpc::ClientContext context;
  Authorize(context);
  EXPECT_TRUE(stub->Drain(&context, drain, &drained).ok());
  const auto end = a.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->end().code(), v1::REASON_CODE_LEAVING);
}

// --- Starting and ending -----------------------------------------------------

TEST_F(ServerTest, ATakenPortIsAnError) {
  StartJob(2);
  ServerOptions options = Options();
  options.listen = absl::StrCat("127.0.0.1:", port());
  EXPECT_EQ(Server::Start(std::move(options)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ServerTest, OptionsAreChecked) {
  const std::function<void(ServerOptions&)> changes[] = {
      [](ServerOptions& o) { o.listen = "nonsense"; },
      [](ServerOptions& o) { o.listen = "unix:/tmp/x"; },
      [](ServerOptions& o) { o.listen = "127.0.0.1:65536"; },
      [](ServerOptions& o) { o.listen = "127.0.0.1"; },
      [](ServerOptions& o) { o.tokens.clear(); },
      [](ServerOptions& o) { o.tokens[1].token.clear_secret(); },
      [](ServerOptions& o) { o.tokens[2].token.set_id("No Id"); },
      [](ServerOptions& o) { o.job = "No Job"; },
      [](ServerOptions& o) { o.job = "train"; },  // --nodes is missing.
      [](ServerOptions& o) { o.settings.set_nodes_max(1'000'000); },
  };
  for (const auto& change : changes) {
    ServerOptions options = Options();
    change(options);
    EXPECT_EQ(Server::Start(std::move(options)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ServerTest, ShutdownTellsEverybodyAndIsQuick) {
  StartJob(3);
  HandAgent a(Dial()), silent(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(a.IsWelcome());
  grpc::ClientContext context;
  Authorize(context);
  const auto stub = AdminStub();
  const auto watch = stub->Watch(&context, v1::StatusRequest());
  v1::JobStatus status;
  ASSERT_TRUE(watch->Read(&status));
  const absl::Time begin = MonotonicNow();
  server_->Shutdown();
  const absl::Duration took = MonotonicNow() - begin;
  RecordProperty("shutdown_us", absl::ToInt64Microseconds(took));
  EXPECT_LT(took, absl::Seconds(5));
  EXPECT_EQ(a.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(silent.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  while (watch->Read(&status)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(server_->Wait().has_value());
}

// --- rollcalld ---------------------------------------------------------------

TEST_F(ServerTest, JobsAreMadeByTheFirstHelloWithSettings) {
  Start(Options());
  HandAgent early(Dial());
  ASSERT_TRUE(early.SayHello(HelloOf("a")));
  ExpectRefused(early.End(), grpc::StatusCode::NOT_FOUND,
                v1::REFUSAL_CODE_NO_JOB);
  HandAgent first(Dial()), second(Dial()), other(Dial());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(3);
  ASSERT_TRUE(first.SayHello(hello));
  ASSERT_TRUE(first.IsWelcome());
  ASSERT_TRUE(second.SayHello(HelloOf("b")));
  ASSERT_TRUE(second.IsWelcome());
  hello = HelloOf("a");
  hello.set_job("eval");
  hello.mutable_settings()->set_nodes_min(2);
  ASSERT_TRUE(other.SayHello(hello));
  ASSERT_TRUE(other.IsWelcome());
  EXPECT_EQ(StatusOf("train").nodes_size(), 2);
  EXPECT_EQ(StatusOf("eval").nodes_size(), 1);
  EXPECT_NE(StatusOf("train").run(), StatusOf("eval").run());
}

TEST_F(ServerTest, WhoComesAfterTheEndIsToldIt) {
  Start(Options());
  HandAgent a(Dial());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(a.SayHello(hello));
  ASSERT_TRUE(a.IsWelcome());
  v1::StopResponse response;
  ASSERT_TRUE(Stop("train", 4, &response).ok());
  ASSERT_TRUE(a.HearKind(v1::DaemonMessage::kEnd).has_value());
  v1::AgentMessage seen;
  seen.mutable_end_seen();
  ASSERT_TRUE(a.Say(seen));
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(HelloOf("late")));
  ASSERT_TRUE(late.IsWelcome());
  const auto end = late.Hear();
  ASSERT_TRUE(end.has_value() && end->has_end());
  EXPECT_EQ(end->end().exit_code(), 4);
  ASSERT_TRUE(late.Say(seen));
  late.HangUp();
  EXPECT_TRUE(late.End().ok());
  EXPECT_EQ(StatusOf("train").exit_code(), 4);
  // A launcher begins its own run.
  HandAgent launcher(Dial());
  hello = HelloOf("b");
  hello.set_launcher(true);
  *hello.mutable_token() = admin_;
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(launcher.SayHello(hello));
  ASSERT_TRUE(launcher.IsWelcome());
  EXPECT_EQ(StatusOf("train").state(), v1::JOB_STATE_GATHERING);
}

// --- The journal -------------------------------------------------------------

TEST_F(JournaledServerTest, ARunSurvivesItsDaemon) {
  StartJob(2, Journaled(false));
  const std::string run = StatusOf("train").run();
  server_.reset();
  StartJob(2, Journaled(true));
  EXPECT_EQ(StatusOf("train").run(), run);
  server_.reset();
  StartJob(2, Journaled(false));
  EXPECT_NE(StatusOf("train").run(), run) << "a new run was asked for";
}

TEST_F(JournaledServerTest, ADaemonThatDiedAfterTheEndTellsItToWhoComesBack) {
  StartJob(1, Journaled(false));
  const std::string run = StatusOf("train").run();
  v1::StopResponse response;
  ASSERT_TRUE(Stop("train", 5, &response).ok());
  server_->Wait();
  server_.reset();
  ServerOptions options = Journaled(true);
  options.limits.lease = absl::Seconds(2);
  StartJob(1, options);
  EXPECT_EQ(StatusOf("train").run(), run);
  HandAgent late(Dial());
  v1::Hello hello = HelloOf("a");
  hello.set_run(run);
  ASSERT_TRUE(late.SayHello(hello));
  const auto told = late.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->end().exit_code(), 5);
  // No second run begins, and the daemon ends as the job did.
  const std::optional<v1::End> end = server_->Wait();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->exit_code(), 5);
}

TEST_F(JournaledServerTest, AStandingDaemonTakesUpAllItsJobs) {
  Start(Journaled(true));
  HandAgent a(Dial()), b(Dial());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(a.SayHello(hello));
  ASSERT_TRUE(a.IsWelcome());
  hello.set_job("eval");
  ASSERT_TRUE(b.SayHello(hello));
  ASSERT_TRUE(b.IsWelcome());
  const std::string run = StatusOf("train").run();
  v1::StopResponse response;
  ASSERT_TRUE(Stop("eval", 5, &response).ok());
  server_.reset();
  Start(Journaled(true));
  EXPECT_EQ(StatusOf("train").run(), run);
  EXPECT_EQ(StatusOf("eval").exit_code(), 5);
}

TEST_F(JournaledServerTest, TwoDaemonsOnOneStateAreOneTooMany) {
  StartJob(2, Journaled(false));
  EXPECT_EQ(Server::Start(Journaled(true)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// --- Addresses ---------------------------------------------------------------

TEST(AddressOfPeer, ReadsWhatGrpcWrites) {
  const struct {
    const char* peer;
    const char* address;
  } rows[] = {
      {"ipv4:10.0.0.1:4711", "10.0.0.1"},
      {"ipv6:[fd00::1]:4711", "fd00::1"},
      {"ipv6:%5Bfd00::1%5D:4711", "fd00::1"},
      {"ipv6:%5B::ffff:10.0.0.1%5D:4711", "10.0.0.1"},
      {"ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1"},
      {"unix:/tmp/x", ""},
      {"", ""},
      {"ipv4:", ""},
      {"ipv6:%5B%5D", ""},
      {"ipv6:[", ""},
  };
  for (const auto& row : rows) EXPECT_EQ(AddressOfPeer(row.peer), row.address);
}

}  // namespace
}  // namespace rollcall
