// The daemon's shell over real gRPC streams and bare sockets, on loopback and
// ports that the kernel picks.
#include "daemon/server/server.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/security/join_string.h"
#include "daemon/server/clock.h"
#include "daemon/server/membership_service.h"
#include "rollcall/v1/admin.grpc.pb.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall {
namespace {

// Far above what anything here takes: only a hang meets it.
constexpr std::chrono::seconds kPatience(60);

std::shared_ptr<grpc::Channel> ChannelTo(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(),
                                   arguments);
}

// An agent's side of one stream, by hand.
class Agent {
 public:
  explicit Agent(int port)
      : stub_(v1::Membership::NewStub(ChannelTo(port))),
        context_(std::make_unique<grpc::ClientContext>()) {
    context_->set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_ = stub_->Attend(context_.get());
  }
  // Goes away without a word.
  ~Agent() {
    if (finished_) return;
    context_->TryCancel();
    Finish();
  }

  bool Say(const v1::AgentMessage& message) { return stream_->Write(message); }
  bool SayHello(const v1::Hello& hello) {
    v1::AgentMessage message;
    *message.mutable_hello() = hello;
    return Say(message);
  }
  // The next message; nothing where the stream has ended.
  std::optional<v1::DaemonMessage> Hear() {
    v1::DaemonMessage message;
    if (!stream_->Read(&message)) return std::nullopt;
    return message;
  }
  // Skips what is not of this kind; nothing where the stream has ended.
  std::optional<v1::DaemonMessage> HearKind(v1::DaemonMessage::KindCase kind) {
    for (;;) {
      std::optional<v1::DaemonMessage> message = Hear();
      if (!message.has_value() || message->kind_case() == kind) return message;
    }
  }
  bool IsWelcome() {
    const auto message = Hear();
    return message.has_value() && message->has_welcome();
  }
  // Reads to the end of the stream.
  grpc::Status End() {
    while (Hear().has_value()) {
    }
    return Finish();
  }
  void HangUp() { stream_->WritesDone(); }

 private:
  grpc::Status Finish() {
    finished_ = true;
    return stream_->Finish();
  }

  std::unique_ptr<v1::Membership::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessage, v1::DaemonMessage>>
      stream_;
  bool finished_ = false;
};

v1::Refusal RefusalIn(const grpc::Status& status) {
  v1::Refusal refusal;
  EXPECT_TRUE(refusal.ParseFromString(status.error_details()));
  return refusal;
}

void ExpectRefused(const grpc::Status& status, grpc::StatusCode code,
                   v1::RefusalCode refusal) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_EQ(RefusalIn(status).code(), refusal) << status.error_message();
  EXPECT_FALSE(status.error_message().empty());
}

class ServerTest : public testing::Test {
 protected:
  ServerOptions Options() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.token = token_;
    options.log_level = Log::Level::kError;
    return options;
  }
  void StartJob(uint32_t nodes, ServerOptions options) {
    options.job = "train";
    options.settings.set_nodes_min(nodes);
    options.settings.set_nodes_max(nodes);
    Start(std::move(options));
  }
  void StartJob(uint32_t nodes) { StartJob(nodes, Options()); }
  void Start(ServerOptions options) {
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }

  v1::Hello HelloOf(const std::string& node) {
    v1::Hello hello;
    hello.set_job("train");
    hello.set_node(node);
    hello.set_incarnation(++incarnation_);
    *hello.mutable_token() = token_;
    hello.set_ranks(1);
    hello.mutable_facts()->set_boot_id("boot");
    hello.mutable_facts()->set_network_namespace(1);
    v1::Interface& loopback = *hello.mutable_facts()->add_interfaces();
    loopback.set_name("lo");
    loopback.set_up(true);
    loopback.set_running(true);
    loopback.set_loopback(true);
    v1::InterfaceAddress& address = *loopback.add_addresses();
    address.set_address("127.0.0.1");
    address.set_prefix_length(8);
    return hello;
  }

  // A node that attends throughout, and proves at the end that it was not
  // disturbed.
  void ExpectUndisturbed(Agent& agent) {
    v1::AgentMessage message;
    message.mutable_heartbeat();
    EXPECT_TRUE(agent.Say(message));
    EXPECT_EQ(StatusOf("train").nodes_size(), 1);
    EXPECT_EQ(StatusOf("train").nodes(0).state(), v1::NODE_STATE_ATTENDING);
  }

  void Authorize(grpc::ClientContext& context) {
    context.AddMetadata("authorization", "Bearer " + TokenText(token_));
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
  }
  v1::JobStatus StatusOf(const std::string& job) {
    grpc::ClientContext context;
    Authorize(context);
    v1::StatusRequest request;
    request.set_job(job);
    v1::JobStatus status;
    const grpc::Status called = v1::Admin::NewStub(ChannelTo(port()))
                                    ->Status(&context, request, &status);
    EXPECT_TRUE(called.ok()) << called.error_message();
    return status;
  }
  grpc::Status Stop(const std::string& job, int exit_code,
                    v1::StopResponse* response) {
    grpc::ClientContext context;
    Authorize(context);
    v1::StopRequest request;
    request.set_job(job);
    request.set_exit_code(exit_code);
    return v1::Admin::NewStub(ChannelTo(port()))
        ->Stop(&context, request, response);
  }

  v1::JoinToken token_ = MakeToken();
  uint64_t incarnation_ = 0;
  std::unique_ptr<Server> server_;
};

// --- A whole run -------------------------------------------------------------

uint64_t ProposedTo(Agent& agent) {
  const auto message = agent.HearKind(v1::DaemonMessage::kProposal);
  EXPECT_TRUE(message.has_value());
  return message.has_value() ? message->proposal().generation() : 0;
}

TEST_F(ServerTest, TwoNodesRunToTheEnd) {
  StartJob(2);
  Agent a(port()), b(port());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(b.SayHello(HelloOf("b")));
  const auto proposal = a.HearKind(v1::DaemonMessage::kProposal);
  ASSERT_TRUE(proposal.has_value());
  EXPECT_EQ(ProposedTo(b), 1u);
  for (Agent* agent : {&a, &b}) {
    v1::AgentMessage prepared;
    prepared.mutable_prepared()->set_generation(1);
    prepared.mutable_prepared()->set_master_port(20000);
    ASSERT_TRUE(agent->Say(prepared));
  }
  for (Agent* agent : {&a, &b}) {
    ASSERT_TRUE(agent->HearKind(v1::DaemonMessage::kCommit).has_value());
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_generation(1);
    ASSERT_TRUE(agent->Say(exited));
  }
  for (Agent* agent : {&a, &b}) {
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
  Agent a(port());
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
  const auto stub = v1::Admin::NewStub(ChannelTo(port()));
  const auto watch = stub->Watch(&context, request);
  v1::JobStatus status;
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.job(), "train");
  EXPECT_EQ(status.nodes_size(), 0);
  Agent a(port());
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

// --- Who is not let in -------------------------------------------------------

TEST_F(ServerTest, AWrongTokenIsUnauthenticated) {
  StartJob(2);
  const std::function<void(v1::Hello&)> changes[] = {
      [](v1::Hello& h) { h.mutable_token()->mutable_secret()->front() ^= 1; },
      [](v1::Hello& h) { h.mutable_token()->set_id("zzzzzz"); },
      [](v1::Hello& h) { h.clear_token(); },
      [](v1::Hello& h) { h.mutable_token()->clear_secret(); },
      [](v1::Hello& h) { h.set_node_credential("guess"); },
      // A stranger learns nothing of what else is wrong.
      [](v1::Hello& h) {
        h.clear_token();
        h.set_node("no name");
      },
  };
  Agent good(port());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  for (const auto& change : changes) {
    Agent bad(port());
    v1::Hello hello = HelloOf("bad");
    change(hello);
    bad.SayHello(hello);
    ExpectRefused(bad.End(), grpc::StatusCode::UNAUTHENTICATED,
                  v1::REFUSAL_CODE_UNAUTHENTICATED);
  }
  ExpectUndisturbed(good);
}

TEST_F(ServerTest, ACredentialTakesTheTokensPlace) {
  StartJob(2);
  v1::Hello hello = HelloOf("a");
  Agent first(port());
  ASSERT_TRUE(first.SayHello(hello));
  const auto welcome = first.Hear();
  ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
  hello.set_run(welcome->welcome().run());
  hello.set_node_credential(welcome->welcome().node_credential());
  Agent again(port());
  ASSERT_TRUE(again.SayHello(hello));
  EXPECT_TRUE(again.IsWelcome());
  ExpectRefused(first.End(), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_REDIALED);
  // It is bound to its node.
  hello.set_node("b");
  Agent thief(port());
  ASSERT_TRUE(thief.SayHello(hello));
  ExpectRefused(thief.End(), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
}

TEST_F(ServerTest, MessagesOutOfOrderAreInvalid) {
  StartJob(2);
  Agent good(port());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  v1::AgentMessage heartbeat, nothing, unfit, hello;
  heartbeat.mutable_heartbeat();
  unfit.mutable_rank_exited()->set_local_rank(99);
  *hello.mutable_hello() = HelloOf("good");
  hello.mutable_hello()->set_node("no name");
  for (const v1::AgentMessage& first : {heartbeat, nothing, unfit, hello}) {
    Agent bad(port());
    bad.Say(first);
    ExpectRefused(bad.End(), grpc::StatusCode::INVALID_ARGUMENT,
                  v1::REFUSAL_CODE_INVALID);
  }
  ExpectUndisturbed(good);
  *hello.mutable_hello() = HelloOf("other");
  // Each under a name of its own: the last one's may not be free yet.
  int number = 0;
  for (const v1::AgentMessage& second : {nothing, unfit, hello}) {
    Agent bad(port());
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
  Agent silent(port());
  ExpectRefused(silent.End(), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
}

TEST_F(ServerTest, AnotherJobIsRefusedForGood) {
  StartJob(2);
  Agent lost(port());
  v1::Hello hello = HelloOf("a");
  hello.set_job("other");
  hello.mutable_settings()->set_nodes_max(1);
  ASSERT_TRUE(lost.SayHello(hello));
  ExpectRefused(lost.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
}

TEST_F(ServerTest, AdminCallsNeedTheToken) {
  StartJob(2);
  const auto stub = v1::Admin::NewStub(ChannelTo(port()));
  v1::JoinToken other = token_;
  other.mutable_secret()->front() ^= 1;
  for (const std::string& value :
       {std::string(), std::string("Bearer"), TokenText(token_),
        "Bearer " + TokenText(other), std::string("Bearer x.y")}) {
    const auto refused = [&](auto call) {
      grpc::ClientContext context;
      if (!value.empty()) context.AddMetadata("authorization", value);
      const grpc::Status status = call(context);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    };
    refused([&](grpc::ClientContext& context) {
      v1::JobStatus status;
      return stub->Status(&context, v1::StatusRequest(), &status);
    });
    refused([&](grpc::ClientContext& context) {
      v1::StopResponse response;
      return stub->Stop(&context, v1::StopRequest(), &response);
    });
    refused([&](grpc::ClientContext& context) {
      v1::DrainResponse response;
      return stub->Drain(&context, v1::DrainRequest(), &response);
    });
    refused([&](grpc::ClientContext& context) {
      v1::CreateTokenResponse response;
      return stub->CreateToken(&context, v1::CreateTokenRequest(), &response);
    });
    refused([&](grpc::ClientContext& context) {
      const auto watch = stub->Watch(&context, v1::StatusRequest());
      v1::JobStatus status;
      EXPECT_FALSE(watch->Read(&status));
      return watch->Finish();
    });
  }
}

TEST_F(ServerTest, AdminCallsAreChecked) {
  StartJob(2);
  const auto stub = v1::Admin::NewStub(ChannelTo(port()));
  v1::StopResponse response;
  EXPECT_EQ(Stop("train", 256, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Stop("no job", 0, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Stop("other", 0, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  Authorize(context);
  v1::DrainResponse drained;
  EXPECT_EQ(stub->Drain(&context, v1::DrainRequest(), &drained).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

// --- Garbage -----------------------------------------------------------------

// Calls Attend with bytes of our own as the first message.
grpc::Status AttendWithBytes(int port, const std::string& bytes) {
  const auto channel = ChannelTo(port);
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
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
  Agent good(port());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\xff"), std::string(100'000, '\x0a'),
        std::string("GET / HTTP/1.1\r\n\r\n"),
        HelloOf("cut").SerializeAsString().substr(0, 20)}) {
    ExpectRefused(AttendWithBytes(port(), bytes),
                  grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  }
  ExpectUndisturbed(good);
}

TEST_F(ServerTest, OversizedMessagesEndTheirStreamAlone) {
  StartJob(2);
  Agent good(port());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  // More than a Hello may have, and more than any message may.
  ExpectRefused(
      AttendWithBytes(
          port(),
          std::string(MembershipService::kFirstMessageBytesMax + 1, 'x')),
      grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  EXPECT_EQ(AttendWithBytes(
                port(), std::string(Limits::agent_message_bytes_max + 1, 'x'))
                .error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectUndisturbed(good);
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
  StartJob(2);
  Agent good(port());
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
}

TEST_F(ServerTest, AgentsThatVanishAreLetGo) {
  StartJob(2);
  for (int i = 0; i < 20; ++i) {
    Agent gone(port());
    ASSERT_TRUE(gone.SayHello(HelloOf(absl::StrCat("n", i % 2))));
    // The one before is not lost yet for the job; either answer is right.
    gone.Hear();
  }
  EXPECT_LE(StatusOf("train").nodes_size(), 2);
}

TEST_F(ServerTest, AnAgentThatHangsUpIsAnswered) {
  StartJob(2);
  Agent a(port());
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
      [](ServerOptions& o) { o.token.clear_secret(); },
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
  Agent a(port()), silent(port());
  ASSERT_TRUE(a.SayHello(HelloOf("a")));
  ASSERT_TRUE(a.IsWelcome());
  grpc::ClientContext context;
  Authorize(context);
  const auto stub = v1::Admin::NewStub(ChannelTo(port()));
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

TEST_F(ServerTest, AStrangersCredentialMakesNoJob) {
  Start(Options());
  Agent stranger(port());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  hello.set_node_credential("anything");
  ASSERT_TRUE(stranger.SayHello(hello));
  ExpectRefused(stranger.End(), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
  // Still nobody's: it takes settings and a token to make it.
  Agent plain(port());
  ASSERT_TRUE(plain.SayHello(HelloOf("a")));
  ExpectRefused(plain.End(), grpc::StatusCode::NOT_FOUND,
                v1::REFUSAL_CODE_NO_JOB);
}

TEST_F(ServerTest, JobsAreMadeByTheFirstHelloWithSettings) {
  Start(Options());
  Agent early(port());
  ASSERT_TRUE(early.SayHello(HelloOf("a")));
  ExpectRefused(early.End(), grpc::StatusCode::NOT_FOUND,
                v1::REFUSAL_CODE_NO_JOB);
  Agent first(port()), second(port()), other(port());
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
  Agent a(port());
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
  Agent late(port());
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
  Agent launcher(port());
  hello = HelloOf("b");
  hello.set_launcher(true);
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(launcher.SayHello(hello));
  ASSERT_TRUE(launcher.IsWelcome());
  EXPECT_EQ(StatusOf("train").state(), v1::JOB_STATE_GATHERING);
}

// --- The journal -------------------------------------------------------------

class JournaledServerTest : public ServerTest {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "rollcall_server_XXXXXX")
            .string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  ServerOptions Journaled(bool resume) {
    ServerOptions options = Options();
    options.state_dir = folder_ + "/state";
    options.resume = resume;
    return options;
  }
  std::string folder_;
};

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
  Agent late(port());
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
  Agent a(port()), b(port());
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
