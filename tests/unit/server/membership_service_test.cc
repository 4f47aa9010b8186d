#include "daemon/server/membership_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/server/leader/current_loop.h"
#include "rollcall/v1/membership.pb.h"
#include "tests/unit/server/server_fixture.h"

namespace rollcall {
namespace {

// The service without a loop: the test takes what it posts.
class MembershipServiceTest : public ServerTest {
 protected:
  MembershipServiceTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    grpc_server_ = builder.BuildAndStart();
    loop_.Open(inbox_);
  }
  ~MembershipServiceTest() override {
    grpc_server_->Shutdown();
    loop_.Shut(absl::CancelledError());
  }

  std::shared_ptr<grpc::Channel> Dial() {
    return ChannelTo(port_, grpc::InsecureChannelCredentials());
  }

  // Takes inputs until `messages_` has so many, or `hellos_`.
  void Take(size_t messages, size_t hellos) {
    while (messages_.size() < messages || hellos_ < hellos) {
      std::vector<LoopInput> inputs =
          inbox_.Take(absl::FromChrono(kServerPatience));
      ASSERT_FALSE(inputs.empty()) << messages_.size() << ", " << hellos_;
      for (LoopInput& input : inputs) {
        if (auto* opened = std::get_if<StreamOpened>(&input)) {
          streams_.push_back(std::move(opened->stream));
        } else if (std::holds_alternative<HelloCame>(input)) {
          ++hellos_;
        } else if (auto* came = std::get_if<MessageCame>(&input)) {
          messages_.push_back(std::move(*came));
        }
      }
    }
  }

  Inbox<LoopInput> inbox_{1000};
  CurrentLoop loop_;
  MembershipService service_{loop_};
  int port_ = 0;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<MessageCame> messages_;
  size_t hellos_ = 0;
};

// So no agent can fill the inbox with messages that take it few bytes.
TEST_F(MembershipServiceTest, OnlySoManyMessagesOfAStreamWait) {
  constexpr size_t kWaiting =
      MembershipService::kUnhandledBytesMax / MembershipService::kMessageBytes;
  constexpr size_t kSent = 3 * kWaiting;
  HandAgent agent(Dial());
  ASSERT_TRUE(agent.SayHello(HelloOf("a")));
  v1::AgentMessage heartbeat;
  heartbeat.mutable_heartbeat();
  for (size_t i = 0; i < kSent; ++i) ASSERT_TRUE(agent.Say(heartbeat));
  Take(kWaiting, 1);
  EXPECT_EQ(messages_.size(), kWaiting);
  // Another agent is heard meanwhile.
  HandAgent other(Dial());
  ASSERT_TRUE(other.SayHello(HelloOf("b")));
  Take(0, 2);
  EXPECT_EQ(messages_.size(), kWaiting);
  // Where one is handled, one more is read.
  ASSERT_FALSE(streams_.empty());
  for (size_t handled = 1; kWaiting + handled <= kSent; ++handled) {
    streams_[0]->Took(messages_[handled - 1].bytes);
    Take(kWaiting + handled, 0);
    ASSERT_EQ(messages_.size(), kWaiting + handled);
  }
}

}  // namespace
}  // namespace rollcall
