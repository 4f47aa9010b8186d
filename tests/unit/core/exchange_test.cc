#include "daemon/core/exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

v1::ExchangeIn InOf(uint64_t generation, const std::string& key,
                    std::vector<std::string> values) {
  v1::ExchangeIn in;
  in.set_generation(generation);
  in.set_key(key);
  for (std::string& value : values) in.add_values(std::move(value));
  return in;
}

TEST(Exchanges, OrdersValuesByRankWhateverOrderTheyComeIn) {
  Exchanges exchanges;
  exchanges.Begin(3, {2, 1});
  EXPECT_EQ(exchanges.In(1, InOf(3, "k", {"c"}))->out, nullptr);
  const auto result = exchanges.In(0, InOf(3, "k", {"a", "b"}));
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->complete);
  EXPECT_EQ(result->out->values(0), "a");
  EXPECT_EQ(result->out->values(1), "b");
  EXPECT_EQ(result->out->values(2), "c");
  EXPECT_EQ(exchanges.open(), 0u);
}

TEST(Exchanges, RefusesWhatDoesNotFit) {
  Exchanges exchanges;
  exchanges.Begin(3, {2, 1});
  EXPECT_EQ(exchanges.In(0, InOf(2, "k", {"a", "b"})).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(exchanges.In(0, InOf(3, "k", {"a"})).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(exchanges.In(0, InOf(3, "k", {"a", "b"})).ok());
  EXPECT_EQ(exchanges.In(0, InOf(3, "k", {"a", "x"})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Exchanges, KeptAnswersGoOldestFirst) {
  Exchanges exchanges;
  exchanges.Begin(1, {1, 1});
  for (size_t i = 0; i < Limits::exchanges_kept + 3; ++i) {
    ASSERT_TRUE(exchanges.In(0, InOf(1, absl::StrCat(i), {"x"})).ok());
    ASSERT_TRUE(exchanges.In(1, InOf(1, absl::StrCat(i), {"y"}))->complete);
  }
  // The exchange of a forgotten key begins again.
  EXPECT_EQ(exchanges.In(1, InOf(1, "0", {"y"}))->out, nullptr);
  const auto again = exchanges.In(1, InOf(1, "5", {"y"}));
  EXPECT_NE(again->out, nullptr);
  EXPECT_FALSE(again->complete);
}

TEST(Exchanges, OneNodeLeavesRoomForTheOthers) {
  Exchanges exchanges;
  exchanges.Begin(1, {1, 1, 1});
  // Node 0 opens far more keys than all nodes could need, and no node completes
  // them.
  size_t taken = 0;
  absl::Status refused;
  for (int i = 0; i < 1000; ++i) {
    const auto result = exchanges.In(0, InOf(1, absl::StrCat("a", i), {"x"}));
    if (result.ok()) {
      ++taken;
    } else {
      refused = result.status();
    }
  }
  EXPECT_EQ(taken, Limits::exchanges_open_per_node_max);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  // A value for an open key opens no other key, so it is accepted.
  EXPECT_TRUE(exchanges.In(0, InOf(1, "a0", {"x"})).ok());
  // The other nodes can open as many keys of their own, and node 0 completes
  // those.
  for (size_t i = 0; i < Limits::exchanges_open_per_node_max; ++i) {
    ASSERT_TRUE(exchanges.In(1, InOf(1, absl::StrCat("b", i), {"y"})).ok());
    ASSERT_TRUE(exchanges.In(2, InOf(1, absl::StrCat("c", i), {"z"})).ok());
  }
  ASSERT_TRUE(exchanges.In(0, InOf(1, "b0", {"x"})).ok());
  EXPECT_TRUE(exchanges.In(2, InOf(1, "b0", {"z"}))->complete);
  // A completed key makes room for another key.
  ASSERT_TRUE(exchanges.In(1, InOf(1, "a0", {"y"})).ok());
  ASSERT_TRUE(exchanges.In(2, InOf(1, "a0", {"z"}))->complete);
  EXPECT_TRUE(exchanges.In(0, InOf(1, "another", {"x"})).ok());
}

TEST(Exchanges, OneNodeTakesFewOfTheBytes) {
  // One node may use at most a sixteenth of the bytes.
  constexpr uint32_t kRanks = Limits::ranks_per_node_max;
  Exchanges exchanges;
  exchanges.Begin(1, {kRanks, 1});
  const std::vector<std::string> most(
      kRanks, std::string(Limits::exchange_value_bytes_max, 'x'));
  for (size_t i = 0; i < Limits::exchanges_open_per_node_max; ++i) {
    ASSERT_TRUE(exchanges.In(0, InOf(1, absl::StrCat("a", i), most)).ok());
  }
  EXPECT_TRUE(exchanges.In(1, InOf(1, "b", {"y"})).ok());
}

}  // namespace
}  // namespace rollcall
