#include "daemon/security/failure_backoff.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

TEST(FailureBackoff, EachWaitsTwiceAsLongAsTheOneBefore) {
  FailureBackoff backoff;
  const struct {
    double at;
    const char* address;
    double wait_s;
  } rows[] = {
      // The first failures are not delayed, because people mistype.
      {0, "a", 0},
      {1, "a", 0},
      {2, "a", 0},
      {3, "a", 0.1},
      {4, "a", 0.2},
      // Other addresses are not delayed.
      {4, "b", 0},
      {5, "a", 0.4},
      {6, "a", 0.8},
      {7, "a", 0.8},
      {8, "a", 0.8},
      {9, "a", 0.8},
      {67, "a", 0.8},
      // There was exactly one minute without a failure.
      {126.5, "a", 0.8},
      {186.5, "a", 0},
      {187, "a", 0},
      {188, "a", 0},
      {189, "a", 0.1},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(backoff.Failed(row.address, At(row.at)),
              absl::Seconds(row.wait_s))
        << row.address << " at " << row.at;
  }
  EXPECT_EQ(backoff.failures("a"), 4);
  EXPECT_EQ(backoff.failures("b"), 0) << "forgotten";
  EXPECT_EQ(backoff.failures("c"), 0);
}

TEST(FailureBackoff, DoesNotOverflow) {
  FailureBackoff backoff;
  absl::Duration wait;
  for (int i = 0; i < 100'000; ++i) wait = backoff.Failed("a", At(1));
  EXPECT_EQ(wait, FailureBackoff::kDelayMax);
  EXPECT_EQ(backoff.addresses(), 1u);
}

TEST(FailureBackoff, RemembersSoManyAndTheLatest) {
  FailureBackoff backoff;
  const size_t many = FailureBackoff::kAddressesMax;
  for (size_t i = 0; i < 3 * many; ++i) {
    backoff.Failed(absl::StrCat("a", i), At(static_cast<double>(i) / 1e6));
    EXPECT_LE(backoff.addresses(), many);
  }
  EXPECT_EQ(backoff.addresses(), many);
  EXPECT_EQ(backoff.failures("a0"), 0);
  EXPECT_EQ(backoff.failures(absl::StrCat("a", 3 * many - 1)), 1);
}

TEST(FailureBackoff, AFullTableForgetsNobodyForOneItKnows) {
  FailureBackoff backoff;
  const size_t many = FailureBackoff::kAddressesMax;
  for (size_t i = 0; i < many; ++i) {
    backoff.Failed(absl::StrCat("a", i), At(static_cast<double>(i) / 1e6));
  }
  // The oldest address fails again twice.
  for (int i = 2; i < 6; ++i) {
    backoff.Failed("a0", At(1));
    EXPECT_EQ(backoff.failures("a0"), i);
  }
  EXPECT_EQ(backoff.addresses(), many);
  EXPECT_EQ(backoff.failures("a1"), 1);
}

TEST(FailureBackoff, TimeEmptiesIt) {
  FailureBackoff backoff;
  for (int i = 0; i < 100; ++i) backoff.Failed(absl::StrCat("a", i), At(0));
  EXPECT_EQ(backoff.addresses(), 100u);
  backoff.Failed("b", At(60));
  EXPECT_EQ(backoff.addresses(), 1u);
}

}  // namespace
}  // namespace rollcall
