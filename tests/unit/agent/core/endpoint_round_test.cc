#include "client/agent/core/endpoint_round.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/link/named_leader.h"

namespace rollcall {
namespace {

// One letter an attempt: what was found at the endpoint that is next. `n`
// nobody, `s` a stranger, `w` the daemon, whose stream then breaks. The answer
// tells after which attempt, from 1, hope is lost; 0: never.
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
      // A stranger at the only address is the end; nobody there may come yet.
      {1, "s", 1},
      {1, "nnnnnnnnnn", 0},
      {1, "nns", 3},
      // Behind a stranger's address there may be the daemon's.
      {2, "sn", 2},
      {2, "ns", 2},
      {2, "ss", 2},
      {2, "nnnnnnnn", 0},
      {2, "nnns", 4},
      {3, "nsn", 3},
      {3, "snn", 3},
      {3, "nnn", 0},
      // It was found: whoever else answers later is waited out.
      {1, "wsss", 0},
      {2, "swnsnsns", 0},
      {2, "nwssss", 0},
      // None at all.
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
  // What it was given first.
  leader.Hear(Names({"a:1", "b:2", "c:3"}));
  EXPECT_EQ(Dialled(leader), "b:2 a:1 c:3 ");
  EXPECT_EQ(Dialled(leader), "");
  leader.Hear(Names({"a:1"}));
  leader.Hear(Names({"c:3", "no port", "", "d:0", "e:4"}));
  EXPECT_EQ(Dialled(leader), "c:3 e:4 ");
  // Nobody leads yet: what was known is of no use any more.
  leader.Hear(Names({"a:1"}));
  leader.Hear(Names({}));
  EXPECT_EQ(Dialled(leader), "");
  // Another refusal says nothing of a leader.
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
