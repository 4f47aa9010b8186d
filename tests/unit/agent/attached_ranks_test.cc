// The rank service of an agent that starts no ranks, over its real Unix socket.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service.h"
#include "client/rank/unix_address.h"
#include "daemon/base/inbox.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {
namespace {

// A process, from its own side.
struct Attached {
  Attached(v1::Rank::Stub& stub, uint32_t local_rank, int32_t pid,
           uint64_t generation = 0)
      : stream(stub.Attend(&context)) {
    v1::RankMessage message;
    message.mutable_hello()->set_local_rank(local_rank);
    message.mutable_hello()->set_elastic(true);
    message.mutable_hello()->set_pid(pid);
    message.mutable_hello()->set_generation(generation);
    stream->Write(message);
  }
  ~Attached() {
    // As the kernel closes the connections of a process that dies.
    context.TryCancel();
    if (!finished) (void)End();
  }
  // With which status the stream ended.
  grpc::StatusCode End() {
    v1::AgentReply reply;
    while (stream->Read(&reply)) {
    }
    finished = true;
    return stream->Finish().error_code();
  }
  void Stopped(uint64_t generation) {
    v1::RankMessage message;
    message.mutable_stopped()->set_generation(generation);
    stream->Write(message);
  }
  void Finished(uint32_t code, const std::string& reason) {
    v1::RankMessage message;
    message.mutable_finished()->set_exit_code(code);
    message.mutable_finished()->set_reason(reason);
    stream->Write(message);
  }
  // The generation of the world, or minus that of the abort, that comes next;
  // 0: the stream has ended.
  int64_t Next() {
    v1::AgentReply reply;
    if (!stream->Read(&reply)) return 0;
    return reply.has_abort()
               ? -static_cast<int64_t>(reply.abort().generation())
               : static_cast<int64_t>(reply.world().world().generation());
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RankMessage, v1::AgentReply>>
      stream;
  bool finished = false;
};

class AttachedRanksTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/attached_ranks.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    auto service = RankService::Start(
        folder_ + "/s",
        [this](AgentEvent event) { return inbox_.Post(std::move(event)); },
        nullptr, /*attached=*/2);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    stub_ = v1::Rank::NewStub(grpc::CreateChannel(
        UnixAddress(folder_ + "/s"), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  // One node of two ranks.
  void OpenWorld(uint64_t generation,
                 const std::vector<uint32_t>& waiting = {}) {
    v1::World world;
    world.set_generation(generation);
    world.set_world_size(2);
    world.add_members()->set_ranks(2);
    service_->SetWorld(world, v1::WorldCommit(), 0, waiting);
  }
  void EndWorld(uint64_t generation) {
    service_->EndWorld(generation, v1::REASON_CODE_RANK_EXIT, "over");
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

TEST_F(AttachedRanksTest, AProcessGetsItsWorldWheneverItComes) {
  Attached early(*stub_, 1, 11);
  OpenWorld(5);
  EXPECT_EQ(early.Next(), 5);
  EXPECT_EQ(Next<RankAttended>().local_rank, 1u);
  Attached late(*stub_, 0, 12);
  EXPECT_EQ(late.Next(), 5);
  EXPECT_EQ(Next<RankAttended>().local_rank, 0u);
}

TEST_F(AttachedRanksTest, AProcessThatIsGoneIsAFailedRank) {
  OpenWorld(5);
  auto rank = std::make_unique<Attached>(*stub_, 1, 4711);
  ASSERT_EQ(rank->Next(), 5);
  rank.reset();
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.generation, 5u);
  EXPECT_EQ(ended.local_rank, 1u);
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(ended.gone);
  EXPECT_TRUE(absl::StrContains(ended.stderr_tail, "4711"))
      << ended.stderr_tail;
  // The next process is for the next world.
  Attached again(*stub_, 1, 12);
  EndWorld(5);
  service_->Stop({{5, 1}});
  EXPECT_EQ(Next<RanksGone>().ranks[0].local_rank, 1u);
  OpenWorld(6);
  EXPECT_EQ(again.Next(), 6);
}

TEST_F(AttachedRanksTest, AProcessSaysItsCode) {
  OpenWorld(5);
  Attached rank(*stub_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  rank.Finished(3, "no data");
  rank.stream->WritesDone();
  EXPECT_EQ(rank.Next(), 0);
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.code, 3);
  EXPECT_FALSE(ended.gone);
  EXPECT_EQ(ended.stderr_tail, "no data");
}

TEST_F(AttachedRanksTest, ACodeThatNoProcessHasIsRefused) {
  OpenWorld(5);
  Attached rank(*stub_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  rank.Finished(256, "");
  EXPECT_EQ(rank.Next(), 0);
  EXPECT_EQ(rank.End(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Next<RankEnded>().code, 1);
}

TEST_F(AttachedRanksTest, AProcessThatDoesNotAnswerKeepsItsConnection) {
  OpenWorld(5);
  auto rank = std::make_unique<Attached>(*stub_, 0, 11);
  ASSERT_EQ(rank->Next(), 5);
  EndWorld(5);
  EXPECT_EQ(rank->Next(), -5);
  service_->Stop({{5, 0}});
  // It is fenced.
  grpc::ClientContext context;
  v1::ExchangeRequest request;
  v1::ExchangeResponse response;
  request.set_generation(5);
  request.set_key("k");
  EXPECT_EQ(stub_->Exchange(&context, request, &response).error_code(),
            grpc::StatusCode::ABORTED);
  // Nothing is told of it before it answers or is gone.
  service_->Stop({{5, 1}});
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 1}}));
  rank.reset();
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 0}}));
}

TEST_F(AttachedRanksTest, ALateAnswerEndsTheConnection) {
  OpenWorld(5);
  Attached rank(*stub_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  EndWorld(5);
  EXPECT_EQ(rank.Next(), -5);
  service_->Stop({{5, 0}});
  rank.Stopped(5);
  EXPECT_EQ(rank.Next(), 0);
  EXPECT_EQ(rank.End(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 0}}));
}

TEST_F(AttachedRanksTest, AProcessThatWaitsGetsTheNextWorldOrAnEnd) {
  OpenWorld(5);
  Attached rank(*stub_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  EndWorld(5);
  EXPECT_EQ(rank.Next(), -5);
  rank.Stopped(5);
  EXPECT_EQ(Next<RankWaits>().generation, 5u);
  OpenWorld(6, {0});
  EXPECT_EQ(rank.Next(), 6);
  EndWorld(6);
  EXPECT_EQ(rank.Next(), -6);
  rank.Stopped(6);
  EXPECT_EQ(Next<RankWaits>().generation, 6u);
  service_->Stop({{5, 0}});
  EXPECT_EQ(rank.Next(), 0);
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 0}}));
}

TEST_F(AttachedRanksTest, ASecondProcessIsNamedAndWaits) {
  OpenWorld(5);
  Attached rank(*stub_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  Attached second(*stub_, 0, 12);
  const auto doubled = Next<RankDoubled>();
  EXPECT_EQ(doubled.local_rank, 0u);
  EXPECT_EQ(doubled.pid, 12);
  EXPECT_EQ(doubled.connected_pid, 11);
  // What it says counts for nothing: it does not end the first one's run.
  second.Finished(0, "");
  second.stream->WritesDone();
  EXPECT_EQ(second.Next(), 0);
  Attached third(*stub_, 0, 13);
  EXPECT_EQ(Next<RankDoubled>().pid, 13);
  rank.Finished(4, "");
  rank.stream->WritesDone();
  EXPECT_EQ(Next<RankEnded>().code, 4);
  EndWorld(5);
  service_->Stop({{5, 0}});
  EXPECT_EQ(Next<RanksGone>().ranks.size(), 1u);
  OpenWorld(6);
  EXPECT_EQ(third.Next(), 6);
  const auto attended = Next<RankAttended>();
  EXPECT_EQ(attended.generation, 6u);
  EXPECT_TRUE(attended.elastic);
}

TEST_F(AttachedRanksTest, BadHellosAreRefused) {
  struct {
    uint32_t local_rank;
    uint64_t generation;
    grpc::StatusCode expect;
  } const kRows[] = {{2, 0, grpc::StatusCode::INVALID_ARGUMENT},
                     {UINT32_MAX, 0, grpc::StatusCode::INVALID_ARGUMENT},
                     {0, 4, grpc::StatusCode::ABORTED},
                     {0, 6, grpc::StatusCode::ABORTED}};
  OpenWorld(5);
  for (const auto& row : kRows) {
    Attached rank(*stub_, row.local_rank, 11, row.generation);
    EXPECT_EQ(rank.Next(), 0);
    EXPECT_EQ(rank.End(), row.expect);
  }
}

}  // namespace
}  // namespace rollcall
