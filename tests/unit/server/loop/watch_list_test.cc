// Which callers may watch a job, and which watchers are ended because they do
// not read.
#include "daemon/server/loop/state/watch_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

class FakeWatcher final : public Watcher {
 public:
  bool Offer(std::shared_ptr<const v1::JobStatus>, bool) override {
    ++offers;
    return reads;
  }
  bool IsBehind() override { return !reads; }
  void End(const absl::Status& status) override { ended = status; }
  void Cancel() override { cancelled = true; }

  bool reads = true;
  int offers = 0;
  bool cancelled = false;
  absl::Status ended;
};

class WatchListTest : public testing::Test {
 protected:
  WatchListTest()
      : jobs_(Limits{}, "demo", Settings(), HandedKeys(), nullptr, logger_) {
    jobs_.MakeOnlyJob(At(0));
  }
  static v1::JobSettings Settings() {
    v1::JobSettings settings;
    settings.set_nodes_min(2);
    settings.set_nodes_max(2);
    return settings;
  }
  std::shared_ptr<FakeWatcher> Add(const std::string& viewer) {
    auto watcher = std::make_shared<FakeWatcher>();
    list_.Add(++last_, "demo", watcher, viewer);
    return watcher;
  }

  Logger logger_{Log::Level::kError};
  JobTable jobs_;
  uint64_t failed_ = 0;
  uint64_t last_ = 0;
  WatchList list_{jobs_, absl::Seconds(30), [](v1::JobStatus s) { return s; },
                  [this] { return failed_; }};
};

TEST_F(WatchListTest, OneViewerLeavesPlacesToOthersAndAllOfThemToAdmins) {
  for (size_t i = 0; i < Limits::watches_per_viewer_max; ++i) {
    EXPECT_TRUE(Add("v0")->ended.ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Add("v0")->ended));
  size_t let_in = Limits::watches_per_viewer_max;
  for (int viewer = 1; viewer < 20; ++viewer) {
    for (size_t i = 0; i < Limits::watches_per_viewer_max; ++i) {
      if (Add("v" + std::to_string(viewer))->ended.ok()) ++let_in;
    }
  }
  EXPECT_EQ(let_in, Limits::watchers_max - Limits::watches_per_viewer_max);
  for (size_t i = 0; i < Limits::watches_per_viewer_max; ++i) {
    EXPECT_TRUE(Add("")->ended.ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Add("")->ended));
}

TEST_F(WatchListTest, WatchersOfAGatheringJobHearOfFailedConnections) {
  const auto watcher = Add("");
  list_.Publish(At(1));
  EXPECT_EQ(watcher->offers, 1);
  list_.Publish(At(2));
  EXPECT_EQ(watcher->offers, 1);
  EXPECT_EQ(list_.NextDue(), At(3));  // Failed connections cause no event.
  failed_ = 1;
  list_.Publish(At(3));
  EXPECT_EQ(watcher->offers, 2);
}

TEST_F(WatchListTest, AWatcherThatDoesNotReadIsCancelled) {
  const auto reads = Add("");
  const auto stalls = Add("");
  const auto recovers = Add("");
  stalls->reads = recovers->reads = false;
  for (int second = 1; second <= 31; ++second) {
    ++failed_;
    if (second == 20) recovers->reads = true;
    list_.Publish(At(second));
    EXPECT_EQ(stalls->cancelled, second == 31) << second;
  }
  EXPECT_FALSE(reads->cancelled);
  EXPECT_FALSE(recovers->cancelled);
  EXPECT_EQ(stalls->offers, 30);
  EXPECT_EQ(reads->offers, 31);
  // This happens although there are no further events.
  recovers->reads = false;
  ++failed_;
  list_.Publish(At(40));
  for (int second = 41; second < 70; ++second) list_.Publish(At(second));
  EXPECT_FALSE(recovers->cancelled);
  EXPECT_LE(list_.NextDue(), At(70));
  list_.Publish(At(70));
  EXPECT_TRUE(recovers->cancelled);
}

TEST_F(WatchListTest, AWatcherThatHasCaughtUpIsNotCancelled) {
  const auto watcher = Add("");
  watcher->reads = false;
  ++failed_;
  list_.Publish(At(1));
  // The watcher has read everything, and no event follows for a long time.
  watcher->reads = true;
  list_.Publish(At(32));
  list_.Publish(At(300));
  EXPECT_FALSE(watcher->cancelled);
}

TEST_F(WatchListTest, TheLastStatusOfAllCancelsNobody) {
  const auto reads = Add("");
  const auto stalls = Add("");
  list_.Publish(At(1));
  stalls->reads = false;
  ++failed_;
  list_.Publish(absl::InfiniteFuture());
  EXPECT_FALSE(reads->cancelled);
  EXPECT_FALSE(stalls->cancelled);
  EXPECT_EQ(reads->offers, 2);
}

}  // namespace
}  // namespace rollcall
