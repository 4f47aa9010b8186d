#include "daemon/core/job/state/waiting_news.h"

#include <gtest/gtest.h>

namespace rollcall {
namespace {

TEST(WaitingNews, IsDueWhenItWasSetAndNotAfterItStopped) {
  const absl::Time at = absl::UnixEpoch() + absl::Seconds(3);
  WaitingNews news;
  EXPECT_EQ(news.due(), absl::InfiniteFuture());
  news.TellAt(at + absl::Seconds(1));
  news.TellAt(at);
  EXPECT_EQ(news.due(), at);
  news.TellAt(at + absl::Seconds(9));
  EXPECT_EQ(news.due(), at + absl::Seconds(9));
  news.Stop();
  EXPECT_EQ(news.due(), absl::InfiniteFuture());
}

TEST(WaitingNews, ATextIsNewUntilItWasTold) {
  WaitingNews news;
  EXPECT_TRUE(news.IsNew("1 of 2"));
  EXPECT_FALSE(news.IsNew("1 of 2"));
  EXPECT_TRUE(news.IsNew("2 of 2"));
  // A text is compared with the latest one only.
  EXPECT_TRUE(news.IsNew("1 of 2"));
  news.Reset();
  EXPECT_TRUE(news.IsNew("1 of 2"));
  EXPECT_FALSE(news.IsNew("1 of 2"));
}

TEST(WaitingNews, WhenItIsDueAndWhatWasToldAreIndependent) {
  const absl::Time at = absl::UnixEpoch() + absl::Seconds(3);
  WaitingNews news;
  news.TellAt(at);
  EXPECT_TRUE(news.IsNew("1 of 2"));
  news.Reset();
  EXPECT_EQ(news.due(), at);
  EXPECT_TRUE(news.IsNew("1 of 2"));
  news.Stop();
  EXPECT_FALSE(news.IsNew("1 of 2"));
}

}  // namespace
}  // namespace rollcall
