// One agent against a real daemon in this process, over loopback.
#include "client/agent/session.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/link/channel.h"
#include "client/agent/nccl/nccl.h"
#include "client/agent/processes/guard.h"
#include "client/facts/device_facts.h"
#include "client/facts/watch/fact_watch.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/server.h"
#include "rollcall/v1/admin.grpc.pb.h"

namespace rollcall {
namespace {

// Returns a socket bound to a loopback port.
int Bind(int& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

// A loopback port on which nothing listens. It was bound and then released.
int SilentPort() {
  int port;
  close(Bind(port));
  return port;
}

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/session_test.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tokens = {{token_, v1::ROLE_WORKER, ""}};
    options.log_level = Log::Level::kError;
    options.job = "exp";
    options.settings.set_nodes_min(1);
    options.settings.set_nodes_max(1);
    options.settings.set_max_restarts(0);
    auto server = Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  AgentOptions Options(const std::string& script) {
    AgentOptions options;
    options.endpoints = {absl::StrCat("127.0.0.1:", server_->port())};
    options.trust.pin = server_->pin();
    options.hello.set_job("exp");
    options.hello.set_node("n0");
    *options.hello.mutable_token() = token_;
    options.hello.set_ranks(2);
    options.command = {"/bin/sh", "-c", script};
    options.environment = {"PATH=/usr/bin:/bin",
                           absl::StrCat("XDG_RUNTIME_DIR=", folder_),
                           absl::StrCat("OUT=", folder_)};
    options.join_timeout = absl::Seconds(30);
    options.hosts_file = "";
    options.output_to_stderr = true;
    return options;
  }

  std::string Read(const std::string& name) {
    std::ifstream file(folder_ + "/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const v1::JoinToken token_ = MakeToken();
  std::string folder_;
  std::unique_ptr<Server> server_;
};

TEST_F(SessionTest, RanksRunAndTheRunFinishes) {
  const AgentResult result = RunAgent(
      Options("echo $RANK $WORLD_SIZE $ROLLCALL_GENERATION > $OUT/$RANK"));
  EXPECT_EQ(result.exit_code, 0) << result.reason;
  ASSERT_TRUE(result.end.has_value());
  EXPECT_TRUE(result.end->finished());
  EXPECT_EQ(Read("0"), "0 2 1\n");
  EXPECT_EQ(Read("1"), "1 2 1\n");
  // The run folder is gone. Only what the ranks wrote is left.
  size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    left += entry.path().filename() == "0" || entry.path().filename() == "1"
                ? 0
                : 1;
  }
  EXPECT_EQ(left, 0u);
}

TEST_F(SessionTest, ARanksCodeIsTheAgents) {
  const AgentResult result =
      RunAgent(Options("echo broken >&2; test $RANK = 0 || exit 3"));
  EXPECT_EQ(result.exit_code, 3) << result.reason;
  ASSERT_TRUE(result.end.has_value());
  EXPECT_EQ(result.end->root_cause().rank(), 1);
  EXPECT_EQ(result.end->root_cause().stderr_tail(), "broken");
}

TEST_F(SessionTest, OnceRunsOneRank) {
  AgentOptions options = Options("echo x >> $OUT/ran");
  options.hello.set_once(true);
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 0);
  EXPECT_EQ(Read("ran"), "x\n");
}

TEST_F(SessionTest, AWrongTokenIsRefused) {
  AgentOptions options = Options("true");
  *options.hello.mutable_token() = MakeToken();
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 77);
}

// A daemon that admits any client with our token, but is not our daemon.
std::unique_ptr<Server> Stranger(const v1::JoinToken& token) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.tokens = {{token, v1::ROLE_ADMIN, ""}};
  options.log_level = Log::Level::kError;
  options.job = "exp";
  options.settings.set_nodes_min(2);
  options.settings.set_nodes_max(2);
  auto server = Server::Start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

// The number of nodes that attend at this daemon.
int NodesAt(const Server& server, const v1::JoinToken& token) {
  Trust trust;
  trust.pin = server.pin();
  const auto channel =
      MakeChannel(absl::StrCat("127.0.0.1:", server.port()), trust, nullptr);
  EXPECT_TRUE(channel.ok());
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + TokenText(token));
  v1::JobStatus status;
  EXPECT_TRUE(v1::Admin::NewStub(*channel)
                  ->Status(&context, v1::StatusRequest(), &status)
                  .ok());
  return status.nodes_size();
}

TEST_F(SessionTest, AStrangerEndsItAndIsToldNothing) {
  const std::unique_ptr<Server> other_daemon = Stranger(token_);
  AgentOptions options = Options("touch $OUT/ran");
  options.endpoints = {absl::StrCat("127.0.0.1:", other_daemon->port())};
  const std::string endpoint = options.endpoints[0];
  const AgentResult result = RunAgent(std::move(options));
  EXPECT_EQ(result.exit_code, 77) << result.reason;
  EXPECT_TRUE(absl::StrContains(result.reason, endpoint)) << result.reason;
  EXPECT_EQ(NodesAt(*other_daemon, token_), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/ran"));
}

TEST_F(SessionTest, BehindAStrangerTheDaemonIsFound) {
  const std::unique_ptr<Server> other_daemon = Stranger(token_);
  AgentOptions options = Options("true");
  options.endpoints.insert(options.endpoints.begin(),
                           absl::StrCat("127.0.0.1:", other_daemon->port()));
  const AgentResult result = RunAgent(std::move(options));
  EXPECT_EQ(result.exit_code, 0) << result.reason;
  EXPECT_EQ(NodesAt(*other_daemon, token_), 0);
}

TEST_F(SessionTest, AWrongPinIsAsGoodAsAStranger) {
  AgentOptions options = Options("true");
  options.trust.pin.back() ^= 1;
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 77);
}

TEST_F(SessionTest, ATokenForAnotherJobIsRefused) {
  AgentOptions options = Options("true");
  options.hello.set_job("other");
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 77);
}

TEST_F(SessionTest, AnEndpointThatNobodyAnswersIsNamed) {
  AgentOptions options = Options("true");
  options.endpoints = {absl::StrCat("127.0.0.1:", SilentPort())};
  options.join_timeout = absl::Seconds(2);
  const std::string endpoint = options.endpoints[0];
  const AgentResult result = RunAgent(std::move(options));
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_TRUE(absl::StrContains(result.reason, endpoint)) << result.reason;
}

TEST_F(SessionTest, ASecondEndpointIsTried) {
  AgentOptions options = Options("true");
  options.endpoints.insert(options.endpoints.begin(),
                           absl::StrCat("127.0.0.1:", SilentPort()));
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 0);
}

// The endpoints take turns. So two connections in a row at the same endpoint
// would mean that the channel of a failed attempt has connected again by
// itself.
TEST_F(SessionTest, AnAttemptConnectsOnce) {
  constexpr size_t kConnections = 8;
  int ports[2];
  pollfd listeners[2];
  for (int i = 0; i < 2; ++i) {
    listeners[i] = {Bind(ports[i]), POLLIN, 0};
    ASSERT_EQ(listen(listeners[i].fd, 16), 0);
  }
  AgentOptions options = Options("true");
  options.endpoints = {absl::StrCat("127.0.0.1:", ports[0]),
                       absl::StrCat("127.0.0.1:", ports[1])};
  // The endpoint, 0 or 1, to which each connection came.
  std::vector<int> came;
  std::thread closing([&] {
    while (came.size() < kConnections && poll(listeners, 2, -1) > 0) {
      for (int i = 0; i < 2; ++i) {
        if (listeners[i].revents == 0) continue;
        close(accept(listeners[i].fd, nullptr, nullptr));
        came.push_back(i);
      }
    }
    kill(getpid(), SIGTERM);
  });
  EXPECT_NE(RunAgent(std::move(options)).exit_code, 0);
  closing.join();
  for (const pollfd& each : listeners) close(each.fd);
  for (size_t i = 0; i < came.size(); ++i) {
    EXPECT_EQ(came[i], static_cast<int>(i % 2)) << i;
  }
}

TEST_F(SessionTest, ASignalEndsTheRanksAndTheAgent) {
  AgentOptions options = Options("exec sleep 600");
  // Sends the signal once, because a second one would end the agent without the
  // daemon.
  options.report = [asked = false](const Report& report) mutable {
    if (report.kind != Report::Kind::kState || asked) return;
    asked = true;
    raise(SIGTERM);
  };
  // The only node leaves, so the job ends with the requeue code.
  EXPECT_EQ(RunAgent(std::move(options)).exit_code, 75);
}

}  // namespace
}  // namespace rollcall

// The agent's child processes run this same binary.
int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "guard") == 0) return rollcall::GuardMain();
  if (argc > 1 && strcmp(argv[1], "mint-nccl-id") == 0) {
    return rollcall::MintNcclIdMain({argv + 2, argv + argc});
  }
  if (argc > 1 && strcmp(argv[1], "facts") == 0) {
    const auto command = rollcall::ParseFactsArguments({argv + 2, argv + argc});
    if (command.ok() && command->watch) {
      rollcall::WatchFacts(command->options, /*json=*/false);
    }
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
