// The daemon's shell over real gRPC streams and bare sockets, on loopback and
// ports that the kernel picks.
#include "daemon/server/server.h"

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/server/front_door/peer_address.h"
#include "daemon/server/membership_service.h"
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
  // Again: it stays as it ended.
  ASSERT_TRUE(Stop("train", 1, &response).ok());
  EXPECT_EQ(StatusOf("train").exit_code(), 75);
}

TEST_F(ServerTest, WatchTellsChangesAndTheEnd) {
  StartJob(2);
  grpc::ClientContext context;
  Authorize(context);
  v1::StatusRequest request;  // The only job.
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

// --- What an agent says -----------------------------------------------------

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
  // Each under a name of its own: the last one's may not be free yet.
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

TEST_F(ServerTest, WhoSaysNoHelloIsShownOut) {
  ServerOptions options = Options();
  options.limits.hello_timeout = absl::Milliseconds(50);
  StartJob(2, std::move(options));
  HandAgent silent(Dial());
  // An agent that was only slow dials again.
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

// --- Garbage -----------------------------------------------------------------

// Calls Attend with bytes of our own as the first message.
grpc::Status AttendWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kServerPatience);
  const auto call =
      stub.PrepareCall(&context, "/rollcall.v1.Membership/Attend", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->Write(grpc::ByteBuffer(&slice, 1), &tag);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, &tag);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

TEST_F(ServerTest, BytesThatAreNoMessageAreInvalid) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\xff"), std::string(100'000, '\x0a'),
        std::string("GET / HTTP/1.1\r\n\r\n"),
        HelloOf("cut").SerializeAsString().substr(0, 20)}) {
    ExpectRefused(AttendWithBytes(Dial(), bytes),
                  grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  }
  ExpectUndisturbed(good);
}

TEST_F(ServerTest, OversizedMessagesEndTheirStreamAlone) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  // More than a Hello may have.
  ExpectRefused(
      AttendWithBytes(Dial(), std::string(Limits::hello_bytes_max + 1, 'x')),
      grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  // More than anybody may say before he is known: the connection ends, long
  // before the message does.
  EXPECT_EQ(AttendWithBytes(
                Dial(), std::string(8 * Limits::agent_message_bytes_max, 'x'))
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
  ExpectUndisturbed(good);
}

TEST_F(ServerTest, OversizedMessagesOfAnAgentEndItsStreamAlone) {
  StartJob(3);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  HandAgent bad(Dial());
  ASSERT_TRUE(bad.SayHello(HelloOf("bad")));
  ASSERT_TRUE(bad.IsWelcome());
  v1::AgentMessage large;
  large.mutable_leaving()->set_reason(
      std::string(Limits::agent_message_bytes_max + 1, 'x'));
  bad.Say(large);
  EXPECT_EQ(bad.End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(StatusOf("train").nodes(1).node(), "good");
  EXPECT_EQ(StatusOf("train").nodes(1).state(), v1::NODE_STATE_ATTENDING);
}

TEST_F(ServerTest, AnAgentThatDoesNotReadIsEndedWhereTooMuchWaitsForAll) {
  ServerOptions options = Options();
  options.limits.unread_bytes_max = 2 << 20;
  StartJob(1, std::move(options));
  HandAgent stalls(Dial());
  v1::Hello hello = HelloOf("stalls");
  hello.set_ranks(Limits::ranks_per_node_max);
  ASSERT_TRUE(stalls.SayHello(hello));
  ASSERT_TRUE(stalls.HearKind(v1::DaemonMessage::kProposal).has_value());
  v1::AgentMessage message;
  message.mutable_prepared()->set_generation(1);
  message.mutable_prepared()->set_master_port(1234);
  ASSERT_TRUE(stalls.Say(message));
  ASSERT_TRUE(stalls.HearKind(v1::DaemonMessage::kCommit).has_value());
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  // Each is answered with 256 KiB, and none of it is read.
  message.mutable_exchange()->set_generation(1);
  message.mutable_exchange()->set_key("k");
  for (uint32_t i = 0; i < Limits::ranks_per_node_max; ++i) {
    message.mutable_exchange()->add_values(
        std::string(Limits::exchange_value_bytes_max, 'v'));
  }
  for (int i = 0; i < 60; ++i) {
    if (!stalls.Say(message)) break;
  }
  stalls.HangUp();
  EXPECT_EQ(stalls.End().error_code(), grpc::StatusCode::CANCELLED);
  v1::AgentMessage heartbeat;
  heartbeat.mutable_heartbeat();
  EXPECT_TRUE(good.Say(heartbeat));
  EXPECT_EQ(StatusOf("train").nodes(0).node(), "good");
  EXPECT_EQ(StatusOf("train").nodes(0).state(), v1::NODE_STATE_SPARE);
}

// Sends bytes on a bare connection, half-closes, and reads what comes until
// the daemon closes it.
void Poke(int port, const std::string& bytes, bool half_close) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n =
        send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  if (half_close) {
    shutdown(fd, SHUT_WR);
    char buffer[4096];
    while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
    }
  }
  close(fd);
}

TEST_F(ServerTest, GarbageOnThePortDisturbsNobody) {
  for (const bool insecure : {false, true}) {
    ServerOptions options = Options();
    options.insecure = insecure;
    StartJob(2, std::move(options));
    HandAgent good(Dial());
    ASSERT_TRUE(good.SayHello(HelloOf("good")));
    ASSERT_TRUE(good.IsWelcome());
    const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
    const std::string pieces[] = {
        "",
        "10.0.0.9 evil-host\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        std::string(1 << 20, '\xff'),
        std::string(1 << 16, '\0'),
        preface.substr(0, 10),
        preface,
        preface + settings,
        // A frame that says it is longer than what follows.
        preface + settings + std::string("\0\x40\0\1\4\0\0\0\1half", 13),
        // A data frame of a stream that was never opened.
        preface + settings + std::string("\0\0\4\0\0\0\0\0\1abcd", 13),
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    for (const std::string& bytes : pieces) {
      Poke(port(), bytes, true);
      Poke(port(), bytes, false);
    }
    ExpectUndisturbed(good);
    EXPECT_GT(StatusOf("train").strangers().garbage(), 0u);
  }
}

TEST_F(ServerTest, AgentsThatVanishAreLetGo) {
  StartJob(2);
  for (int i = 0; i < 20; ++i) {
    HandAgent gone(Dial());
    ASSERT_TRUE(gone.SayHello(HelloOf(absl::StrCat("n", i % 2))));
    // The one before is not lost yet for the job; either answer is right.
    gone.Hear();
  }
  EXPECT_LE(StatusOf("train").nodes_size(), 2);
}

TEST_F(ServerTest, AnAgentThatHangsUpIsAnswered) {
  StartJob(2);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(a.IsWelcome());
  a.HangUp();
  EXPECT_TRUE(a.End().ok());
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
      [](ServerOptions& o) { o.job = "train"; },  // And no --nodes.
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
  // A launcher begins a run of its own.
  HandAgent launcher(Dial());
  hello = HelloOf("b");
  hello.set_launcher(true);
  *hello.mutable_token() = admin_;
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(launcher.SayHello(hello));
  ASSERT_TRUE(launcher.IsWelcome());
  EXPECT_EQ(StatusOf("train").state(), v1::JOB_STATE_GATHERING);
}

// --- The end of a run that somebody else began -------------------------------

class EndedRunTest : public JournaledServerTest {
 protected:
  v1::Hello HelloFor(const std::string& job, const std::string& node,
                     uint32_t nodes) {
    v1::Hello hello = HelloOf(node);
    hello.set_job(job);
    if (nodes > 0) hello.mutable_settings()->set_nodes_max(nodes);
    return hello;
  }
  // A run of one node, up to its end with success, of which the node has heard.
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
  // It is told to redial, and why.
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
    // A node of another name, and one of the same name.
    ExpectToWait(HelloFor(job, "late", 0), kEnded);
    ExpectToWait(HelloFor(job, "other", 0), kEnded);
  }
  // A restarted daemon reads the end from its journal.
  server_.reset();
  Start(Journaled(true));
  ExpectToWait(HelloFor("one", "late", 0), kEnded);
  // An agent that brings the number of nodes begins another run.
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
  // The daemon may not have read EndSeen yet; an agent redials.
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
  // Only its launcher can have begun it. The daemon stays until its agents have
  // heard of the end.
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
  // No second run is begun, and the daemon ends as the job did.
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
