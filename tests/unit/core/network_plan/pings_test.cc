#include "daemon/core/network_plan/probing/pings.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

std::string Draw(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, "/", std::hash<std::string>()(word));
  secret.resize(Limits::probe_bytes, 'x');
  return secret;
}

std::string AddressOf(size_t i) {
  return absl::StrCat("10.0.", i / 250, ".", i % 250 + 1);
}

// A world of `count` nodes that have probed each other. Node i reaches node j
// in 100 i + j microseconds, except the pairs in `unreached`, which do not
// connect. The last node has not answered.
v1::Pings PingsOfMany(size_t count,
                      const std::vector<std::pair<size_t, size_t>>& unreached) {
  v1::World world;
  std::vector<ProbeNode> nodes;
  for (size_t i = 0; i < count; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node(absl::StrCat("n", i));
    member.set_node_rank(static_cast<uint32_t>(i));
    member.set_address(AddressOf(i));
    nodes.push_back({member.node(), 1, {"10.9.9.9", AddressOf(i)}, 40000});
  }
  Probing probing;
  const auto asked =
      probing.Begin(nodes, Draw, absl::UnixEpoch(), absl::Seconds(2));
  std::map<std::string, std::string> answers;
  for (const auto& [name, probe] : asked) {
    answers[name] = AnswerAt(probe, AddressOf(std::stoul(name.substr(1))));
  }
  for (const auto& [name, probe] : asked) {
    if (name == nodes.back().node) continue;
    v1::Probed probed;
    probed.set_probe(probe.probe());
    for (const v1::ProbeTarget& target : probe.targets()) {
      const size_t from = std::stoul(name.substr(1));
      const size_t to = std::stoul(target.node().substr(1));
      v1::ProbeResult& result = *probed.add_results();
      result.set_node(target.node());
      result.set_address(AddressOf(to));
      if (std::find(unreached.begin(), unreached.end(), std::pair(from, to)) !=
          unreached.end()) {
        result.set_error("refused");
        continue;
      }
      result.set_answer(answers.at(target.node()));
      ToProto(absl::Microseconds(static_cast<int64_t>(100 * from + to)),
              result.mutable_round_trip());
    }
    probing.Take(name, probed, absl::UnixEpoch());
  }
  return PingsOf(world, probing, absl::UnixEpoch() + absl::Seconds(7));
}

TEST(Pings, ThoseThatDoNotConnectComeFirstThenTheSlowest) {
  const v1::Pings pings = PingsOfMany(3, {{0, 2}});
  EXPECT_EQ(pings.nodes_size(), 3);
  // Nothing is known about the node that has not answered.
  ASSERT_EQ(pings.pings_size(), 4);
  EXPECT_EQ(pings.pairs(), 4u);
  EXPECT_EQ(pings.unreached(), 1u);
  EXPECT_EQ(FromProto(pings.age()), absl::Seconds(7));
  EXPECT_FALSE(pings.pings(0).reached());
  EXPECT_EQ(pings.pings(0).error(), "refused");
  EXPECT_EQ(pings.pings(0).from(), 0u);
  EXPECT_EQ(pings.pings(0).to(), 2u);
  EXPECT_EQ(FromProto(pings.pings(1).round_trip()), absl::Microseconds(102));
  EXPECT_EQ(FromProto(pings.pings(2).round_trip()), absl::Microseconds(100));
  EXPECT_EQ(FromProto(pings.pings(3).round_trip()), absl::Microseconds(1));
}

TEST(Pings, ManyAreCounted) {
  const v1::Pings pings = PingsOfMany(600, {{1, 2}});
  EXPECT_GT(pings.pairs(), Limits::pings_shown_max);
  EXPECT_EQ(pings.pings_size(), static_cast<int>(Limits::pings_shown_max));
  EXPECT_EQ(pings.unreached(), 1u);
  EXPECT_FALSE(pings.pings(0).reached());
}

TEST(Pings, NothingWasProbed) {
  const v1::Pings pings = PingsOf(v1::World(), Probing(), absl::UnixEpoch());
  EXPECT_EQ(pings.pairs(), 0u);
  EXPECT_FALSE(pings.has_age());
}

}  // namespace
}  // namespace rollcall
