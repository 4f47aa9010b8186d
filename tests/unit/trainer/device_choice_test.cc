#include "trainer/rank/device_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

TEST(DeviceChoice, WhyARankTakesTheCpu) {
  const struct {
    const char* what;
    std::vector<DeviceOffer> offers;  // Of rank 0 on.
    const char* missing;
    const char* expected;  // The beginning; empty: nothing is said.
  } kRows[] = {
      {"it has a GPU", {{kAuto, "", kTwo, ""}}, "", ""},
      {"it wants the CPU", {{kCpu, "", {}, ""}}, "no driver", ""},
      {"it demands a GPU, which is an error elsewhere",
       {{kCuda, "", {"A"}, ""}, {kCuda, "", {"A"}, "A"}},
       "",
       ""},
      {"it already trains on the CPU",
       {{kAuto, "", {"A"}, "cpu"}, {kAuto, "", {"A"}, ""}},
       "",
       ""},
      {"there is no driver", {{kAuto, "", {}, ""}}, "no driver", "no driver"},
      {"no GPU, for no known reason", {{kAuto, "", {}, ""}}, "", "it sees no"},
      {"more ranks than GPUs: all take the CPU",
       {{kAuto, "", {"A"}, ""}, {kAuto, "", {"A"}, ""}},
       "",
       "there is no GPU left for r1; start one rank a GPU"},
      {"survivors have all GPUs",
       {{kAuto, "", {"A"}, ""}, {kAuto, "", {"A"}, "A"}},
       "",
       "there is no GPU left for r0;"},
      {"survivors are on CPUs",
       {{kAuto, "", {"A"}, ""}, {kAuto, "", {"A"}, "cpu"}},
       "",
       "r1 computes on the CPU already"},
      {"its own reason comes first",
       {{kAuto, "", {}, ""}, {kAuto, "", {"A"}, ""}, {kAuto, "", {"A"}, ""}},
       "no driver",
       "no driver"},
  };
  for (const auto& row : kRows) {
    const std::string why =
        WhyCpu(row.offers, ChooseDevices(row.offers), 0, row.missing,
               [](int rank) { return absl::StrCat("r", rank); });
    EXPECT_EQ(why.substr(0, std::string(row.expected).size()), row.expected)
        << row.what;
    EXPECT_EQ(why.empty(), std::string(row.expected).empty())
        << row.what << ": " << why;
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
  EXPECT_TRUE(decoded->models.empty());
  const auto bare = DeviceOffer::Decode(DeviceOffer().Encode());
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_TRUE(bare->gpus.empty());
  // The value of an exchange has at most 4 KiB.
  DeviceOffer large = {
      kAuto, std::string(500, 'h'), {}, std::string(40, 'u'), {}};
  for (int i = 0; i < 100; ++i) {
    large.gpus.push_back(absl::StrFormat("%040d", i));
    large.models[large.gpus[i]] =
        absl::StrCat(i % 7, std::string(500, '\t'), i);
  }
  EXPECT_LE(large.Encode().size(), 4096u);
  const auto less = DeviceOffer::Decode(large.Encode());
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ(less->gpus.size(), DeviceOffer::kGpusMax);
  EXPECT_EQ(less->models.at(large.gpus[9]), "2" + std::string(127, ' '));
  EXPECT_FALSE(less->models.contains(large.gpus[5]));
}

TEST(DeviceChoice, ModelsAreDecodedAsTheyWere) {
  const DeviceOffer offer = {kAuto,
                             "",
                             {"A", "B", "C", "D"},
                             "",
                             {{"A", "x"}, {"B", "y (9.0)"}, {"D", "x"}}};
  const auto decoded = DeviceOffer::Decode(offer.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->gpus, offer.gpus);
  EXPECT_EQ(decoded->models, offer.models);
}

TEST(DeviceChoice, WhatIsNoOfferIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("auto"), std::string("3\tauto\n\n"),
        std::string("3\tgpu\n\n\n"), std::string("1\tauto\n\n\n"),
        std::string("3\tauto\t\n\n\n"), std::string("auto\n\n\n"),
        // The form before GPUs had models.
        std::string("auto\n\n\nA\nB"), std::string("3\tauto\n\n\nx\nA\t1"),
        std::string("3\tauto\n\n\nx\nA\t-1"),
        std::string("3\tauto\n\n\nx\nA\t0\t0"),
        std::string("3\tauto\n\n\nx\nA\tx"),
        "3\tauto\n\n\n" + std::string(70, '\n')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DeviceOffer::Decode(text).status()))
        << text;
  }
}

TEST(DeviceChoice, DifferentModelsAreNamed) {
  const struct {
    const char* what;
    // By rank: the model of its GPU; "?": unknown, "cpu": it takes no GPU.
    std::vector<const char*> ranks;
    const char* expected;
  } kRows[] = {
      {"no rank", {}, ""},
      {"one rank", {"x"}, ""},
      {"one model", {"x", "x", "x"}, ""},
      {"two nodes", {"x", "x", "y", "y"}, "x: r0 to r1; y: r2 to r3"},
      {"in turns", {"y", "x", "y", "x"}, "x: r1, r3; y: r0, r2"},
      {"three", {"y", "x", "z"}, "x: r1; y: r0; z: r2"},
      {"an unknown one is not named", {"x", "?", "x"}, ""},
      {"and ends a run", {"x", "?", "x", "y"}, "x: r0, r2; y: r3"},
      {"a CPU is not named", {"cpu", "x"}, ""},
      {"only CPUs", {"cpu", "cpu"}, ""},
      {"many runs",
       {"x", "y", "x", "y", "x", "y", "x", "y", "x", "y",
        "x", "y", "x", "y", "x", "y", "x", "x", "x", "y"},
       "x: r0, r2, r4, r6, r8, r10, r12, r14, 3 more; "
       "y: r1, r3, r5, r7, r9, r11, r13, r15, 1 more"},
  };
  for (const auto& row : kRows) {
    std::vector<DeviceOffer> offers;
    std::vector<DeviceChoice> choices;
    for (const std::string model : row.ranks) {
      DeviceOffer offer = {kAuto, "", kTwo, "", {{"A", "other"}}};
      if (model != "?") offer.models["B"] = model;
      offers.push_back(offer);
      choices.emplace_back();
      if (model != "cpu") choices.back().gpu = "B";
    }
    EXPECT_EQ(DifferentModels(offers, choices,
                              [](int rank) { return absl::StrCat("r", rank); }),
              row.expected)
        << row.what;
  }
}

}  // namespace
}  // namespace rollcall
