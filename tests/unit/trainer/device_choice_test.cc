#include "trainer/device_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

constexpr DeviceKind kAuto = DeviceKind::kAuto;
constexpr DeviceKind kCpu = DeviceKind::kCpu;
constexpr DeviceKind kCuda = DeviceKind::kCuda;
using Gpus = std::vector<std::string>;
const Gpus kTwo = {"A", "B"};

TEST(DeviceChoice, Table) {
  const struct {
    const char* what;
    std::vector<DeviceOffer> offers;
    const char* expected;  // By rank: the GPU, "cpu", "!" if all are taken.
  } kRows[] = {
      {"each rank of a machine has its own",
       {{kAuto, "", kTwo, ""}, {kAuto, "", kTwo, ""}},
       "A B"},
      {"two machines", {{kAuto, "", kTwo, ""}, {kAuto, "", {"C"}, ""}}, "A C"},
      {"containers that see one each",
       {{kCuda, "", {"B"}, ""}, {kCuda, "", {"A"}, ""}},
       "B A"},
      {"one that sees fewer leaves the others to the next",
       {{kCuda, "", {"B"}, ""}, {kCuda, "", kTwo, ""}},
       "B A"},
      {"a survivor keeps its GPU, whatever its rank is now",
       {{kAuto, "", kTwo, ""}, {kAuto, "", kTwo, "A"}},
       "B A"},
      {"more ranks than GPUs train on CPUs",
       {{kAuto, "", {"A"}, ""}, {kAuto, "", {"A"}, ""}},
       "cpu !cpu"},
      {"but not if GPUs are demanded",
       {{kCuda, "", {"A"}, ""}, {kCuda, "", {"A"}, ""}},
       "A !cpu"},
      {"nor if one is in use: then the newcomer has none",
       {{kAuto, "", {"A"}, "A"}, {kAuto, "", {"A"}, ""}},
       "A !cpu"},
      {"hosts that NCCL takes for two share a GPU",
       {{kCuda, "h0", {"A"}, ""}, {kCuda, "h1", {"A"}, ""}},
       "A A"},
      {"a machine without GPUs",
       {{kAuto, "", {"A"}, ""}, {kAuto, "", {}, ""}},
       "A cpu"},
      {"a rank that wants the CPU takes no GPU",
       {{kCpu, "", {"A"}, ""}, {kAuto, "", {"A"}, ""}},
       "cpu A"},
      {"who joins survivors on CPUs takes one, too",
       {{kAuto, "", {"A"}, "cpu"}, {kAuto, "", {"A"}, ""}},
       "cpu cpu"},
      {"but not if it demands a GPU",
       {{kAuto, "", {"A"}, "cpu"}, {kCuda, "", {"A"}, ""}},
       "cpu A"},
      {"no rank", {}, ""},
  };
  for (const auto& row : kRows) {
    std::vector<std::string> got;
    for (const DeviceChoice& choice : ChooseDevices(row.offers)) {
      got.push_back((choice.all_taken ? "!" : "") + choice.gpu.value_or("cpu"));
    }
    EXPECT_EQ(absl::StrJoin(got, " "), row.expected) << row.what;
  }
}

TEST(DeviceChoice, OffersAreDecodedAsTheyWere) {
  const DeviceOffer offer = {kCuda, "host\n7", kTwo, "B"};
  const auto decoded = DeviceOffer::Decode(offer.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->wanted, kCuda);
  EXPECT_EQ(decoded->host, "host 7");
  EXPECT_EQ(decoded->gpus, kTwo);
  EXPECT_EQ(decoded->held, "B");
  const auto bare = DeviceOffer::Decode(DeviceOffer().Encode());
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_TRUE(bare->gpus.empty());
  // The value of an exchange has at most 4 KiB.
  const DeviceOffer large = {kAuto, std::string(500, 'h'),
                             Gpus(100, std::string(40, 'u')),
                             std::string(40, 'u')};
  EXPECT_LE(large.Encode().size(), 4096u);
  EXPECT_EQ(DeviceOffer::Decode(large.Encode())->gpus.size(),
            DeviceOffer::kGpusMax);
}

TEST(DeviceChoice, WhatIsNoOfferIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("auto"), std::string("gpu\n\n"),
        "auto\n\n" + std::string(70, '\n')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DeviceOffer::Decode(text).status()));
  }
}

}  // namespace
}  // namespace rollcall
