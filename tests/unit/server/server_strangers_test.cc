// What unauthenticated clients, and agents in great number, may cost a server.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

// --- What unauthenticated clients may cost -----------------------------------

TEST_F(AccessTest, WrongTokensAreAnsweredLaterAndLaterAndRightOnesAtOnce) {
  ServerOptions options = Options();
  options.log_level = Log::Level::kWarning;
  testing::internal::CaptureStderr();
  StartJob(2, std::move(options));
  v1::JoinToken wrong = worker_;
  wrong.mutable_secret()->front() ^= 1;
  std::vector<std::unique_ptr<HandAgent>> guessers;
  const absl::Time begin = MonotonicNow();
  for (int i = 0; i < 8; ++i) {
    guessers.push_back(std::make_unique<HandAgent>(Dial()));
    ASSERT_TRUE(guessers.back()->SayHello(HelloWith("bad", wrong)));
  }
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  const absl::Time welcomed = MonotonicNow();
  for (const auto& guesser : guessers) {
    ExpectRefused(guesser->End(), grpc::StatusCode::UNAUTHENTICATED,
                  v1::REFUSAL_CODE_UNAUTHENTICATED);
  }
  const absl::Time answered = MonotonicNow();
  // The eighth answer is delayed by 0.8 s.
  EXPECT_GE(answered - begin, absl::Milliseconds(750));
  EXPECT_LT(welcomed, answered);
  EXPECT_EQ(Refused(), (Counts{{"unauthenticated", 8}}));
  ExpectUndisturbed(good);
  server_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Times(log, "event=denied"), 5u) << log;
  EXPECT_EQ(Times(log, "only counted"), 1u) << log;
}

TEST_F(AccessTest, WhoAsksForATakenNameIsAnsweredLaterAndLater) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  std::vector<std::unique_ptr<HandAgent>> others;
  const absl::Time begin = MonotonicNow();
  for (int i = 0; i < 8; ++i) {
    others.push_back(std::make_unique<HandAgent>(Dial()));
    ASSERT_TRUE(others.back()->SayHello(HelloOf("good")));
  }
  for (const auto& other : others) {
    ExpectRefused(other->End(), grpc::StatusCode::ALREADY_EXISTS,
                  v1::REFUSAL_CODE_NAME_TAKEN);
  }
  // The eighth answer is delayed by 0.8 s.
  EXPECT_GE(MonotonicNow() - begin, absl::Milliseconds(750));
  EXPECT_EQ(Refused(), Counts());
  ExpectUndisturbed(good);
}

TEST_F(AccessTest, AShutdownDoesNotWaitForThem) {
  StartJob(2);
  v1::JoinToken wrong = worker_;
  wrong.mutable_secret()->front() ^= 1;
  std::vector<std::unique_ptr<HandAgent>> guessers;
  for (int i = 0; i < 20; ++i) {
    guessers.push_back(std::make_unique<HandAgent>(Dial()));
    ASSERT_TRUE(guessers.back()->SayHello(HelloWith("bad", wrong)));
  }
  while (Refused()["unauthenticated"] < 20) {
  }
  server_->Shutdown();
  for (const auto& guesser : guessers) EXPECT_FALSE(guesser->End().ok());
}

// Streams that send nothing. For each, a thread reads until the stream has
// ended.
class SilentCrowd {
 public:
  ~SilentCrowd() {
    for (const auto& agent : agents_) agent->Cancel();
    for (std::thread& thread : threads_) thread.join();
  }
  void Add(const std::shared_ptr<grpc::Channel>& channel) {
    agents_.push_back(std::make_unique<HandAgent>(channel));
    HandAgent* agent = agents_.back().get();
    threads_.emplace_back([this, agent] {
      const grpc::Status status = agent->End();
      MutexLock lock(mutex_);
      ended_.push_back(status.error_code());
      changed_.NotifyAll();
    });
  }
  // Blocks until `count` streams have ended, and returns their status codes.
  std::vector<grpc::StatusCode> Await(size_t count) {
    MutexLock lock(mutex_);
    while (ended_.size() < count) changed_.Wait(mutex_);
    return ended_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<grpc::StatusCode> ended_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HandAgent>> agents_;
  std::vector<std::thread> threads_;
};

TEST_F(AccessTest, SilentStreamsMakeRoomForOthers) {
  ServerOptions options = Options();
  options.limits.hello_timeout = absl::Hours(1);
  options.limits.streams_without_hello_max = 2;
  StartJob(3, std::move(options));
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  SilentCrowd crowd;
  for (int i = 0; i < 6; ++i) crowd.Add(Dial());
  EXPECT_EQ(crowd.Await(4),
            std::vector<grpc::StatusCode>(4, grpc::StatusCode::UNAVAILABLE));
  ExpectUndisturbed(good);
  // A later stream displaces a silent one, and its Hello frees the place again.
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(HelloOf("late")));
  EXPECT_TRUE(late.IsWelcome());
  EXPECT_EQ(crowd.Await(5),
            std::vector<grpc::StatusCode>(5, grpc::StatusCode::UNAVAILABLE));
}

TEST_F(AccessTest, AgentsConnectionsAreBounded) {
  ServerOptions options = Options();
  options.limits.connections.agents_max = 2;
  StartJob(3, std::move(options));
  auto a = std::make_unique<HandAgent>(Dial());
  ASSERT_TRUE(a->SayHello(HelloOf("a")));
  ASSERT_TRUE(a->IsWelcome());
  // The job refuses the second agent, whose connection stays open in the second
  // place.
  const std::shared_ptr<grpc::Channel> idle = Dial();
  {
    v1::Hello contrary = HelloOf("b");
    contrary.mutable_settings()->set_nodes_max(7);
    HandAgent refused(idle);
    ASSERT_TRUE(refused.SayHello(contrary));
    ExpectRefused(refused.End(), grpc::StatusCode::FAILED_PRECONDITION,
                  v1::REFUSAL_CODE_SETTINGS);
  }
  ASSERT_EQ(idle->GetState(false), GRPC_CHANNEL_READY);
  // The idle connection is closed in favour of an agent that is let in.
  HandAgent b(Dial());
  ASSERT_TRUE(b.SayHello(HelloOf("b")));
  ASSERT_TRUE(b.IsWelcome());
  EXPECT_TRUE(idle->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kServerPatience));
  // Both agents have streams now. A third agent is told to wait, but admins are
  // served.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Turned(HelloOf("c")).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_EQ(StatusOf("train").nodes_size(), 2);
  // The place of an agent that has gone is free once the daemon has noticed.
  a.reset();
  for (bool welcome = false; !welcome;) {
    HandAgent c(Dial());
    ASSERT_TRUE(c.SayHello(HelloOf("c")));
    welcome = c.IsWelcome();
  }
}

TEST_F(AccessTest, AnAgentThatReturnsIsLetInWhereAllPlacesAreTaken) {
  ServerOptions options = Options();
  options.limits.connections.agents_max = 2;
  options.limits.lease = absl::Hours(1);
  options.limits.reconnect_grace = absl::Hours(1);
  StartJob(4, std::move(options));
  const v1::Hello hello = HelloOf("a");
  v1::Hello back = hello;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    const auto welcome = a.HearWelcome();
    ASSERT_TRUE(welcome.has_value());
    back.clear_token();
    back.set_run(welcome->run());
    back.set_node_credential(welcome->node_credential());
  }
  // Another agent gets the place once the daemon has noticed.
  HandAgent b(Dial());
  ASSERT_TRUE(b.SayHello(HelloOf("b")));
  ASSERT_TRUE(b.IsWelcome());
  std::unique_ptr<HandAgent> c;
  do {
    c = std::make_unique<HandAgent>(Dial());
    ASSERT_TRUE(c->SayHello(HelloOf("c")));
  } while (!c->IsWelcome());
  EXPECT_EQ(Turned(HelloOf("d")).error_code(), grpc::StatusCode::UNAVAILABLE);
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(back));
  ASSERT_TRUE(again.IsWelcome());
  // The newest agent that was admitted by the token was closed for it.
  EXPECT_EQ(c->End().error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::AgentMessage beat;
  beat.mutable_heartbeat();
  EXPECT_TRUE(b.Say(beat));
  EXPECT_TRUE(again.Say(beat));
}

// --- Calls without a proper request ------------------------------------------

TEST_F(AccessTest, ACallWithoutAProperRequestCountsAsACall) {
  ServerOptions options = Options();
  options.limits.connections.unauthenticated_calls_max = 3;
  StartJob(2, std::move(options));
  const struct {
    const char* method;
    grpc::StatusCode code;
  } rows[] = {
      {"/rollcall.v1.Admin/Status", grpc::StatusCode::INVALID_ARGUMENT},
      {"/rollcall.v1.Admin/Watch", grpc::StatusCode::INVALID_ARGUMENT},
      {"/rollcall.v1.Admin/CreateToken", grpc::StatusCode::INVALID_ARGUMENT},
      {"/grpc.health.v1.Health/Check", grpc::StatusCode::INVALID_ARGUMENT},
      {"/grpc.health.v1.Health/Watch", grpc::StatusCode::UNIMPLEMENTED},
      {"/rollcall.v1.Admin/Nothing", grpc::StatusCode::UNIMPLEMENTED},
  };
  for (const auto& [method, code] : rows) {
    const std::shared_ptr<grpc::Channel> channel = Dial();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(CallWith(channel, method, "\xff\xff").error_code(), code)
          << method << ' ' << i;
    }
    EXPECT_EQ(CallWith(channel, method, "\xff\xff").error_code(),
              grpc::StatusCode::UNAVAILABLE)
        << method;
  }
}

}  // namespace
}  // namespace rollcall
