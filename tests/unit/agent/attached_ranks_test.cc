// The rank service of an agent that starts no ranks, over its real Unix socket.
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
#include "daemon/base/inbox.h"
#include "tests/unit/agent/rank_side.h"

namespace rollcall {
namespace {

// The process's side of a connection.
struct Attached {
  Attached(const std::string& path, uint32_t local_rank, int32_t pid,
           uint64_t generation = 0)
      : side(path) {
    side.Hello(local_rank, true, pid, generation);
  }
  // The code with which the agent ended the connection. OK: no code.
  absl::StatusCode End() { return side.Finish().code(); }
  void Stopped(uint64_t generation) {
    v1::RankMessage message;
    message.mutable_stopped()->set_generation(generation);
    side.Write(message);
  }
  void Finished(uint32_t code, const std::string& reason,
                bool permanent = false) {
    v1::RankMessage message;
    message.mutable_finished()->set_permanent(permanent);
    message.mutable_finished()->set_started_again(!permanent);
    message.mutable_finished()->set_exit_code(code);
    message.mutable_finished()->set_reason(reason);
    side.Write(message);
  }
  // The generation of the next world, or minus the generation of the next
  // abort. 0: the connection has ended.
  int64_t Next() {
    v1::AgentReply reply;
    if (!side.Read(&reply)) return 0;
    return reply.has_abort()
               ? -static_cast<int64_t>(reply.abort().generation())
               : static_cast<int64_t>(reply.world().world().generation());
  }

  RankSide side;
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
    path_ = folder_ + "/s";
  }
  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Opens a world of one node with two ranks.
  void OpenWorld(uint64_t generation,
                 const std::vector<uint32_t>& waiting = {}) {
    v1::World world;
    world.set_generation(generation);
    world.set_world_size(2);
    world.add_members()->set_ranks(2);
    service_->SetWorld(world, v1::WorldCommit(), 0, waiting,
                       {{"GLOO_SOCKET_IFNAME", "eth1"}});
  }
  void EndWorld(uint64_t generation) {
    service_->EndWorld(generation, v1::REASON_CODE_RANK_EXIT, "over");
  }

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

TEST_F(AttachedRanksTest, AProcessGetsItsWorldWheneverItComes) {
  Attached early(path_, 1, 11);
  OpenWorld(5);
  EXPECT_EQ(early.Next(), 5);
  EXPECT_EQ(Next<RankAttended>().local_rank, 1u);
  Attached late(path_, 0, 12);
  EXPECT_EQ(late.Next(), 5);
  EXPECT_EQ(Next<RankAttended>().local_rank, 0u);
}

TEST_F(AttachedRanksTest, AProcessThatIsGoneIsAFailedRank) {
  OpenWorld(5);
  auto rank = std::make_unique<Attached>(path_, 1, 4711);
  ASSERT_EQ(rank->Next(), 5);
  rank.reset();
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.generation, 5u);
  EXPECT_EQ(ended.local_rank, 1u);
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(ended.gone);
  EXPECT_TRUE(absl::StrContains(ended.stderr_tail, "4711"))
      << ended.stderr_tail;
  // This process enters the next world.
  Attached again(path_, 1, 12);
  EndWorld(5);
  service_->Stop({{5, 1}});
  EXPECT_EQ(Next<RanksGone>().ranks[0].local_rank, 1u);
  OpenWorld(6);
  EXPECT_EQ(again.Next(), 6);
}

TEST_F(AttachedRanksTest, ItGetsTheSettingsOfTheNetworkPlan) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  v1::AgentReply reply;
  ASSERT_TRUE(rank.side.Read(&reply));
  ASSERT_EQ(reply.world().network_size(), 1);
  EXPECT_EQ(reply.world().network(0).name(), "GLOO_SOCKET_IFNAME");
  EXPECT_EQ(reply.world().network(0).value(), "eth1");
}

TEST_F(AttachedRanksTest, AProcessSaysItsCode) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  rank.Finished(3, "no data", /*permanent=*/true);
  rank.side.WritesDone();
  EXPECT_EQ(rank.Next(), 0);
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(ended.permanent);
  EXPECT_FALSE(ended.started_again);
  EXPECT_FALSE(ended.gone);
  EXPECT_EQ(ended.stderr_tail, "no data");
}

TEST_F(AttachedRanksTest, ACodeThatNoProcessHasIsRefused) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  rank.Finished(256, "");
  EXPECT_EQ(rank.Next(), 0);
  EXPECT_EQ(rank.End(), absl::StatusCode::kInvalidArgument);
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(ended.gone);
  // The reason is also in the text for those who read about the failure.
  EXPECT_TRUE(absl::StrContains(ended.error_file, "process 11"))
      << ended.error_file;
  EXPECT_TRUE(absl::StrContains(ended.error_file, "exit_code: expected"))
      << ended.error_file;
}

TEST_F(AttachedRanksTest, BytesOfAnotherProtocolAreAReason) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  rank.side.WriteBytes("PRI * HTTP/2.0");
  EXPECT_EQ(rank.End(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(
      Next<RankEnded>().error_file,
      absl::StrCat("expected at most ", kRankMessageBytesMax)));
}

TEST_F(AttachedRanksTest, AProcessWithoutAPlaceIsAnswered) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  Attached second(path_, 0, 12);
  second.side.Exchange(1, 5, "k", "v");
  v1::AgentReply reply;
  ASSERT_TRUE(second.side.Read(&reply));
  EXPECT_EQ(reply.exchanged().code(),
            static_cast<uint32_t>(absl::StatusCode::kAborted));
}

TEST_F(AttachedRanksTest, AProcessThatDoesNotAnswerKeepsItsConnection) {
  OpenWorld(5);
  auto rank = std::make_unique<Attached>(path_, 0, 11);
  ASSERT_EQ(rank->Next(), 5);
  EndWorld(5);
  EXPECT_EQ(rank->Next(), -5);
  service_->Stop({{5, 0}});
  // The process is fenced.
  rank->side.Exchange(1, 5, "k", "v");
  v1::AgentReply reply;
  ASSERT_TRUE(rank->side.Read(&reply));
  EXPECT_EQ(reply.exchanged().code(),
            static_cast<uint32_t>(absl::StatusCode::kAborted));
  // The agent does not report the rank as gone before it answers or is gone.
  service_->Stop({{5, 1}});
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 1}}));
  rank.reset();
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 0}}));
}

TEST_F(AttachedRanksTest, ALateAnswerEndsTheConnection) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  EndWorld(5);
  EXPECT_EQ(rank.Next(), -5);
  service_->Stop({{5, 0}});
  rank.Stopped(5);
  EXPECT_EQ(rank.Next(), 0);
  EXPECT_EQ(rank.End(), absl::StatusCode::kAborted);
  EXPECT_EQ(Next<RanksGone>().ranks, (std::vector<RankIncarnation>{{5, 0}}));
}

TEST_F(AttachedRanksTest, AProcessThatWaitsGetsTheNextWorldOrAnEnd) {
  OpenWorld(5);
  Attached rank(path_, 0, 11);
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
  Attached rank(path_, 0, 11);
  ASSERT_EQ(rank.Next(), 5);
  Attached second(path_, 0, 12);
  const auto doubled = Next<RankDoubled>();
  EXPECT_EQ(doubled.local_rank, 0u);
  EXPECT_EQ(doubled.pid, 12);
  EXPECT_EQ(doubled.connected_pid, 11);
  // A message of the second process has no effect, so it does not end the first
  // one's run.
  second.Finished(0, "");
  second.side.WritesDone();
  EXPECT_EQ(second.Next(), 0);
  Attached third(path_, 0, 13);
  EXPECT_EQ(Next<RankDoubled>().pid, 13);
  rank.Finished(4, "");
  rank.side.WritesDone();
  const auto ended = Next<RankEnded>();
  EXPECT_EQ(ended.code, 4);
  EXPECT_TRUE(ended.started_again);
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
    absl::StatusCode expect;
  } const kRows[] = {{2, 0, absl::StatusCode::kInvalidArgument},
                     {UINT32_MAX, 0, absl::StatusCode::kInvalidArgument},
                     {0, 4, absl::StatusCode::kAborted},
                     {0, 6, absl::StatusCode::kAborted}};
  OpenWorld(5);
  for (const auto& row : kRows) {
    Attached rank(path_, row.local_rank, 11, row.generation);
    EXPECT_EQ(rank.Next(), 0);
    EXPECT_EQ(rank.End(), row.expect);
  }
}

}  // namespace
}  // namespace rollcall
