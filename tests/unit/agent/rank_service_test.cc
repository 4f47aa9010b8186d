// The rank service over its real Unix socket.
#include "client/agent/rank_service/rank_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/rank/unix_address.h"
#include "daemon/base/inbox.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {
namespace {

class RankServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    // With what means something in a URI.
    char folder[] = "/tmp/rank_service%41?a#b c\xc3\xa9.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    auto service = RankService::Start(folder_ + "/s", [this](AgentEvent event) {
      return inbox_.Post(std::move(event));
    });
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    ASSERT_TRUE(std::filesystem::is_socket(folder_ + "/s"));
    stub_ = v1::Rank::NewStub(grpc::CreateChannel(
        UnixAddress(folder_ + "/s"), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Generation 5, two nodes of two ranks; this is node rank 1.
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

  struct Answered {
    grpc::Status status;
    v1::ExchangeResponse response;
  };
  std::future<Answered> Exchange(uint64_t generation, uint32_t local_rank,
                                 const std::string& key,
                                 const std::string& value,
                                 absl::Duration timeout = absl::Seconds(60)) {
    return std::async(std::launch::async, [=, this] {
      v1::ExchangeRequest request;
      request.set_generation(generation);
      request.set_local_rank(local_rank);
      request.set_key(key);
      request.set_value(value);
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
      Answered answered;
      answered.status = stub_->Exchange(&context, request, &answered.response);
      return answered;
    });
  }

  // The next event of this kind; others before it are passed over.
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
  std::unique_ptr<v1::Rank::Stub> stub_;
};

TEST_F(RankServiceTest, ExchangeWaitsForTheAnswer) {
  OpenWorld();
  auto call = Exchange(5, 1, "store/a", "mine");
  const auto event = Next<RankExchanged>();
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.local_rank, 1u);
  EXPECT_EQ(event.key, "store/a");
  EXPECT_EQ(event.value, "mine");
  v1::ExchangeOut out;
  out.set_generation(5);
  out.set_key("store/b");
  service_->Answer(out);  // Another key: nobody waits for it.
  out.set_key("store/a");
  for (const char* value : {"a", "b", "c", "mine"}) out.add_values(value);
  service_->Answer(out);
  const Answered answered = call.get();
  EXPECT_TRUE(answered.status.ok()) << answered.status.error_message();
  EXPECT_EQ(answered.response.values_size(), 4);
  EXPECT_EQ(answered.response.values(3), "mine");
}

TEST_F(RankServiceTest, TheEndOfAGenerationAbortsWhoWaits) {
  OpenWorld();
  auto call = Exchange(5, 0, "k", "v");
  Next<RankExchanged>();
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  EXPECT_EQ(call.get().status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Exchange(5, 0, "k", "v").get().status.error_code(),
            grpc::StatusCode::ABORTED);
}

TEST_F(RankServiceTest, ADeadlineIsForgotten) {
  OpenWorld();
  auto call = Exchange(5, 0, "k", "v", absl::Milliseconds(50));
  Next<RankExchanged>();
  EXPECT_EQ(call.get().status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // Whoever is forgotten may give another value, as soon as the service has
  // heard of the deadline too.
  for (;;) {
    auto retry = Exchange(5, 0, "k", "other");
    while (inbox_.Take(absl::Milliseconds(1)).empty()) {
      if (retry.wait_for(std::chrono::seconds(0)) ==
          std::future_status::ready) {
        break;
      }
    }
    v1::ExchangeOut out;
    out.set_generation(5);
    out.set_key("k");
    service_->Answer(out);
    const grpc::Status status = retry.get().status;
    if (status.ok()) break;
    ASSERT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(RankServiceTest, BadExchangesAreRefused) {
  EXPECT_EQ(Exchange(5, 0, "k", "v").get().status.error_code(),
            grpc::StatusCode::ABORTED);  // No world yet.
  OpenWorld();
  struct {
    uint64_t generation;
    uint32_t local_rank;
    std::string key, value;
    grpc::StatusCode expect;
  } const rows[] = {
      {4, 0, "k", "v", grpc::StatusCode::ABORTED},
      {6, 0, "k", "v", grpc::StatusCode::ABORTED},
      {5, 2, "k", "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, "", "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, std::string(Limits::exchange_key_bytes_max + 1, 'k'), "v",
       grpc::StatusCode::INVALID_ARGUMENT},
      // The daemon admits printable ASCII alone.
      {5, 0, "a\nb", "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, std::string("a\0b", 3), "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, "caf\xc3\xa9", "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, "a\x7f", "v", grpc::StatusCode::INVALID_ARGUMENT},
      {5, 0, "k", std::string(Limits::exchange_value_bytes_max + 1, 'v'),
       grpc::StatusCode::INVALID_ARGUMENT},
      // Not even kept until it is looked at.
      {5, 0, "k", std::string(4 * Limits::exchange_value_bytes_max, 'v'),
       grpc::StatusCode::RESOURCE_EXHAUSTED},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Exchange(row.generation, row.local_rank, row.key, row.value)
                  .get()
                  .status.error_code(),
              row.expect)
        << row.generation << " " << row.local_rank << " '" << row.key << "'";
  }
}

TEST_F(RankServiceTest, AnotherValueForAnOpenKeyIsRefused) {
  OpenWorld();
  auto first = Exchange(5, 0, "k", "v");
  Next<RankExchanged>();
  EXPECT_EQ(Exchange(5, 0, "k", "w").get().status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "over");
  first.get();
}

// One Attend stream from the rank's side.
struct Attending {
  explicit Attending(v1::Rank::Stub& stub) : stream(stub.Attend(&context)) {}
  void Hello(uint32_t local_rank, bool elastic = false) {
    v1::RankMessage message;
    message.mutable_hello()->set_local_rank(local_rank);
    message.mutable_hello()->set_elastic(elastic);
    message.mutable_hello()->set_pid(getpid());
    stream->Write(message);
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RankMessage, v1::AgentReply>>
      stream;
};

TEST_F(RankServiceTest, ARankIsToldItsWorldAndItsEnd) {
  OpenWorld();
  Attending rank(*stub_);
  rank.Hello(1);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.stream->Read(&reply));
  EXPECT_EQ(reply.world().rank(), 3u);
  EXPECT_EQ(reply.world().world().generation(), 5u);
  EXPECT_EQ(reply.world().world_commit().master_port(), 1234u);

  v1::RankMessage message;
  message.mutable_progress()->set_generation(5);
  message.mutable_progress()->set_step(17);
  message.mutable_progress()->set_loss(2.5);
  message.mutable_progress()->set_tokens_per_second(1e4);
  rank.stream->Write(message);
  const auto progressed = Next<RankProgressed>();
  EXPECT_EQ(progressed.generation, 5u);
  EXPECT_EQ(progressed.step, 17u);
  // How a training goes is the first rank's to say.
  EXPECT_FALSE(progressed.pace.has_value());

  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  ASSERT_TRUE(rank.stream->Read(&reply));
  EXPECT_EQ(reply.abort().generation(), 5u);
  rank.stream->WritesDone();
  EXPECT_FALSE(rank.stream->Read(&reply));
  EXPECT_TRUE(rank.stream->Finish().ok());
}

TEST_F(RankServiceTest, TheFirstRankTellsHowATrainingGoes) {
  OpenWorld();
  Attending rank(*stub_);
  rank.Hello(0);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.stream->Read(&reply));
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
                     // No training has as many.
                     {Limits::step_max + 1, 0}};
  for (const auto& row : kRows) {
    progress.set_steps(row.steps);
    rank.stream->Write(message);
    const auto progressed = Next<RankProgressed>();
    ASSERT_TRUE(progressed.pace.has_value());
    EXPECT_EQ(progressed.pace->loss(), 2.5);
    EXPECT_EQ(progressed.pace->steps(), row.told);
  }
  rank.stream->WritesDone();
  EXPECT_FALSE(rank.stream->Read(&reply));
  EXPECT_TRUE(rank.stream->Finish().ok());
}

TEST_F(RankServiceTest, AnElasticRankIsLedFromWorldToWorld) {
  OpenWorld();
  Attending rank(*stub_);
  rank.Hello(1, true);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.stream->Read(&reply));
  const auto attended = Next<RankAttended>();
  EXPECT_EQ(attended.generation, 5u);
  EXPECT_EQ(attended.local_rank, 1u);
  EXPECT_TRUE(attended.elastic);

  service_->EndWorld(5, v1::REASON_CODE_GROW, "b joins");
  ASSERT_TRUE(rank.stream->Read(&reply));
  EXPECT_EQ(reply.abort().code(), v1::REASON_CODE_GROW);
  v1::RankMessage message;
  message.mutable_stopped()->set_generation(5);
  message.mutable_stopped()->set_completed_step(17);
  message.mutable_stopped()->set_whole_state(true);
  rank.stream->Write(message);
  const auto waits = Next<RankWaits>();
  EXPECT_EQ(waits.generation, 5u);
  EXPECT_EQ(waits.completed_step, 17u);
  EXPECT_TRUE(waits.whole_state);

  OpenWorld(6, {0, 1});  // Rank 0 has gone in the meantime.
  ASSERT_TRUE(rank.stream->Read(&reply));
  EXPECT_EQ(reply.world().world().generation(), 6u);
  EXPECT_EQ(reply.world().rank(), 3u);
  rank.stream->WritesDone();
  EXPECT_EQ(Next<RankUnlinked>().local_rank, 1u);
}

TEST_F(RankServiceTest, ANoticeReachesWhoAttendsAndWhoAttendsLater) {
  OpenWorld();
  Attending early(*stub_), late(*stub_);
  v1::AgentReply reply;
  early.Hello(0, true);
  ASSERT_TRUE(early.stream->Read(&reply));
  v1::RankNotice notice;
  notice.set_notice(3);
  notice.set_generation(4);
  service_->Tell(notice);  // Of an older world: nobody's.
  notice.set_generation(5);
  service_->Tell(notice);
  ASSERT_TRUE(early.stream->Read(&reply));
  EXPECT_EQ(reply.notice().generation(), 5u);
  late.Hello(1, true);
  ASSERT_TRUE(late.stream->Read(&reply));
  EXPECT_TRUE(reply.has_world());
  ASSERT_TRUE(late.stream->Read(&reply));
  EXPECT_EQ(reply.notice().notice(), 3u);
  v1::RankMessage message;
  message.mutable_notice_seen()->set_generation(5);
  early.stream->Write(message);
  EXPECT_EQ(Next<RankAtBoundary>().local_rank, 0u);
  message.mutable_leave()->set_generation(5);
  late.stream->Write(message);
  EXPECT_EQ(Next<RankAskedToLeave>().local_rank, 1u);
  early.stream->WritesDone();
  late.stream->WritesDone();
}

TEST_F(RankServiceTest, ARankIsAskedWhereItIs) {
  OpenWorld();
  EXPECT_EQ(service_->AskWhere(5, 0), 0) << "nobody attends there";
  Attending rank(*stub_);
  rank.Hello(0);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.stream->Read(&reply));
  Next<RankAttended>();
  EXPECT_EQ(service_->AskWhere(5, 0), getpid());
  ASSERT_TRUE(rank.stream->Read(&reply));
  EXPECT_EQ(reply.where().generation(), 5u);
  v1::RankMessage message;
  message.mutable_here()->set_generation(5);
  rank.stream->Write(message);
  auto here = Next<RankIsHere>();
  EXPECT_EQ(here.generation, 5u);
  EXPECT_EQ(here.local_rank, 0u);
  EXPECT_FALSE(here.collective_entered.has_value());
  message.mutable_here()->set_collective_entered(9);
  message.mutable_here()->set_collective_left(0);
  rank.stream->Write(message);
  here = Next<RankIsHere>();
  EXPECT_EQ(here.collective_entered, 9u);
  EXPECT_EQ(here.collective_left, 0u);
  message.mutable_progress()->set_generation(5);
  message.mutable_progress()->set_step(3);
  rank.stream->Write(message);
  EXPECT_EQ(Next<RankProgressed>().local_rank, 0u);
  rank.stream->WritesDone();
}

TEST_F(RankServiceTest, ANewerProcessTakesTheLocalRank) {
  OpenWorld();
  Attending older(*stub_), newer(*stub_);
  v1::AgentReply reply;
  older.Hello(0);
  ASSERT_TRUE(older.stream->Read(&reply));
  newer.Hello(0);
  ASSERT_TRUE(newer.stream->Read(&reply));
  EXPECT_FALSE(older.stream->Read(&reply));
  EXPECT_EQ(older.stream->Finish().error_code(), grpc::StatusCode::ABORTED);
  newer.context.TryCancel();
  newer.stream->Finish();
}

TEST_F(RankServiceTest, TheFirstMessageMustBeHello) {
  OpenWorld();
  Attending rank(*stub_);
  v1::RankMessage message;
  message.mutable_progress()->set_step(1);
  rank.stream->Write(message);
  v1::AgentReply reply;
  EXPECT_FALSE(rank.stream->Read(&reply));
  EXPECT_EQ(rank.stream->Finish().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  Attending other(*stub_);
  other.Hello(2);
  EXPECT_FALSE(other.stream->Read(&reply));
  EXPECT_EQ(other.stream->Finish().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(RankServiceTest, AStepBeyondAllIsRefused) {
  OpenWorld();
  const std::function<void(v1::RankMessage&)> rows[] = {
      [](auto& m) { m.mutable_progress()->set_step(Limits::step_max + 1); },
      [](auto& m) { m.mutable_stopped()->set_completed_step(UINT64_MAX); },
  };
  for (const auto& fill : rows) {
    Attending rank(*stub_);
    rank.Hello(0);
    v1::AgentReply reply;
    ASSERT_TRUE(rank.stream->Read(&reply));
    v1::RankMessage message;
    fill(message);
    rank.stream->Write(message);
    rank.stream->WritesDone();
    EXPECT_FALSE(rank.stream->Read(&reply));
    const grpc::Status status = rank.stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << status.error_message();
  }
}

TEST(RankServiceStart, APathThatIsTooLongIsRefused) {
  auto service = RankService::Start("/tmp/" + std::string(103, 'x'),
                                    [](AgentEvent) { return true; });
  EXPECT_EQ(service.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rollcall
