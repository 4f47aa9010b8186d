// ServerTest: a daemon in this process, on loopback and a port that the kernel
// chooses. Tests use agents' streams and admin calls by hand, over TLS with the
// daemon's pin unless a test sets something else.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_SERVER_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_SERVER_SERVER_FIXTURE_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/security/secrets/token.h"
#include "daemon/security/trust.h"
#include "daemon/server/server.h"
#include "rollcall/v1/admin.grpc.pb.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall {

// Far longer than any test takes, so that only a hang reaches it.
inline constexpr std::chrono::seconds kServerPatience(60);

inline std::shared_ptr<grpc::Channel> ChannelTo(
    int port, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   credentials, arguments);
}

inline std::shared_ptr<grpc::Channel> ChannelTo(
    int port, const Trust& trust,
    std::shared_ptr<TrustVerdict> verdict = nullptr) {
  auto credentials = ChannelCredentials(trust, absl::StrCat("127.0.0.1:", port),
                                        std::move(verdict));
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return ChannelTo(port, *credentials);
}

// Makes a call of `method` with `bytes` as its request. Returns its status;
// `response` gets the response's bytes, if there is one.
inline grpc::Status CallWith(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& method,
                             const std::string& bytes,
                             std::string* response = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kServerPatience);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer answer;
  std::promise<grpc::Status> done;
  grpc::GenericStub(channel).UnaryCall(
      &context, method, grpc::StubOptions(), &request, &answer,
      [&done](grpc::Status status) { done.set_value(std::move(status)); });
  grpc::Status status = done.get_future().get();
  grpc::Slice whole;
  if (response != nullptr && answer.Valid() &&
      answer.DumpToSingleSlice(&whole).ok()) {
    response->assign(whole.begin(), whole.end());
  }
  return status;
}

// The agent's side of one stream, driven by hand.
class HandAgent {
 public:
  explicit HandAgent(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Membership::NewStub(channel)),
        context_(std::make_unique<grpc::ClientContext>()) {
    context_->set_deadline(std::chrono::system_clock::now() + kServerPatience);
    stream_ = stub_->Attend(context_.get());
  }
  // Disconnects without a message.
  ~HandAgent() {
    if (finished_) return;
    Cancel();
    Finish();
  }

  bool Say(const v1::AgentMessage& message) { return stream_->Write(message); }
  bool SayHello(const v1::Hello& hello) {
    v1::AgentMessage message;
    *message.mutable_hello() = hello;
    return Say(message);
  }
  // Returns the next message, or nothing if the stream has ended.
  std::optional<v1::DaemonMessage> Hear() {
    v1::DaemonMessage message;
    if (!stream_->Read(&message)) return std::nullopt;
    return message;
  }
  // Returns the next message of this kind, or nothing if the stream has ended.
  // Skips others.
  std::optional<v1::DaemonMessage> HearKind(v1::DaemonMessage::KindCase kind) {
    for (;;) {
      std::optional<v1::DaemonMessage> message = Hear();
      if (!message.has_value() || message->kind_case() == kind) return message;
    }
  }
  bool IsWelcome() { return HearWelcome().has_value(); }
  std::optional<v1::Welcome> HearWelcome() {
    const auto message = Hear();
    if (!message.has_value() || !message->has_welcome()) return std::nullopt;
    return message->welcome();
  }
  // Reads to the end of the stream, and returns its status.
  grpc::Status End() {
    while (Hear().has_value()) {
    }
    return Finish();
  }
  void HangUp() { stream_->WritesDone(); }
  // May be called from any thread.
  void Cancel() { context_->TryCancel(); }

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

inline v1::RefusalCode RefusalIn(const grpc::Status& status) {
  v1::Refusal refusal;
  EXPECT_TRUE(refusal.ParseFromString(status.error_details()));
  return refusal.code();
}

inline void ExpectRefused(const grpc::Status& status, grpc::StatusCode code,
                          v1::RefusalCode refusal) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_EQ(RefusalIn(status), refusal) << status.error_message();
  EXPECT_FALSE(status.error_message().empty());
}

class ServerTest : public testing::Test {
 protected:
  ServerOptions Options() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tokens = {{admin_, v1::ROLE_ADMIN, "admin"},
                      {worker_, v1::ROLE_WORKER, "worker"},
                      {viewer_, v1::ROLE_VIEWER, "viewer"}};
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
    trust_ = Trust();
    trust_.insecure = options.insecure;
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    trust_.pin = server_->pin();
  }

  int port() const { return server_->port(); }
  // Makes a connection of its own.
  std::shared_ptr<grpc::Channel> Dial() { return ChannelTo(port(), trust_); }

  v1::Hello HelloOf(const std::string& node) {
    v1::Hello hello;
    hello.set_job("train");
    hello.set_node(node);
    hello.set_incarnation(++incarnation_);
    *hello.mutable_token() = worker_;
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
  // Returns how a stream with this Hello ends. The Hello must be refused.
  grpc::Status Turned(const v1::Hello& hello) {
    HandAgent agent(Dial());
    agent.SayHello(hello);
    const auto first = agent.Hear();
    EXPECT_FALSE(first.has_value()) << "it was let in";
    return agent.End();
  }

  // Expects that this agent, which has attended all the time, still does.
  void ExpectUndisturbed(HandAgent& agent) {
    v1::AgentMessage message;
    message.mutable_heartbeat();
    EXPECT_TRUE(agent.Say(message));
    EXPECT_EQ(StatusOf("train").nodes_size(), 1);
    EXPECT_EQ(StatusOf("train").nodes(0).state(), v1::NODE_STATE_ATTENDING);
  }

  std::unique_ptr<v1::Admin::Stub> AdminStub() {
    return v1::Admin::NewStub(Dial());
  }
  void Authorize(grpc::ClientContext& context, const v1::JoinToken& token) {
    context.AddMetadata("authorization", "Bearer " + TokenText(token));
    context.set_deadline(std::chrono::system_clock::now() + kServerPatience);
  }
  void Authorize(grpc::ClientContext& context) { Authorize(context, admin_); }
  v1::JobStatus StatusOf(const std::string& job) {
    grpc::ClientContext context;
    Authorize(context);
    v1::StatusRequest request;
    request.set_job(job);
    v1::JobStatus status;
    const grpc::Status called = AdminStub()->Status(&context, request, &status);
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
    return AdminStub()->Stop(&context, request, response);
  }

  v1::JoinToken admin_ = MakeToken();
  v1::JoinToken worker_ = MakeToken();
  v1::JoinToken viewer_ = MakeToken();
  uint64_t incarnation_ = 0;
  Trust trust_;
  std::unique_ptr<Server> server_;
};

// A server whose state folder is removed with the test.
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_SERVER_FIXTURE_H_
