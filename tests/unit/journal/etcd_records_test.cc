// What needs no etcd: the place of one, the end of a lease, records of runs.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "daemon/journal/etcd_place.h"
#include "daemon/journal/run_record.h"
#include "daemon/journal/tenure.h"

namespace rollcall {
namespace {

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

TEST(EtcdPlaceTest, Grammar) {
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
    const auto place = EtcdPlace::Parse(row.url);
    EXPECT_EQ(place.ok() ? place->Text() : "", row.expect) << row.url;
    if (place.ok()) continue;
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TenureTest, EndsBeforeTheLeaseCan) {
  const absl::Time t = kThen;
  const auto s = [](double seconds) { return absl::Seconds(seconds); };
  Tenure tenure;
  EXPECT_FALSE(tenure.Holds(t));
  tenure.Renewed(t, s(2));
  EXPECT_TRUE(tenure.Holds(t + s(1.79)));
  EXPECT_FALSE(tenure.Holds(t + s(1.8)));
  EXPECT_EQ(tenure.renew_at(), t + s(0.5));
  tenure.Renewed(t + s(1), s(2));
  EXPECT_TRUE(tenure.Holds(t + s(2.79)));
  // An answer to an older question adds nothing.
  tenure.Renewed(t + s(0.5), s(2));
  EXPECT_EQ(tenure.until(), t + s(2.8));
  // What etcd says has ended has ended.
  tenure.Renewed(t + s(1.5), s(0));
  EXPECT_FALSE(tenure.Holds(t + s(1.5)));
  EXPECT_FALSE(tenure.Holds(t));
}

TEST(RunRecordTest, ComesBackWhole) {
  JournaledRun run;
  run.job = "j";
  run.written_at = kThen + absl::Microseconds(5);
  run.state.run = "r";
  run.state.settings.set_nodes_max(7);
  run.state.generation = 9;
  run.state.proposal.emplace().set_world(std::string(10'000, 'w'));
  run.state.seal.emplace().set_master_port(1);
  run.state.leaving.emplace().set_notice(3);
  run.state.finished.emplace().add_node_ranks(4);
  run.state.restarts_charged = 2;
  run.state.node_epochs.Admit("a", "t1");
  run.state.node_epochs.Raise("a");
  run.state.node_epochs.RaiseFloor(1);
  const std::string bytes = PackRun(run);
  EXPECT_LT(bytes.size(), 1'000u);
  const auto back = UnpackRun("j", bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->written_at, run.written_at);
  EXPECT_EQ(back->state.run, "r");
  EXPECT_EQ(back->state.settings.nodes_max(), 7u);
  EXPECT_EQ(back->state.generation, 9u);
  EXPECT_EQ(back->state.proposal->world().size(), 10'000u);
  EXPECT_EQ(back->state.seal->master_port(), 1u);
  EXPECT_EQ(back->state.leaving->notice(), 3u);
  ASSERT_EQ(back->state.finished->node_ranks_size(), 1);
  EXPECT_FALSE(back->state.end.has_value());
  EXPECT_EQ(back->state.restarts_charged, 2u);
  EXPECT_EQ(back->state.node_epochs.EpochOf("a"), 1u);
  EXPECT_EQ(back->state.node_epochs.TokenOf("a"), "t1");
  EXPECT_EQ(back->state.node_epochs.EpochOf("b"), 1u);
}

TEST(RunRecordTest, OtherBytesAreRefused) {
  JournaledRun run;
  run.state.run = "r";
  const std::string good = PackRun(run);
  for (const std::string& bad :
       {std::string(), std::string("garbage"), good.substr(0, good.size() - 3),
        // Says that it expands to 2^62 bytes.
        std::string("\x0a\x01x\x10\x80\x80\x80\x80\x80\x80\x80\x80\x40")}) {
    EXPECT_EQ(UnpackRun("j", bad).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace rollcall
