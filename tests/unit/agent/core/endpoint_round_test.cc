#include "client/agent/core/endpoint_round.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/link/named_leader.h"

namespace rollcall {
namespace {

// Each letter is one attempt, and says what the next endpoint was: `n` nothing,
// `s` another daemon, `w` our daemon, whose stream then breaks. Returns the
// attempt, from 1, after which the agent gives up; 0: never.
size_t LostAfter(size_t endpoints, const std::string& found) {
  EndpointRound round(endpoints);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(round.Next(), endpoints == 0 ? 0 : i % endpoints);
    if (found[i] == 'w') round.Welcomed();
    if (round.Failed(found[i] == 's')) return i + 1;
  }
  return 0;
}

TEST(EndpointRound, HopeIsLostOnceAllWereTriedAndOneIsAStrangers) {
  const struct {
    size_t endpoints;
    const char* found;
    size_t lost_after;
  } rows[] = {
      // Another daemon at the only address ends the search. If nothing is
      // there, a daemon may still start.
      {1, "s", 1},
      {1, "nnnnnnnnnn", 0},
      {1, "nns", 3},
      // Our daemon may be at the other address.
      {2, "sn", 2},
      {2, "ns", 2},
      {2, "ss", 2},
      {2, "nnnnnnnn", 0},
      {2, "nnns", 4},
      {3, "nsn", 3},
      {3, "snn", 3},
      {3, "nnn", 0},
      // Our daemon was found once, so any other daemon that answers later is
      // ignored.
      {1, "wsss", 0},
      {2, "swnsnsns", 0},
      {2, "nwssss", 0},
      // There are no endpoints.
      {0, "nnnn", 0},
      {0, "s", 0},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(LostAfter(row.endpoints, row.found), row.lost_after)
        << row.endpoints << " " << row.found;
  }
}

TEST(EndpointRound, OneThatWasNobodysMayBecomeAStrangers) {
  EndpointRound round(2);
  round.Next();
  EXPECT_FALSE(round.Failed(true));
  round.Next();
  round.Welcomed();
  EXPECT_FALSE(round.Failed(false));
  EXPECT_EQ(round.Next(), 0u) << "the round goes on";
}

v1::Refusal Names(const std::vector<std::string>& endpoints) {
  v1::Refusal refusal;
  refusal.set_code(v1::REFUSAL_CODE_NOT_LEADER);
  for (const std::string& e : endpoints) refusal.add_leader_endpoints(e);
  return refusal;
}

std::string Dialled(NamedLeader& leader) {
  std::string all;
  while (const std::optional<std::string> next = leader.Next()) {
    absl::StrAppend(&all, *next, " ");
  }
  return all;
}

TEST(NamedLeaderTest, IsDialledOnceAndTakenAtItsWordNoFurther) {
  NamedLeader leader({"b:2"}, /*loopback_only=*/false);
  EXPECT_EQ(Dialled(leader), "");
  // Endpoints that the user gave are dialled first.
  leader.Hear(Names({"a:1", "b:2", "c:3"}));
  EXPECT_EQ(Dialled(leader), "b:2 a:1 c:3 ");
  EXPECT_EQ(Dialled(leader), "");
  leader.Hear(Names({"a:1"}));
  leader.Hear(Names({"c:3", "no port", "", "d:0", "e:4"}));
  EXPECT_EQ(Dialled(leader), "c:3 e:4 ");
  // No daemon leads yet, so the earlier endpoints are of no use.
  leader.Hear(Names({"a:1"}));
  leader.Hear(Names({}));
  EXPECT_EQ(Dialled(leader), "");
  // Another refusal does not name a leader.
  v1::Refusal other = Names({"a:1"});
  other.set_code(v1::REFUSAL_CODE_SLOW);
  leader.Hear(other);
  EXPECT_EQ(Dialled(leader), "");
  leader.Hear(Names(std::vector<std::string>(100, "a:1")));
  size_t count = 0;
  while (leader.Next().has_value()) ++count;
  EXPECT_EQ(count, NamedLeader::kEndpointsMax);
}

TEST(NamedLeaderTest, WithoutTlsOnLoopbackAlone) {
  NamedLeader leader({}, /*loopback_only=*/true);
  leader.Hear(Names({"10.0.0.1:1", "127.0.0.1:7", "evil:2", "[::1]:8"}));
  EXPECT_EQ(Dialled(leader), "127.0.0.1:7 [::1]:8 ");
}

}  // namespace
}  // namespace rollcall
