#include "client/rank/rank.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "daemon/core/limits.h"
#include "tests/unit/fake_agent.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

// Yields until it holds: what another thread is about to do.
template <typename Condition>
void AwaitTrue(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(RankPlace, IsReadFromTheEnvironment) {
  struct Row {
    const char* socket;
    const char* local_rank;
    const char* generation;
    Code expect;
  };
  const std::string long_path(120, 'x');
  const Row kRows[] = {
      {nullptr, "0", "1", Code::kFailedPrecondition},
      {"", "0", "1", Code::kFailedPrecondition},
      {"/run/agent", "3", "12", Code::kOk},
      {"/run/agent", nullptr, "1", Code::kInvalidArgument},
      {"/run/agent", "-1", "1", Code::kInvalidArgument},
      {"/run/agent", "64", "1", Code::kInvalidArgument},
      {"/run/agent", "1", "two", Code::kInvalidArgument},
      {"/run/agent", "1", "", Code::kInvalidArgument},
      {long_path.c_str(), "1", "1", Code::kInvalidArgument},
  };
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  for (const Row& row : kRows) {
    set("ROLLCALL_SOCKET", row.socket);
    set("LOCAL_RANK", row.local_rank);
    set("ROLLCALL_GENERATION", row.generation);
    const auto place = RankPlace::FromEnvironment();
    EXPECT_EQ(place.status().code(), row.expect) << place.status();
    if (!place.ok()) continue;
    EXPECT_EQ(place->local_rank, 3u);
    EXPECT_EQ(place->generation, 12u);
  }
  for (const char* name :
       {"ROLLCALL_SOCKET", "LOCAL_RANK", "ROLLCALL_GENERATION"}) {
    unsetenv(name);
  }
}

TEST(Rank, LearnsItsWorld) {
  FakeAgent agent(3);
  auto rank = Rank::Attend(agent.place(2));
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ((*rank)->generation(), FakeAgent::kGeneration);
  EXPECT_EQ((*rank)->rank(), 2u);
  EXPECT_EQ((*rank)->world_size(), 3u);
  EXPECT_EQ((*rank)->ranks_here(), 3u);
  EXPECT_EQ((*rank)->member().node(), "here");
  EXPECT_FALSE((*rank)->lost());
  EXPECT_FALSE((*rank)->aborted());
  EXPECT_FALSE((*rank)->noticed());
}

TEST(Rank, SaysWhyItCouldNotAttend) {
  FakeAgent agent(2);
  EXPECT_EQ(Rank::Attend(agent.place(2)).status().code(),
            Code::kInvalidArgument);
  agent.Die();
  EXPECT_EQ(Rank::Attend(agent.place(0)).status().code(), Code::kUnavailable);
}

TEST(Rank, ExchangesWithAll) {
  constexpr int kRanks = 3;
  FakeAgent agent(kRanks);
  std::vector<std::future<void>> all;
  for (int r = 0; r < kRanks; ++r) {
    all.push_back(std::async(std::launch::async, [&agent, r] {
      auto rank = Rank::Attend(agent.place(r));
      ASSERT_TRUE(rank.ok()) << rank.status();
      for (const char* key : {"a", "b", "a"}) {  // Again: the same answer.
        auto values = (*rank)->Exchange(key, std::string(key) + char('0' + r),
                                        absl::Seconds(20));
        ASSERT_TRUE(values.ok()) << values.status();
        const std::string k = key;
        EXPECT_EQ(*values,
                  (std::vector<std::string>{k + "0", k + "1", k + "2"}));
      }
    }));
  }
  for (auto& one : all) one.get();
}

TEST(Rank, ExchangeFailsWithItsReason) {
  FakeAgent agent(2);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  const std::string most(Limits::exchange_value_bytes_max + 1, 'x');
  EXPECT_EQ((*rank)->Exchange("k", most, absl::Seconds(9)).status().code(),
            Code::kInvalidArgument);
  // The other rank never comes.
  EXPECT_EQ((*rank)->Exchange("k", "v", absl::Milliseconds(50)).status().code(),
            Code::kDeadlineExceeded);
  auto waits = std::async(std::launch::async, [&] {
    return (*rank)->Exchange("other", "v", absl::Seconds(20)).status().code();
  });
  agent.Die();
  EXPECT_EQ(waits.get(), Code::kUnavailable);
}

TEST(Rank, TellsItsLatestProgress) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (int step = 1; step <= 1000; ++step) {
    (*rank)->Progress(step, 2.5, 100);
  }
  rank->reset();  // What still waits goes out first.
  const v1::RankMessage last = agent.Await([](const v1::RankMessage& m) {
    return m.has_progress() && m.progress().step() == 1000;
  });
  EXPECT_EQ(last.progress().generation(), FakeAgent::kGeneration);
  EXPECT_EQ(last.progress().loss(), 2.5);
}

TEST(Rank, HearsAbortAndNotice) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  v1::AgentReply reply;
  reply.mutable_notice()->set_notice(3);
  reply.mutable_notice()->set_kind(v1::NOTICE_KIND_PREEMPT);
  agent.Send(0, reply);
  AwaitTrue([&] { return (*rank)->noticed(); });
  EXPECT_EQ((*rank)->notice()->kind(), v1::NOTICE_KIND_PREEMPT);
  agent.Await([](const v1::RankMessage& m) {
    return m.has_notice_seen() && m.notice_seen().notice() == 3;
  });

  reply.mutable_abort()->set_generation(FakeAgent::kGeneration);
  reply.mutable_abort()->set_reason("lost: b");
  agent.Send(0, reply);
  AwaitTrue([&] { return (*rank)->aborted(); });
  EXPECT_EQ((*rank)->abort()->reason(), "lost: b");
  EXPECT_FALSE((*rank)->lost());
}

TEST(Rank, KnowsThatItsAgentIsGone) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  agent.Die();
  AwaitTrue([&] { return (*rank)->lost(); });
  (*rank)->Progress(1, 1, 1);  // Nobody listens; nothing happens.
}

}  // namespace
}  // namespace rollcall
