// Job keeps the names of a limited number of lost nodes; see
// Membership::Remove.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

TEST(LostNames, ANodeMayBeLostAgainWhileItsNameIsTheOldest) {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(4);
  settings.mutable_join_timeout()->set_seconds(86400);
  absl::Time now = absl::UnixEpoch();
  Job job("demo", "run1", settings, Limits(), now);
  job.Start();
  SessionId session = 0;
  const auto comes_and_is_lost = [&](const std::string& name,
                                     uint64_t incarnation) {
    Attend attend;
    attend.session = ++session;
    attend.hello.set_job("demo");
    attend.hello.set_node(name);
    attend.hello.set_incarnation(incarnation);
    attend.hello.set_ranks(1);
    attend.hello.mutable_token()->set_id("t1");
    attend.observed_address = "10.0.0.1";
    job.Step(attend, now);
    job.Step(StreamClosed{session}, now);
    now += Limits().reconnect_grace;
    job.Step(Tick{}, now);
  };
  comes_and_is_lost("first", 1);
  for (size_t i = 1; i < Limits::lost_names_max; ++i) {
    comes_and_is_lost(absl::StrCat("n", i), 1);
  }
  // The node's entry is removed during its loss.
  comes_and_is_lost("first", 2);
  EXPECT_EQ(static_cast<size_t>(job.Status(now).nodes_size()),
            Limits::lost_names_max - 1);
}

}  // namespace
}  // namespace rollcall
