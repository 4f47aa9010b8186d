#include "client/agent/endpoint_round.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace rollcall
