// Sums that run while the caller does other work, and every way in which they
// can end.
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer/ranks.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST(BegunSums, RunInOrderOverAllRanks) {
  for (const int ranks : {2, 3, 5}) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> gloo) {
      const float rank = gloo->rank();
      const float ranks_sum = ranks * (ranks - 1) / 2;
      // The sizes differ, so a sum out of order would fail.
      const size_t kSizes[] = {1, 0, 4099, 2, 300001, 7};
      std::vector<std::vector<float>> begun;
      for (const size_t size : kSizes) begun.emplace_back(size, rank);
      for (std::vector<float>& values : begun) {
        ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(values)).ok());
      }
      // Runs after all sums that were begun, so it has waited for them.
      std::vector<float> last(11, 2 * rank);
      absl::Status status =
          gloo->AllReduce(absl::MakeSpan(last), Reduction::kSum);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(last, std::vector<float>(11, 2 * ranks_sum));
      for (const std::vector<float>& values : begun) {
        EXPECT_EQ(values, std::vector<float>(values.size(), ranks_sum));
      }
      EXPECT_EQ(gloo->seen().entered, 7u);
      // Another collective also waits for the sum that was begun.
      std::vector<float> more(1000, rank);
      ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(more)).ok());
      std::string bytes(3, static_cast<char>('a' + gloo->rank()));
      ASSERT_TRUE(gloo->Broadcast(absl::MakeSpan(bytes), 1).ok());
      EXPECT_EQ(bytes, "bbb");
      EXPECT_EQ(more, std::vector<float>(1000, ranks_sum));
      EXPECT_TRUE(gloo->Wait().ok()) << "nothing to wait for";
      EXPECT_TRUE(gloo->Finish().ok());
    });
  }
}

TEST(BegunSums, FinishWaitsForThem) {
  std::vector<float> values[2] = {std::vector<float>(100000, 1.0f),
                                  std::vector<float>(100000, 2.0f)};
  ForEachConnected(2, [&](std::unique_ptr<Collective> gloo) {
    std::vector<float>& mine = values[gloo->rank()];
    ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(mine)).ok());
    EXPECT_TRUE(gloo->Finish().ok());
    EXPECT_EQ(mine, std::vector<float>(100000, 3.0f));
  });
}

// One of three ranks takes no part, so no sum can end by itself. `body` begins
// when all ranks are connected, because it may end its rank's connections. A
// rank that has finished `body` keeps those it still has until the other has
// finished too.
template <typename Body>
void WithOneThatTakesNoPart(Body body) {
  LocalExchange exchange(3);
  std::latch connected(3), through(3);
  ForEachRank(3, [&](int r) {
    GlooOptions options = LocalGloo(exchange, r, 3, absl::Seconds(60));
    options.interruption = std::make_shared<Interruption>();
    auto gloo = ConnectGloo(options);
    connected.arrive_and_wait();
    EXPECT_TRUE(gloo.ok()) << gloo.status();
    if (gloo.ok() && r != 2) body(*gloo, *options.interruption);
    through.arrive_and_wait();
  });
}

// Checks that an end was immediate, and not by the collective's timeout of 60
// s.
class Stopwatch {
 public:
  void ExpectShort() const {
    EXPECT_LT(std::chrono::steady_clock::now() - begun_,
              std::chrono::seconds(40));
  }

 private:
  const std::chrono::steady_clock::time_point begun_ =
      std::chrono::steady_clock::now();
};

TEST(BegunSums, AnInterruptionEndsRunningOnes) {
  for (const size_t count : {size_t{3}, size_t{3000000}}) {
    WithOneThatTakesNoPart([count](std::unique_ptr<Collective>& gloo,
                                   Interruption& interruption) {
      std::vector<float> first(count), second(count), third(count);
      ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(first)).ok());
      ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(second)).ok());
      const Stopwatch stopwatch;
      std::thread raiser([&] { interruption.Raise(); });
      EXPECT_EQ(gloo->Wait().code(), Code::kAborted);
      raiser.join();
      // The collective stays interrupted, so no call waits and no sum can be
      // begun.
      EXPECT_EQ(gloo->BeginSum(absl::MakeSpan(third)).code(), Code::kAborted);
      EXPECT_EQ(gloo->Wait().code(), Code::kAborted);
      EXPECT_EQ(gloo->AllReduce(absl::MakeSpan(third), Reduction::kSum).code(),
                Code::kAborted);
      EXPECT_EQ(gloo->seen().left, 0u);
      EXPECT_EQ(gloo->seen().entered, 1u) << "the second was dropped";
      stopwatch.ExpectShort();
    });
  }
}

TEST(BegunSums, TheDestructorDoesNotWaitForASilentRank) {
  for (const size_t count : {size_t{3}, size_t{3000000}}) {
    WithOneThatTakesNoPart(
        [count](std::unique_ptr<Collective>& gloo, Interruption&) {
          std::vector<float> first(count), second(count);
          ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(first)).ok());
          ASSERT_TRUE(gloo->BeginSum(absl::MakeSpan(second)).ok());
          const Stopwatch stopwatch;
          gloo.reset();
          stopwatch.ExpectShort();
        });
  }
}

TEST(BegunSums, ALostPeerFailsThem) {
  LocalExchange exchange(2);
  std::latch connected(2);
  ForEachRank(2, [&](int r) {
    auto gloo = ConnectGloo(LocalGloo(exchange, r, 2, absl::Seconds(60)));
    connected.arrive_and_wait();
    ASSERT_TRUE(gloo.ok()) << gloo.status();
    if (r == 1) return;
    std::vector<float> values(1000000), more(3);
    // The peer may have gone already, or may go before the second sum.
    (void)gloo.value()->BeginSum(absl::MakeSpan(values));
    (void)gloo.value()->BeginSum(absl::MakeSpan(more));
    const absl::Status status = (*gloo)->Wait();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    EXPECT_NE(status.message().find("connection to rank 1"),
              absl::string_view::npos)
        << status;
    EXPECT_EQ((*gloo)->BeginSum(absl::MakeSpan(more)).code(),
              Code::kUnavailable);
  });
}

TEST(BegunSums, TheDestructorWithARunningOneAndALostPeer) {
  for (int i = 0; i < 5; ++i) {
    LocalExchange exchange(2);
    std::latch connected(2);
    ForEachRank(2, [&](int r) {
      auto gloo = ConnectGloo(LocalGloo(exchange, r, 2, absl::Seconds(60)));
      // No rank may close its connections while the other still connects.
      connected.arrive_and_wait();
      ASSERT_TRUE(gloo.ok()) << gloo.status();
      if (r == 1) return;
      std::vector<float> values(1000000);
      (void)gloo.value()->BeginSum(absl::MakeSpan(values));
      const Stopwatch stopwatch;
      gloo->reset();
      stopwatch.ExpectShort();
    });
  }
}

}  // namespace
}  // namespace rollcall
