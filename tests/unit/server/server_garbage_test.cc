// What a server does with bytes that are not a message, with too many bytes,
// and with agents that do not read or that vanish.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/codec/introduction.h"
#include "tests/unit/server/server_fixture.h"

namespace rollcall {
namespace {

// --- Garbage -----------------------------------------------------------------

// Calls Attend and sends these bytes as the first messages.
grpc::Status AttendWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                             const std::vector<std::string>& messages) {
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
  for (const std::string& bytes : messages) {
    const grpc::Slice slice(bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), &tag);
    queue.Next(&tag, &ok);
  }
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
       {std::string("\xff\xff\xff\xff\xff"), std::string(4'000, '\x0a'),
        std::string("GET / HTTP/1.1\r\n\r\n"),
        HelloOf("cut").SerializeAsString().substr(0, 20)}) {
    ExpectRefused(AttendWithBytes(Dial(), {bytes}),
                  grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  }
  ExpectUndisturbed(good);
}

TEST_F(ServerTest, OversizedMessagesEndTheirStreamAlone) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  // This is more than a Hello may have.
  ExpectRefused(AttendWithBytes(
                    Dial(), {IntroductionOf(HelloOf("bad")).SerializeAsString(),
                             std::string(Limits::hello_bytes_max + 1, 'x')}),
                grpc::StatusCode::INVALID_ARGUMENT, v1::REFUSAL_CODE_INVALID);
  // This is more than any client may send before it has authenticated. The
  // connection ends long before the message does.
  EXPECT_EQ(AttendWithBytes(
                Dial(), {std::string(8 * Limits::agent_message_bytes_max, 'x')})
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
  // Each value is answered with 256 KiB, which the agent does not read.
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

// Sends bytes on a bare connection, half-closes it if asked to, and reads until
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
        // The header of this frame gives a longer length than the bytes that
        // follow.
        preface + settings + std::string("\0\x40\0\1\4\0\0\0\1half", 13),
        // A data frame for a stream that was never opened.
        preface + settings + std::string("\0\0\4\0\0\0\0\0\1abcd", 13),
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    for (const std::string& bytes : pieces) {
      Poke(port(), bytes, true);
      Poke(port(), bytes, false);
    }
    ExpectUndisturbed(good);
    EXPECT_GT(StatusOf("train").unauthenticated().garbage(), 0u);
  }
}

TEST_F(ServerTest, AgentsThatVanishAreLetGo) {
  StartJob(2);
  for (int i = 0; i < 20; ++i) {
    HandAgent gone(Dial());
    ASSERT_TRUE(gone.SayHello(HelloOf(absl::StrCat("n", i % 2))));
    // The previous agent may not be lost for the job yet, so either answer is
    // right.
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

}  // namespace
}  // namespace rollcall
