// The texts of sysfs files and of libibverbs errors.
#include <errno.h>

#include "client/facts/devices/infiniband.h"
#include "client/facts/devices/verbs.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

using Why = Unusable::Why;

TEST(InfinibandText, StateRateAndGid) {
  const std::pair<const char*, const char*> kStates[] = {
      {"4: ACTIVE", "ACTIVE"},
      {"1: DOWN", "DOWN"},
      {"5: ACTIVE_DEFER", "ACTIVE_DEFER"},
      {"7: Phy Test", "Phy Test"},
      {"0: <unknown>", ""},
      {"9: UNKNOWN", ""},
      {"ACTIVE", ""},
      {"", ""},
      {": ACTIVE", ""},
      {"x: ACTIVE", ""}};
  for (const auto& [text, expect] : kStates) {
    EXPECT_EQ(StateWord(text), expect) << text;
  }
  const std::pair<const char*, uint32_t> kRates[] = {
      {"100 Gb/sec (4X EDR)", 100},
      {"2.5 Gb/sec (1X SDR)", 2},
      {"800 Gb/sec (4X XDR)", 800},
      {"56 Gb/sec", 56},
      {"-1 Gb/sec", 0},
      {"1e300 Gb/sec", 0},
      {"100 Mb/sec", 0},
      {"100", 0},
      {"nan Gb/sec", 0},
      {"", 0}};
  for (const auto& [text, expect] : kRates) {
    EXPECT_EQ(RateGbps(text), expect) << text;
  }
  const std::pair<const char*, const char*> kGids[] = {
      {"fe80:0000:0000:0000:a088:c203:0046:2f40\n", "fe80::a088:c203:46:2f40"},
      {"0000:0000:0000:0000:0000:ffff:0a00:0001", "::ffff:10.0.0.1"},
      {"0000:0000:0000:0000:0000:0000:0000:0000", ""},
      // A GID with only a prefix is not set.
      {"fe80:0000:0000:0000:0000:0000:0000:0000", ""},
      {"fe80", ""},
      {"", ""}};
  for (const auto& [text, expect] : kGids) {
    EXPECT_EQ(GidText(text), expect) << text;
  }
}

TEST(VerbsText, AsTheKernelWritesIt) {
  EXPECT_EQ(VerbsState(4), "ACTIVE");
  EXPECT_EQ(VerbsState(6), "");
  EXPECT_EQ(VerbsPhysicalState(5), "LinkUp");
  EXPECT_EQ(VerbsPhysicalState(0), "");
  struct {
    uint8_t width;
    uint8_t speed;
    uint32_t expect;
  } const kRates[] = {
      {2, 128, 400}, {2, 32, 100}, {1, 1, 2},  {8, 16, 168}, {16, 64, 100},
      {2, 8, 40},    {4, 4, 80},   {2, 2, 20}, {2, 0, 0},    {3, 32, 0},
  };
  for (const auto& row : kRates) {
    EXPECT_EQ(VerbsRateGbps(row.width, row.speed), row.expect)
        << int{row.width} << " " << int{row.speed};
  }
  EXPECT_EQ(VerbsMtuBytes(5), 4096u);
  EXPECT_EQ(VerbsMtuBytes(1), 256u);
  EXPECT_EQ(VerbsMtuBytes(0), 0u);
  EXPECT_EQ(VerbsMtuBytes(6), 0u);
  EXPECT_EQ(OpenFailure(EACCES, 0).why, Why::kNotPermitted);
  EXPECT_EQ(OpenFailure(ENOMEM, 65536).why, Why::kMemlock);
  EXPECT_EQ(OpenFailure(ENOMEM, UINT64_MAX).why, Why::kOther);
  EXPECT_EQ(OpenFailure(0, 0).why, Why::kOther);
}

}  // namespace
}  // namespace rollcall
