#include "trainer/collective/sum_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST(SumQueue, RunsAllInOrder) {
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
  std::atomic<int> done{0};
  std::vector<float> order;
  SumQueue queue([&, wait = go.get_future().share()](absl::Span<float> sum) {
    wait.wait();
    order.push_back(sum[0]);
    sum[0] *= 10;
    ++done;
    return absl::OkStatus();
  });
  float values[] = {1, 2};
  EXPECT_TRUE(queue.Begin(absl::MakeSpan(values).first(1)).ok());
  EXPECT_TRUE(queue.Begin(absl::MakeSpan(values).last(1)).ok());
  EXPECT_EQ(done, 0) << "nothing may be summed until the test lets it go";
  go.set_value();
  EXPECT_TRUE(queue.Wait().ok());
  EXPECT_EQ(done, 2) << "each is summed once, and Wait waits for both";
  EXPECT_EQ(order, (std::vector<float>{1, 2}));
  EXPECT_EQ(values[0], 10.0f);
  EXPECT_EQ(values[1], 20.0f);
}

TEST(SumQueue, AFailureDropsAllLaterSums) {
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
  EXPECT_EQ(calls, 2) << "three were dropped, and the sixth was never begun";
}

// Returns once this thread of the process sleeps.
void AwaitSleep(pid_t thread) {
  const std::string path = absl::StrCat("/proc/self/task/", thread, "/stat");
  for (std::string line;; std::this_thread::yield()) {
    std::getline(std::ifstream(path), line);
    // The state is the word after the name, which is in parentheses.
    if (line.substr(line.rfind(')'), 3) == ") S") return;
  }
}

TEST(SumQueue, TheDestructorWaitsForTheRunningSumAndDropsTheRest) {
  std::promise<void> begun, go;
  std::atomic<int> calls{0};
  std::atomic<bool> done{false};
  std::optional<SumQueue> queue;
  queue.emplace([&, wait = go.get_future().share()](absl::Span<float>) {
    if (++calls == 1) begun.set_value();
    wait.wait();
    done = true;
    return absl::OkStatus();
  });
  float value = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(queue->Begin(absl::MakeSpan(&value, 1)).ok());
  }
  begun.get_future().wait();
  std::promise<pid_t> destroying;
  auto ending = std::async(std::launch::async, [&] {
    destroying.set_value(gettid());
    queue.reset();
    // This is false until the sum has returned.
    return done.load();
  });
  AwaitSleep(destroying.get_future().get());
  EXPECT_EQ(ending.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  go.set_value();
  EXPECT_TRUE(ending.get()) << "the destructor did not wait";
  EXPECT_EQ(calls, 1) << "those that had not begun are dropped";
}

// The threads of this process that are not in `known`. A joined thread may be
// listed for a moment longer, so a plain count could shrink.
std::set<std::string> ThreadsBeside(const std::set<std::string>& known) {
  std::set<std::string> found;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string thread = entry.path().filename();
    if (!known.contains(thread)) found.insert(thread);
  }
  return found;
}

TEST(SumQueue, StartsNoThreadBeforeTheFirstSum) {
  int calls = 0;
  // The queue's thread waits at first, so that it can be counted.
  std::promise<void> go;
  // The thread sanitizer starts its own thread together with the first one.
  std::thread([] {}).join();
  const std::set<std::string> before = ThreadsBeside({});
  {
    SumQueue queue([&, wait = go.get_future().share()](absl::Span<float>) {
      wait.wait();
      ++calls;
      return absl::OkStatus();
    });
    EXPECT_TRUE(ThreadsBeside(before).empty());
    EXPECT_TRUE(queue.Wait().ok());
    EXPECT_TRUE(ThreadsBeside(before).empty());
    float value = 0;
    EXPECT_TRUE(queue.Begin(absl::MakeSpan(&value, 1)).ok());
    EXPECT_EQ(ThreadsBeside(before).size(), 1u);
    go.set_value();
    EXPECT_TRUE(queue.Wait().ok());
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace rollcall
