#include "client/rank/rank.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "daemon/base/files/fd.h"
#include "daemon/core/limits.h"
#include "tests/unit/rank/fake_agent.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

// Yields until the condition holds; another thread is about to make it true.
template <typename Condition>
void AwaitTrue(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(RankLocation, IsReadFromTheEnvironment) {
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
      // The agent did not start this process.
      {"/run/agent", "3", nullptr, Code::kOk},
      {"/run/agent", nullptr, nullptr, Code::kInvalidArgument},
      {long_path.c_str(), "1", "1", Code::kInvalidArgument},
  };
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  for (const Row& row : kRows) {
    set("ROLLCALL_SOCKET", row.socket);
    set("LOCAL_RANK", row.local_rank);
    set("ROLLCALL_GENERATION", row.generation);
    const auto place = RankLocation::FromEnvironment();
    EXPECT_EQ(place.status().code(), row.expect) << place.status();
    if (!place.ok()) continue;
    EXPECT_EQ(place->local_rank, 3u);
    EXPECT_EQ(place->generation, row.generation == nullptr ? 0u : 12u);
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

TEST(Rank, WaitsForItsFirstWorldUntilCancelled) {
  FakeAgent agent(1);
  const Fd cancel(eventfd(0, EFD_CLOEXEC));
  RankOptions options;
  options.timeout = absl::InfiniteDuration();
  options.cancel_fd = cancel.get();
  const auto attend = [&] {
    return Rank::Attend(agent.attached_place(), options);
  };
  auto rank = std::async(std::launch::async, attend);
  agent.SendWorld(0, FakeAgent::kGeneration);
  const auto attended = rank.get();
  ASSERT_TRUE(attended.ok()) << attended.status();
  // A later signal does not end the wait for the next world.
  ASSERT_EQ(eventfd_write(cancel.get(), 1), 0);
  agent.SendWorld(0, FakeAgent::kGeneration + 1);
  EXPECT_TRUE((*attended)->NextWorld().ok());
  EXPECT_EQ(attend().status().code(), Code::kCancelled);
}

TEST(Rank, ExchangesWithAll) {
  constexpr int kRanks = 3;
  FakeAgent agent(kRanks);
  std::vector<std::future<void>> all;
  for (int r = 0; r < kRanks; ++r) {
    all.push_back(std::async(std::launch::async, [&agent, r] {
      auto rank = Rank::Attend(agent.place(r));
      ASSERT_TRUE(rank.ok()) << rank.status();
      for (const char* key : {"a", "b", "a"}) {  // "a" again: same answer.
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

TEST(Rank, OperationsOnTheStore) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok());
  v1::StoreOperation what;
  what.set_kind(v1::STORE_KIND_ADD);
  what.set_key("k");
  what.set_delta(-5);
  what.set_value(std::string("\0x", 2));
  const auto result = (*rank)->Store(what);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->number(), -4);
  EXPECT_EQ(result->value(), std::string("\0x", 2));
  what.set_key("full");
  const absl::Status full = (*rank)->Store(what).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "store key \"full\": no room");
  what.set_value(std::string(2 << 20, 'x'));
  EXPECT_EQ((*rank)->Store(what).status().code(),
            absl::StatusCode::kInvalidArgument);
  // A wait that times out is cancelled.
  what.set_kind(v1::STORE_KIND_WAIT);
  what.clear_value();
  EXPECT_EQ((*rank)->Store(what, absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const v1::RankMessage said = agent.Await(
      [](const v1::RankMessage& m) { return m.has_store_cancel(); });
  EXPECT_EQ(said.store_cancel().request(), 3u);
}

TEST(Rank, ExchangeFailsWithItsReason) {
  FakeAgent agent(2);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  const std::string most(Limits::exchange_value_bytes_max + 1, 'x');
  EXPECT_EQ((*rank)->Exchange("k", most, absl::Seconds(9)).status().code(),
            Code::kInvalidArgument);
  // The agent would end the connection because of such a key.
  const std::string long_key(Limits::exchange_key_bytes_max + 1, 'k');
  for (const std::string& key :
       {std::string(), long_key, std::string("a\nb"), std::string("\xff")}) {
    EXPECT_EQ((*rank)->Exchange(key, "v", absl::Seconds(9)).status().code(),
              Code::kInvalidArgument);
  }
  EXPECT_FALSE((*rank)->lost());
  // The other rank never takes part.
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
    RankStep done;
    done.step = step;
    done.loss = 2.5;
    done.tokens_per_second = 100;
    if (step == 1000) {
      done.steps = 2000;
      done.gradient_norm = 0;
      done.flops_utilization = 0.5;
      done.validation_loss = 2.75;
      done.memory_bytes = 7;
    }
    (*rank)->Progress(done);
  }
  rank->reset();  // Queued messages are sent first.
  const v1::RankMessage last = agent.Await([](const v1::RankMessage& m) {
    return m.has_progress() && m.progress().step() == 1000;
  });
  EXPECT_EQ(last.progress().generation(), FakeAgent::kGeneration);
  EXPECT_EQ(last.progress().loss(), 2.5);
  EXPECT_EQ(last.progress().tokens_per_second(), 100);
  EXPECT_EQ(last.progress().steps(), 2000u);
  EXPECT_TRUE(last.progress().has_gradient_norm());
  EXPECT_EQ(last.progress().flops_utilization(), 0.5);
  EXPECT_EQ(last.progress().validation_loss(), 2.75);
  EXPECT_EQ(last.progress().memory_bytes(), 7u);
}

TEST(Rank, TellsOnlyWhatIsKnownOfAStep) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  RankStep done;
  done.step = 1;
  (*rank)->Progress(done);
  rank->reset();
  const v1::RankMessage last =
      agent.Await([](const v1::RankMessage& m) { return m.has_progress(); });
  EXPECT_FALSE(last.progress().has_gradient_norm());
  EXPECT_FALSE(last.progress().has_flops_utilization());
  EXPECT_FALSE(last.progress().has_validation_loss());
}

TEST(Rank, HearsAbortAndNotice) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  v1::AgentReply reply;
  reply.mutable_notice()->set_notice(3);
  reply.mutable_notice()->set_kind(v1::NOTICE_KIND_PREEMPT);
  reply.mutable_notice()->set_generation(FakeAgent::kGeneration);
  agent.Send(0, reply);
  AwaitTrue([&] { return (*rank)->noticed(); });
  EXPECT_EQ((*rank)->notice()->kind(), v1::NOTICE_KIND_PREEMPT);
  EXPECT_TRUE((*rank)->AwaitNotice().ok());
  // Only the rank knows when it has reached the boundary.
  (*rank)->NoticeSeen(12);
  const v1::RankMessage seen =
      agent.Await([](const v1::RankMessage& m) { return m.has_notice_seen(); });
  EXPECT_EQ(seen.notice_seen().notice(), 3u);
  EXPECT_EQ(seen.notice_seen().generation(), FakeAgent::kGeneration);
  EXPECT_EQ(seen.notice_seen().completed_step(), 12u);

  reply.mutable_abort()->set_generation(FakeAgent::kGeneration);
  reply.mutable_abort()->set_reason("lost: b");
  agent.Send(0, reply);
  AwaitTrue([&] { return (*rank)->aborted(); });
  EXPECT_EQ((*rank)->abort()->reason(), "lost: b");
  EXPECT_FALSE((*rank)->lost());
}

TEST(Rank, LivesOnFromWorldToWorld) {
  constexpr uint64_t kNext = FakeAgent::kGeneration + 2;
  FakeAgent agent(2);
  RankOptions options;
  options.elastic = true;
  auto rank = Rank::Attend(agent.place(1), options);
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_TRUE(
      agent.Await([](const v1::RankMessage& m) { return m.has_hello(); })
          .hello()
          .elastic());
  std::promise<void> woken;
  (*rank)->WhenOver([&] { woken.set_value(); });
  EXPECT_EQ((*rank)->AwaitAbort(absl::Milliseconds(1)).code(),
            Code::kDeadlineExceeded);
  auto notice = std::async(std::launch::async,
                           [&] { return (*rank)->AwaitNotice().code(); });
  v1::AgentReply reply;
  reply.mutable_abort()->set_generation(FakeAgent::kGeneration);
  agent.Send(1, reply);
  woken.get_future().get();
  EXPECT_TRUE((*rank)->AwaitAbort().ok());
  EXPECT_EQ(notice.get(), Code::kAborted);
  std::promise<void> at_once;
  (*rank)->WhenOver([&] { at_once.set_value(); });
  at_once.get_future().get();

  (*rank)->Stopped(41, true);
  const v1::RankMessage stopped =
      agent.Await([](const v1::RankMessage& m) { return m.has_stopped(); });
  EXPECT_EQ(stopped.stopped().generation(), FakeAgent::kGeneration);
  EXPECT_EQ(stopped.stopped().completed_step(), 41u);
  EXPECT_TRUE(stopped.stopped().whole_state());

  agent.SendWorld(1, kNext);
  ASSERT_TRUE((*rank)->NextWorld().ok());
  EXPECT_EQ((*rank)->generation(), kNext);
  EXPECT_FALSE((*rank)->aborted());
  EXPECT_FALSE((*rank)->abort().has_value());
  EXPECT_FALSE((*rank)->noticed());
  // A notice of the old world does not count in the new one.
  reply.mutable_notice()->set_generation(FakeAgent::kGeneration);
  agent.Send(1, reply);
  reply.mutable_notice()->set_generation(kNext);
  reply.mutable_notice()->set_notice(9);
  agent.Send(1, reply);
  EXPECT_TRUE((*rank)->AwaitNotice().ok());
  EXPECT_EQ((*rank)->notice()->notice(), 9u);
}

TEST(Rank, AsksToLeave) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  (*rank)->AskToLeave();
  agent.Await([](const v1::RankMessage& m) { return m.has_leave(); });
}

TEST(Rank, AnswersWhereItIsWhateverItsOwnThreadsDo) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  v1::AgentReply where;
  where.mutable_where()->set_generation(FakeAgent::kGeneration);
  agent.Send(0, where);
  const v1::RankMessage unknown =
      agent.Await([](const v1::RankMessage& m) { return m.has_here(); });
  EXPECT_EQ(unknown.here().generation(), FakeAgent::kGeneration);
  EXPECT_FALSE(unknown.here().has_collective_entered());
  (*rank)->WhenAsked([] { return RankCollectives{9, 8}; });
  agent.Send(0, where);
  const v1::RankMessage here = agent.Await([](const v1::RankMessage& m) {
    return m.here().has_collective_entered();
  });
  EXPECT_EQ(here.here().collective_entered(), 9u);
  EXPECT_EQ(here.here().collective_left(), 8u);
}

TEST(Rank, WhoWasAskedIsDoneWhenAnotherTakesItsPlace) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  std::promise<void> asked, go_on;
  std::atomic<bool> over = false;
  (*rank)->WhenAsked([&] {
    asked.set_value();
    go_on.get_future().get();
    over = true;
    return RankCollectives{1, 1};
  });
  v1::AgentReply where;
  where.mutable_where()->set_generation(FakeAgent::kGeneration);
  agent.Send(0, where);
  asked.get_future().get();
  auto taken_back = std::async(std::launch::async, [&] {
    (*rank)->WhenAsked(nullptr);
    return over.load();
  });
  go_on.set_value();
  EXPECT_TRUE(taken_back.get());
}

TEST(Rank, WhoWaitsHearsThatItsAgentIsGone) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  std::promise<void> woken;
  (*rank)->WhenOver([&] { woken.set_value(); });
  auto next = std::async(std::launch::async,
                         [&] { return (*rank)->NextWorld().code(); });
  agent.Die();
  woken.get_future().get();
  EXPECT_EQ(next.get(), Code::kUnavailable);
  EXPECT_EQ((*rank)->AwaitAbort().code(), Code::kUnavailable);
  EXPECT_EQ((*rank)->AwaitNotice().code(), Code::kUnavailable);
}

TEST(Rank, HearsWhyItsAgentEndsTheConnection) {
  const struct {
    uint32_t code;
    Code expect;
  } kRows[] = {{3, Code::kInvalidArgument},
               {8, Code::kResourceExhausted},
               {9, Code::kFailedPrecondition},
               {10, Code::kAborted},
               {14, Code::kUnavailable},
               // No agent sends these codes.
               {0, Code::kUnavailable},
               {4, Code::kUnavailable},
               {99, Code::kUnavailable}};
  for (const auto& row : kRows) {
    FakeAgent agent(2);
    auto rank = Rank::Attend(agent.place(0));
    ASSERT_TRUE(rank.ok()) << rank.status();
    auto waits = std::async(std::launch::async, [&] {
      return (*rank)->Exchange("k", "v", absl::Seconds(60)).status().code();
    });
    agent.Await([](const v1::RankMessage& m) { return m.has_exchange(); });
    v1::AgentReply end;
    end.mutable_end()->set_code(row.code);
    end.mutable_end()->set_message("the reason");
    agent.Send(0, end);
    AwaitTrue([&] { return (*rank)->lost(); });
    EXPECT_EQ((*rank)->lost_reason(), absl::Status(row.expect, "the reason"));
    EXPECT_EQ(waits.get(), row.expect);
    EXPECT_EQ((*rank)->NextWorld().code(), row.expect);
  }
}

TEST(Rank, WhatNoAgentSendsEndsTheConnection) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff"), std::string("\0\0\0\1\xff", 5)}) {
    FakeAgent agent(1);
    auto rank = Rank::Attend(agent.place(0));
    ASSERT_TRUE(rank.ok()) << rank.status();
    agent.SendBytes(0, bytes);
    AwaitTrue([&] { return (*rank)->lost(); });
    EXPECT_EQ((*rank)->lost_reason().code(), Code::kInternal);
  }
}

TEST(Rank, SaysItsVersionAndIgnoresWhatItDoesNotKnow) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ(agent.Await([](const v1::RankMessage& m) { return m.has_hello(); })
                .hello()
                .wire_version(),
            1u);
  // One message has the unknown kind 100, and one answers no request.
  agent.SendBytes(0, std::string("\0\0\0\3\xa2\x06\0", 7));
  v1::AgentReply answer;
  answer.mutable_exchanged()->set_request(99);
  agent.Send(0, answer);
  v1::AgentReply where;
  where.mutable_where()->set_generation(FakeAgent::kGeneration);
  agent.Send(0, where);
  agent.Await([](const v1::RankMessage& m) { return m.has_here(); });
  EXPECT_FALSE((*rank)->lost());
}

TEST(Rank, KnowsThatItsAgentIsGone) {
  FakeAgent agent(1);
  auto rank = Rank::Attend(agent.place(0));
  ASSERT_TRUE(rank.ok()) << rank.status();
  agent.Die();
  AwaitTrue([&] { return (*rank)->lost(); });
  (*rank)->Progress(RankStep());  // The agent is gone, so nothing happens.
}

}  // namespace
}  // namespace rollcall
