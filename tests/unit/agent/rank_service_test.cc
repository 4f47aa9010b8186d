// The rank service over its real Unix socket.
#include "client/agent/rank_service/rank_service.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/unit/agent/rank_service_fixture.h"

namespace rollcall {
namespace {

TEST_F(RankServiceTest, ARankIsToldItsWorldAndItsEnd) {
  OpenWorld();
  RankSide rank(path_);
  rank.Hello(1);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.Read(&reply));
  EXPECT_EQ(reply.world().rank(), 3u);
  EXPECT_EQ(reply.world().world().generation(), 5u);
  EXPECT_EQ(reply.world().world_commit().master_port(), 1234u);

  v1::RankMessage message;
  message.mutable_progress()->set_generation(5);
  message.mutable_progress()->set_step(17);
  message.mutable_progress()->set_loss(2.5);
  message.mutable_progress()->set_tokens_per_second(1e4);
  rank.Write(message);
  const auto progressed = Next<RankProgressed>();
  EXPECT_EQ(progressed.generation, 5u);
  EXPECT_EQ(progressed.step, 17u);
  // Only the first local rank reports loss and pace.
  EXPECT_FALSE(progressed.pace.has_value());

  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  ASSERT_TRUE(rank.Read(&reply));
  EXPECT_EQ(reply.abort().generation(), 5u);
  rank.WritesDone();
  EXPECT_FALSE(rank.Read(&reply));
  EXPECT_TRUE(rank.Finish().ok());
}

TEST_F(RankServiceTest, TheFirstRankTellsHowATrainingGoes) {
  OpenWorld();
  RankSide rank(path_);
  rank.Hello(0);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.Read(&reply));
  v1::RankMessage message;
  v1::RankProgress& progress = *message.mutable_progress();
  progress.set_generation(5);
  progress.set_step(17);
  progress.set_loss(2.5);
  progress.set_tokens_per_second(1e4);
  struct {
    uint64_t steps;
    uint64_t told;
  } const kRows[] = {{0, 0},
                     {100, 100},
                     {Limits::step_max, Limits::step_max},
                     // No training has so many steps.
                     {Limits::step_max + 1, 0}};
  for (const auto& row : kRows) {
    progress.set_steps(row.steps);
    rank.Write(message);
    const auto progressed = Next<RankProgressed>();
    ASSERT_TRUE(progressed.pace.has_value());
    EXPECT_EQ(progressed.pace->loss(), 2.5);
    EXPECT_EQ(progressed.pace->steps(), row.told);
    EXPECT_FALSE(progressed.pace->has_gradient_norm());
    EXPECT_FALSE(progressed.pace->has_flops_utilization());
    EXPECT_FALSE(progressed.pace->has_validation_loss());
    EXPECT_EQ(progressed.pace->memory_bytes(), 0u);
  }
  // Numbers that the daemon would refuse are left out.
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  struct {
    double value;
    bool told;
    bool told_as_share;
  } const kValues[] = {{0, true, true},
                       {0.5, true, true},
                       {1, true, true},
                       {1.5, true, false},
                       {-0.5, false, false},
                       {kInfinite, false, false},
                       {-kInfinite, false, false},
                       {NAN, false, false}};
  progress.set_memory_bytes(7);
  for (const auto& row : kValues) {
    progress.set_gradient_norm(row.value);
    progress.set_flops_utilization(row.value);
    progress.set_validation_loss(row.value);
    rank.Write(message);
    const auto progressed = Next<RankProgressed>();
    ASSERT_TRUE(progressed.pace.has_value());
    const v1::Pace& pace = *progressed.pace;
    EXPECT_EQ(pace.has_gradient_norm(), row.told) << row.value;
    EXPECT_EQ(pace.has_flops_utilization(), row.told_as_share) << row.value;
    EXPECT_EQ(pace.has_validation_loss(), row.told) << row.value;
    if (row.told) {
      EXPECT_EQ(pace.gradient_norm(), row.value);
      EXPECT_EQ(pace.validation_loss(), row.value);
    }
    if (row.told_as_share) {
      EXPECT_EQ(pace.flops_utilization(), row.value);
    }
    EXPECT_EQ(pace.memory_bytes(), 7u);
  }
  rank.WritesDone();
  EXPECT_FALSE(rank.Read(&reply));
  EXPECT_TRUE(rank.Finish().ok());
}

TEST_F(RankServiceTest, AnElasticRankIsLedFromWorldToWorld) {
  OpenWorld();
  RankSide rank(path_);
  rank.Hello(1, true);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.Read(&reply));
  const auto attended = Next<RankAttended>();
  EXPECT_EQ(attended.generation, 5u);
  EXPECT_EQ(attended.local_rank, 1u);
  EXPECT_TRUE(attended.elastic);

  service_->EndWorld(5, v1::REASON_CODE_GROW, "b joins");
  ASSERT_TRUE(rank.Read(&reply));
  EXPECT_EQ(reply.abort().code(), v1::REASON_CODE_GROW);
  v1::RankMessage message;
  message.mutable_stopped()->set_generation(5);
  message.mutable_stopped()->set_completed_step(17);
  message.mutable_stopped()->set_whole_state(true);
  rank.Write(message);
  const auto waits = Next<RankWaits>();
  EXPECT_EQ(waits.generation, 5u);
  EXPECT_EQ(waits.completed_step, 17u);
  EXPECT_TRUE(waits.whole_state);

  OpenWorld(6, {0, 1});  // Rank 0 has left meanwhile.
  ASSERT_TRUE(rank.Read(&reply));
  EXPECT_EQ(reply.world().world().generation(), 6u);
  EXPECT_EQ(reply.world().rank(), 3u);
  rank.WritesDone();
  EXPECT_EQ(Next<RankUnlinked>().local_rank, 1u);
}

TEST_F(RankServiceTest, ANoticeReachesWhoAttendsAndWhoAttendsLater) {
  OpenWorld();
  RankSide early(path_), late(path_);
  v1::AgentReply reply;
  early.Hello(0, true);
  ASSERT_TRUE(early.Read(&reply));
  v1::RankNotice notice;
  notice.set_notice(3);
  notice.set_generation(4);
  service_->Tell(notice);  // For an older world: no rank gets it.
  notice.set_generation(5);
  service_->Tell(notice);
  ASSERT_TRUE(early.Read(&reply));
  EXPECT_EQ(reply.notice().generation(), 5u);
  late.Hello(1, true);
  ASSERT_TRUE(late.Read(&reply));
  EXPECT_TRUE(reply.has_world());
  ASSERT_TRUE(late.Read(&reply));
  EXPECT_EQ(reply.notice().notice(), 3u);
  v1::RankMessage message;
  message.mutable_notice_seen()->set_generation(5);
  early.Write(message);
  EXPECT_EQ(Next<RankAtBoundary>().local_rank, 0u);
  message.mutable_leave()->set_generation(5);
  late.Write(message);
  EXPECT_EQ(Next<RankAskedToLeave>().local_rank, 1u);
  early.WritesDone();
  late.WritesDone();
}

TEST_F(RankServiceTest, ARankIsAskedWhereItIs) {
  OpenWorld();
  EXPECT_EQ(service_->AskWhere(5, 0), 0) << "nobody attends there";
  RankSide rank(path_);
  rank.Hello(0);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.Read(&reply));
  Next<RankAttended>();
  EXPECT_EQ(service_->AskWhere(5, 0), getpid());
  ASSERT_TRUE(rank.Read(&reply));
  EXPECT_EQ(reply.where().generation(), 5u);
  v1::RankMessage message;
  message.mutable_here()->set_generation(5);
  rank.Write(message);
  auto here = Next<RankIsHere>();
  EXPECT_EQ(here.generation, 5u);
  EXPECT_EQ(here.local_rank, 0u);
  EXPECT_FALSE(here.collective_entered.has_value());
  message.mutable_here()->set_collective_entered(9);
  message.mutable_here()->set_collective_left(0);
  rank.Write(message);
  here = Next<RankIsHere>();
  EXPECT_EQ(here.collective_entered, 9u);
  EXPECT_EQ(here.collective_left, 0u);
  message.mutable_progress()->set_generation(5);
  message.mutable_progress()->set_step(3);
  rank.Write(message);
  EXPECT_EQ(Next<RankProgressed>().local_rank, 0u);
  rank.WritesDone();
}

TEST_F(RankServiceTest, ANewerProcessTakesTheLocalRank) {
  OpenWorld();
  RankSide older(path_), newer(path_);
  v1::AgentReply reply;
  older.Hello(0);
  ASSERT_TRUE(older.Read(&reply));
  newer.Hello(0);
  ASSERT_TRUE(newer.Read(&reply));
  EXPECT_FALSE(older.Read(&reply));
  EXPECT_EQ(older.Finish().code(), absl::StatusCode::kAborted);
}

TEST_F(RankServiceTest, TheFirstMessageMustBeHello) {
  OpenWorld();
  RankSide rank(path_);
  v1::RankMessage message;
  message.mutable_progress()->set_step(1);
  rank.Write(message);
  v1::AgentReply reply;
  EXPECT_FALSE(rank.Read(&reply));
  EXPECT_EQ(rank.Finish().code(), absl::StatusCode::kInvalidArgument);

  RankSide other(path_);
  other.Hello(2);
  EXPECT_FALSE(other.Read(&reply));
  EXPECT_EQ(other.Finish().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RankServiceTest, AStepBeyondAllIsRefused) {
  OpenWorld();
  const std::function<void(v1::RankMessage&)> rows[] = {
      [](auto& m) { m.mutable_progress()->set_step(Limits::step_max + 1); },
      [](auto& m) { m.mutable_stopped()->set_completed_step(UINT64_MAX); },
  };
  for (const auto& fill : rows) {
    RankSide rank(path_);
    rank.Hello(0);
    v1::AgentReply reply;
    ASSERT_TRUE(rank.Read(&reply));
    v1::RankMessage message;
    fill(message);
    rank.Write(message);
    rank.WritesDone();
    EXPECT_FALSE(rank.Read(&reply));
    const absl::Status status = rank.Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST_F(RankServiceTest, AnotherVersionIsRefused) {
  OpenWorld();
  for (const uint32_t version : {0u, 2u, UINT32_MAX}) {
    RankSide rank(path_);
    v1::RankMessage message;
    message.mutable_hello()->set_wire_version(version);
    rank.Write(message);
    const absl::Status status = rank.Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(
        absl::StrContains(status.message(), absl::StrCat("version ", version)))
        << status;
  }
}

TEST_F(RankServiceTest, AnAgentThatEndsSaysSo) {
  OpenWorld();
  RankSide rank = Attended(0);
  service_.reset();
  EXPECT_EQ(rank.Finish().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(RankServiceStart, APathThatIsTooLongIsRefused) {
  auto service = RankService::Start("/tmp/" + std::string(103, 'x'),
                                    [](AgentEvent) { return true; });
  EXPECT_EQ(service.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rollcall
