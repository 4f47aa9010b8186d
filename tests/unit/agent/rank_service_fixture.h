// A RankService on a socket of its own, and the events that it posts.
#ifndef ROLLCALL_TESTS_UNIT_AGENT_RANK_SERVICE_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_AGENT_RANK_SERVICE_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service.h"
#include "daemon/base/inbox.h"
#include "tests/unit/agent/rank_side.h"

namespace rollcall {

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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_AGENT_RANK_SERVICE_FIXTURE_H_
