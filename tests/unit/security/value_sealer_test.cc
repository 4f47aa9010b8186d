#include "daemon/security/secrets/value_sealer.h"

#include <gtest/gtest.h>

#include <string>

namespace rollcall {
namespace {

ValueSealer Sealer(char digit) {
  return ValueSealer(*SharedSecret::Parse(std::string(64, digit)));
}

constexpr char kName[] = "/rollcall/t/jobs/train";

TEST(ValueSealer, OpensWhatItHasSealed) {
  const ValueSealer sealer = Sealer('1');
  for (const std::string& value :
       {std::string(), std::string("x"), std::string(1 << 20, '\0')}) {
    const std::string sealed = sealer.Seal(kName, value);
    EXPECT_EQ(sealed.size(), value.size() + ValueSealer::kBytesAdded);
    // Another process with the same secret opens the value.
    const auto opened = Sealer('1').Open(kName, sealed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(*opened, value);
  }
}

TEST(ValueSealer, NothingOfTheValueShowsAndNoTwoAreAlike) {
  const ValueSealer sealer = Sealer('1');
  const std::string one = sealer.Seal(kName, "the secret value");
  EXPECT_EQ(one.find("secret"), std::string::npos);
  EXPECT_NE(one, sealer.Seal(kName, "the secret value"));
}

TEST(ValueSealer, EveryFlippedBitIsSeen) {
  const ValueSealer sealer = Sealer('1');
  const std::string good = sealer.Seal(kName, "value");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(absl::IsFailedPrecondition(sealer.Open(kName, bad).status()))
        << bit;
  }
}

TEST(ValueSealer, WhatIsNotItsOwnIsRefused) {
  const ValueSealer sealer = Sealer('1');
  const std::string good = sealer.Seal(kName, "value");
  const struct {
    const char* what;
    std::string name;
    std::string sealed;
  } rows[] = {
      {"moved to another key", "/rollcall/t/jobs/other", good},
      {"moved to another state", "/rollcall/u/jobs/train", good},
      {"of another secret", kName, Sealer('2').Seal(kName, "value")},
      {"empty", kName, ""},
      {"plain", kName, "value"},
      {"plain and long", kName, std::string(100, 'v')},
      {"the magic alone", kName, "rcs1"},
      {"longer by a byte", kName, good + "x"},
  };
  for (const auto& row : rows) {
    const auto opened = sealer.Open(row.name, row.sealed);
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << row.what;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(sealer.Open(kName, good.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace rollcall
