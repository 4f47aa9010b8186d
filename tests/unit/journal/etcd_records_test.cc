// Tests that need no etcd: endpoints, and the end of a lease.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "daemon/journal/etcd/etcd_location.h"
#include "daemon/journal/etcd/leader_lease.h"

namespace rollcall {
namespace {

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

TEST(EtcdLocationTest, Grammar) {
  struct Row {
    const char* url;
    const char* expect;  // Empty: refused.
  };
  const Row kRows[] = {
      {"etcd://a:1", "etcd://a:1/default"},
      {"etcd://a:1,b:2/train", "etcd://a:1,b:2/train"},
      {"etcd://a,b/", "etcd://a:2379,b:2379/default"},
      {"etcd://[::1]:7,10.0.0.1", "etcd://[::1]:7,10.0.0.1:2379/default"},
      {"etcd://[::1]", "etcd://[::1]:2379/default"},
      {"etcd://", ""},
      {"etcd://a:1,", ""},
      {"etcd://a:0", ""},
      {"etcd://a:65536", ""},
      {"etcd://a:x", ""},
      {"etcd://::1", ""},
      {"etcd://[::1", ""},
      {"etcd://[::1]7", ""},
      {"etcd://a b:1", ""},
      {"etcd://a:1/UPPER", ""},
      {"etcd://a:1/a/b", ""},
      {"etcd://http://a:1", ""},
      {"/var/lib", ""},
  };
  for (const Row& row : kRows) {
    const auto place = EtcdLocation::Parse(row.url);
    EXPECT_EQ(place.ok() ? place->Text() : "", row.expect) << row.url;
    if (place.ok()) continue;
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(LeaderLeaseTest, EndsBeforeTheLeaseCan) {
  const absl::Time t = kThen;
  const auto s = [](double seconds) { return absl::Seconds(seconds); };
  LeaderLease leader_lease;
  EXPECT_FALSE(leader_lease.Holds(t));
  leader_lease.Renewed(t, s(2));
  EXPECT_TRUE(leader_lease.Holds(t + s(1.79)));
  EXPECT_FALSE(leader_lease.Holds(t + s(1.8)));
  EXPECT_EQ(leader_lease.renew_at(), t + s(0.5));
  leader_lease.Renewed(t + s(1), s(2));
  EXPECT_TRUE(leader_lease.Holds(t + s(2.79)));
  // The answer to an earlier request extends nothing.
  leader_lease.Renewed(t + s(0.5), s(2));
  EXPECT_EQ(leader_lease.until(), t + s(2.8));
  // If etcd reports that the lease has ended, it has ended.
  leader_lease.Renewed(t + s(1.5), s(0));
  EXPECT_FALSE(leader_lease.Holds(t + s(1.5)));
  EXPECT_FALSE(leader_lease.Holds(t));
}

}  // namespace
}  // namespace rollcall
