// The rank service over its real Unix socket.
#include "client/agent/rank_service/rank_service.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/inbox.h"
#include "daemon/core/limits.h"
#include "tests/unit/agent/rank_side.h"

namespace rollcall {
namespace {

class RankServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/rank_service %41.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    auto service = RankService::Start(folder_ + "/s", [this](AgentEvent event) {
      return inbox_.Post(std::move(event));
    });
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    ASSERT_TRUE(std::filesystem::is_socket(folder_ + "/s"));
    path_ = folder_ + "/s";
  }
  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Opens the world of a generation: two nodes of two ranks. This is node rank
  // 1.
  void OpenWorld(uint64_t generation = 5,
                 const std::vector<uint32_t>& waiting = {}) {
    v1::World world;
    world.set_generation(generation);
    world.set_world_size(4);
    for (uint32_t node = 0; node < 2; ++node) {
      v1::Member& member = *world.add_members();
      member.set_node(absl::StrCat("n", node));
      member.set_first_rank(2 * node);
      member.set_ranks(2);
    }
    v1::WorldCommit world_commit;
    world_commit.set_master_port(1234);
    service_->SetWorld(world, world_commit, 1, waiting);
  }

  // A rank that has attended and has read its world.
  RankSide Attended(uint32_t local_rank) {
    RankSide rank(path_);
    rank.Hello(local_rank);
    v1::AgentReply reply;
    EXPECT_TRUE(rank.Read(&reply));
    EXPECT_TRUE(reply.has_world());
    return rank;
  }
  // The next answer to an exchange.
  static v1::RankExchanged Answered(RankSide& rank) {
    v1::AgentReply reply;
    while (rank.Read(&reply) && !reply.has_exchanged()) {
    }
    return reply.exchanged();
  }
  // The next answer of the store.
  static v1::RankStored Stored(RankSide& rank) {
    v1::AgentReply reply;
    while (rank.Read(&reply) && !reply.has_stored()) {
    }
    return reply.stored();
  }
  static int CodeOf(absl::StatusCode code) { return static_cast<int>(code); }

  // The next event of this type; events of other types before it are skipped.
  template <typename Event>
  Event Next() {
    for (;;) {
      while (!events_.empty()) {
        const AgentEvent event = std::move(events_.front());
        events_.pop_front();
        if (const auto* wanted = std::get_if<Event>(&event)) return *wanted;
      }
      for (AgentEvent& event : inbox_.Take(absl::Seconds(60))) {
        events_.push_back(std::move(event));
      }
    }
  }

  std::deque<AgentEvent> events_;
  std::string folder_;
  Inbox<AgentEvent> inbox_{1000};
  std::unique_ptr<RankService> service_;
  std::string path_;
};

TEST_F(RankServiceTest, AnOperationOnTheStoreGetsItsResult) {
  OpenWorld();
  RankSide rank = Attended(0), other = Attended(1);
  rank.Store(7, 5, v1::STORE_KIND_GET, "k");
  const auto event = Next<RankAsksStore>();
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.operation.key(), "k");
  // The other rank uses the same request number, and gets a ticket of its own.
  other.Store(7, 5, v1::STORE_KIND_CHECK, "k");
  const auto others = Next<RankAsksStore>();
  EXPECT_NE(others.ticket, event.ticket);
  AnswerStore answer{event.ticket, {}};
  answer.result.set_value("v");
  service_->Answer(answer);
  service_->Answer(answer);  // A second answer has no effect.
  const v1::RankStored stored = Stored(rank);
  EXPECT_EQ(stored.request(), 7u);
  EXPECT_EQ(stored.result().value(), "v");
  // An operation that waits when the generation ends is answered, too.
  service_->EndWorld(5, v1::REASON_CODE_LEAVING, "why");
  EXPECT_EQ(Stored(other).result().code(),
            static_cast<uint32_t>(CodeOf(absl::StatusCode::kAborted)));
}

TEST_F(RankServiceTest, WhatTheStoreDoesNotTake) {
  OpenWorld();
  RankSide rank = Attended(0);
  using Code = absl::StatusCode;
  const auto refused = [&] {
    return static_cast<Code>(Stored(rank).result().code());
  };
  rank.Store(1, 4, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(refused(), Code::kAborted);
  rank.Store(2, 5, v1::STORE_KIND_GET, "");
  EXPECT_EQ(refused(), Code::kInvalidArgument);
  for (uint64_t i = 0; i < Limits::store_asked_per_rank_max; ++i) {
    rank.Store(10 + i, 5, v1::STORE_KIND_GET, "k");
    Next<RankAsksStore>();
  }
  rank.Store(3, 5, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(refused(), Code::kResourceExhausted);
  rank.CancelStore(10);
  EXPECT_EQ(Next<StoreCancelled>().tickets.size(), 1u);
  rank.Store(11, 5, v1::STORE_KIND_GET, "k");  // Already in use.
  EXPECT_EQ(refused(), Code::kInvalidArgument);
  rank.CancelStore(10);  // Nothing waits under this number.
  // The other operations are cancelled when the connection ends.
  rank.Close();
  EXPECT_EQ(Next<StoreCancelled>().tickets.size(),
            Limits::store_asked_per_rank_max - 1);
}

TEST_F(RankServiceTest, AnAgentThatIsBehindSaysSo) {
  OpenWorld();
  RankSide rank = Attended(0);
  for (int i = 0; i < 1000; ++i) inbox_.Post(AgentTick{});
  rank.Store(1, 5, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(Stored(rank).result().code(),
            static_cast<uint32_t>(CodeOf(absl::StatusCode::kUnavailable)));
}

TEST_F(RankServiceTest, ExchangeWaitsForTheAnswer) {
  OpenWorld();
  RankSide rank = Attended(1);
  rank.Exchange(7, 5, "store/a", "mine");
  const auto event = Next<RankExchanged>();
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.local_rank, 1u);
  EXPECT_EQ(event.key, "store/a");
  EXPECT_EQ(event.value, "mine");
  v1::ExchangeOut out;
  out.set_generation(5);
  out.set_key("store/b");
  service_->Answer(out);  // No rank waits for this key.
  out.set_key("store/a");
  for (const char* value : {"a", "b", "c", "mine"}) out.add_values(value);
  service_->Answer(out);
  const v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 7u);
  EXPECT_EQ(answered.code(), 0u) << answered.error();
  ASSERT_EQ(answered.values_size(), 4);
  EXPECT_EQ(answered.values(3), "mine");
  // The exchange can also fail for a reason of the daemon.
  rank.Exchange(8, 5, "k", "v");
  Next<RankExchanged>();
  out.set_key("k");
  out.set_code(8);
  out.set_error("too many keys");
  service_->Answer(out);
  const v1::RankExchanged refused = Answered(rank);
  EXPECT_EQ(refused.request(), 8u);
  EXPECT_EQ(refused.code(), 8u);
  EXPECT_EQ(refused.error(), "too many keys");
  EXPECT_EQ(refused.values_size(), 0);
}

TEST_F(RankServiceTest, TheEndOfAGenerationAbortsWhoWaits) {
  OpenWorld();
  RankSide rank = Attended(0);
  rank.Exchange(1, 5, "k", "v");
  Next<RankExchanged>();
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
  rank.Exchange(2, 5, "k", "v");
  EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
}

TEST_F(RankServiceTest, ANewerRequestForAKeyReplacesTheOlder) {
  OpenWorld();
  RankSide rank = Attended(0);
  rank.Exchange(1, 5, "k", "v");
  rank.Exchange(2, 5, "k", "v");
  v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 1u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kCancelled));
  // A request with another value does not replace the older request.
  rank.Exchange(3, 5, "k", "w");
  answered = Answered(rank);
  EXPECT_EQ(answered.request(), 3u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kInvalidArgument));
  v1::ExchangeOut out;
  out.set_generation(5);
  out.set_key("k");
  service_->Answer(out);
  EXPECT_EQ(Answered(rank).request(), 2u);
}

TEST_F(RankServiceTest, ARankWaitsForSoManyKeysAlone) {
  OpenWorld();
  RankSide rank = Attended(0), other = Attended(1);
  for (uint64_t i = 0; i < Limits::exchanges_open_max; ++i) {
    rank.Exchange(i, 5, absl::StrCat("k", i), "v");
    Next<RankExchanged>();
  }
  rank.Exchange(1000, 5, "one more", "v");
  const v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 1000u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kResourceExhausted));
  // The other rank's own limit is not affected.
  other.Exchange(1, 5, "its key", "v");
  EXPECT_EQ(Next<RankExchanged>().key, "its key");
  // The end of the world answers all exchanges that wait.
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  for (uint64_t i = 0; i < Limits::exchanges_open_max; ++i) {
    EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
  }
}

TEST_F(RankServiceTest, BadExchangesAreRefused) {
  OpenWorld();
  RankSide rank = Attended(0);
  struct {
    uint64_t generation;
    std::string key, value;
    absl::StatusCode expect;
  } const rows[] = {
      {4, "k", "v", absl::StatusCode::kAborted},
      {6, "k", "v", absl::StatusCode::kAborted},
      {5, "", "v", absl::StatusCode::kInvalidArgument},
      {5, std::string(Limits::exchange_key_bytes_max + 1, 'k'), "v",
       absl::StatusCode::kInvalidArgument},
      // The daemon admits only printable ASCII.
      {5, "a\nb", "v", absl::StatusCode::kInvalidArgument},
      {5, std::string("a\0b", 3), "v", absl::StatusCode::kInvalidArgument},
      {5, "caf\xc3\xa9", "v", absl::StatusCode::kInvalidArgument},
      {5, "a\x7f", "v", absl::StatusCode::kInvalidArgument},
      {5, "k", std::string(Limits::exchange_value_bytes_max + 1, 'v'),
       absl::StatusCode::kInvalidArgument},
  };
  uint64_t request = 0;
  for (const auto& row : rows) {
    rank.Exchange(++request, row.generation, row.key, row.value);
    const v1::RankExchanged answered = Answered(rank);
    EXPECT_EQ(answered.request(), request);
    EXPECT_EQ(answered.code(), CodeOf(row.expect))
        << row.generation << " '" << row.key << "'";
  }
  // The agent does not even read a message of this size to its end.
  rank.Exchange(++request, 5, "k", std::string(kRankMessageBytesMax, 'v'));
  EXPECT_EQ(rank.Finish().code(), absl::StatusCode::kResourceExhausted);
}

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
