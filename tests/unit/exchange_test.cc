#include "daemon/core/exchange.h"

#include <gtest/gtest.h>

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

TEST(Exchanges, IsBounded) {
  Exchanges exchanges;
  exchanges.Begin(1, {1, 1});
  for (size_t i = 0; i < Limits::exchanges_open_max; ++i) {
    ASSERT_TRUE(exchanges.In(0, InOf(1, absl::StrCat(i), {"x"})).ok());
  }
  EXPECT_EQ(exchanges.In(0, InOf(1, "more", {"x"})).status().code(),
            absl::StatusCode::kResourceExhausted);
  // Kept answers go, oldest first; a forgotten key begins anew.
  for (size_t i = 0; i < Limits::exchanges_open_max; ++i) {
    ASSERT_TRUE(exchanges.In(1, InOf(1, absl::StrCat(i), {"y"}))->complete);
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(exchanges.In(0, InOf(1, absl::StrCat("n", i), {"x"})).ok());
    ASSERT_TRUE(
        exchanges.In(1, InOf(1, absl::StrCat("n", i), {"x"}))->complete);
  }
  EXPECT_EQ(exchanges.In(1, InOf(1, "0", {"y"}))->out, nullptr);
  EXPECT_TRUE(exchanges.In(1, InOf(1, "5", {"y"}))->repeated);
}

}  // namespace
}  // namespace rollcall
