#include "trainer/collective/sum_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <vector>

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST(SumQueue, CarriesOutAllInTheirOrder) {
  std::vector<size_t> done;
  std::vector<float> values(100);
  {
    SumQueue queue([&](absl::Span<float> which) {
      done.push_back(which.size());
      for (float& value : which) ++value;
      return absl::OkStatus();
    });
    EXPECT_TRUE(queue.Wait().ok()) << "nothing was begun";
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < 10; ++i) {
        const size_t at = round * 10 + i;
        ASSERT_TRUE(queue.Begin(absl::MakeSpan(values).first(at)).ok());
      }
      ASSERT_TRUE(queue.Wait().ok());
      ASSERT_EQ(done.size(), round * 10u + 10);
    }
  }
  for (size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i);
  EXPECT_EQ(values[0], 99.0f);
  EXPECT_EQ(values[99], 0.0f);
}

TEST(SumQueue, BeginReturnsBeforeTheSumIsDone) {
  std::promise<void> go;
  SumQueue queue([wait = go.get_future().share()](absl::Span<float>) {
    wait.wait();
    return absl::OkStatus();
  });
  float value = 0;
  EXPECT_TRUE(queue.Begin(absl::MakeSpan(&value, 1)).ok());
  EXPECT_TRUE(queue.Begin(absl::MakeSpan(&value, 1)).ok());
  go.set_value();
  EXPECT_TRUE(queue.Wait().ok());
}

TEST(SumQueue, AFailureDropsWhatIsBehindItForGood) {
  std::promise<void> go;
  std::atomic<int> calls{0};
  SumQueue queue([&, wait = go.get_future().share()](absl::Span<float>) {
    wait.wait();
    return ++calls == 2 ? absl::UnavailableError("gone") : absl::OkStatus();
  });
  float value = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(queue.Begin(absl::MakeSpan(&value, 1)).ok());
  }
  go.set_value();
  EXPECT_EQ(queue.Wait().code(), Code::kUnavailable);
  EXPECT_EQ(queue.Wait().code(), Code::kUnavailable);
  EXPECT_EQ(queue.Begin(absl::MakeSpan(&value, 1)).code(), Code::kUnavailable);
  EXPECT_EQ(calls, 2);
}

TEST(SumQueue, TheDestructorWaitsForTheOneAtWorkAndDropsTheRest) {
  std::promise<void> begun, go;
  std::atomic<int> calls{0};
  std::optional<SumQueue> queue;
  queue.emplace([&, wait = go.get_future().share()](absl::Span<float>) {
    if (++calls == 1) begun.set_value();
    wait.wait();
    return absl::OkStatus();
  });
  float value = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(queue->Begin(absl::MakeSpan(&value, 1)).ok());
  }
  begun.get_future().wait();
  auto ending = std::async(std::launch::async, [&] { queue.reset(); });
  EXPECT_EQ(ending.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  go.set_value();
  ending.get();
  EXPECT_EQ(calls, 1);
}

TEST(SumQueue, NeverUsedItNeedsNoThread) {
  SumQueue queue([](absl::Span<float>) { return absl::OkStatus(); });
}

}  // namespace
}  // namespace rollcall
