// The parts of a check as tables: figures, patterns, thresholds and flags.
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/check/check_options.h"
#include "trainer/check/figures.h"
#include "trainer/check/links.h"
#include "trainer/check/pattern.h"
#include "trainer/check/thresholds.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using Kind = CollectiveKind;

// --- Figures ----------------------------------------------------------------

TEST(Figures, Sizes) {
  const struct {
    size_t least, most, factor;
    std::vector<size_t> expect;
  } kRows[] = {
      {8, 8, 4, {8}},
      {8, 128, 4, {8, 32, 128}},
      {8, 100, 4, {8, 32, 100}},
      {4, 5, 1000, {4, 5}},
      {1, 8, 2, {1, 2, 4, 8}},
      {kCheckBytesMax / 2,
       kCheckBytesMax,
       1 << 20,
       {kCheckBytesMax / 2, kCheckBytesMax}},
      {size_t{1} << 62, ~size_t{0}, 1 << 20, {size_t{1} << 62, ~size_t{0}}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(SizesBetween(row.least, row.most, row.factor), row.expect)
        << row.least << " " << row.most;
  }
}

// The factors are those of doc/PERFORMANCE.md of nccl-tests.
TEST(Figures, BusFactors) {
  const struct {
    Kind kind;
    int ranks;
    double expect;
  } kRows[] = {
      {Kind::kAllReduce, 1, 0},         {Kind::kAllReduce, 2, 1},
      {Kind::kAllReduce, 4, 1.5},       {Kind::kAllReduce, 8, 1.75},
      {Kind::kAllGather, 1, 0},         {Kind::kAllGather, 2, 0.5},
      {Kind::kAllGather, 4, 0.75},      {Kind::kReduceScatter, 4, 0.75},
      {Kind::kReduceScatter, 8, 0.875}, {Kind::kBroadcast, 1, 1},
      {Kind::kBroadcast, 8, 1},         {Kind::kSendReceive, 8, 1},
  };
  for (const auto& row : kRows) {
    EXPECT_DOUBLE_EQ(BusFactor(row.kind, row.ranks), row.expect)
        << NameOf(row.kind) << " of " << row.ranks;
  }
  // The times are 1 s for 1 GB and 2 us for 4 KiB.
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1'000'000'000, 1e6), 1);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(4096, 2), 2.048);
}

// If each rank has a piece, the size is that of all pieces and the count that
// of one.
TEST(Figures, RowSizes) {
  const struct {
    Kind kind;
    size_t bytes;
    int ranks;
    size_t expect_bytes, expect_count;
  } kRows[] = {
      {Kind::kAllReduce, 8, 3, 8, 2},
      {Kind::kAllReduce, 11, 3, 8, 2},
      {Kind::kAllReduce, 1, 3, 4, 1},
      {Kind::kBroadcast, 4096, 3, 4096, 1024},
      {Kind::kSendReceive, 4096, 3, 4096, 1024},
      {Kind::kAllGather, 4096, 4, 4096, 256},
      {Kind::kAllGather, 4096, 3, 4092, 341},
      {Kind::kAllGather, 8, 3, 12, 1},
      {Kind::kReduceScatter, 4096, 4, 4096, 256},
      {Kind::kReduceScatter, 100, 8, 96, 3},
  };
  for (const auto& row : kRows) {
    const RowSize got = RowSizeOf(row.kind, row.bytes, row.ranks);
    EXPECT_EQ(got.bytes, row.expect_bytes) << NameOf(row.kind) << row.bytes;
    EXPECT_EQ(got.count, row.expect_count) << NameOf(row.kind) << row.bytes;
  }
}

// --- Pattern ----------------------------------------------------------------

TEST(Pattern, SumsCoverAllRanks) {
  for (const int ranks : {1, 2, 5, 64}) {
    Period sum(kPatternPeriod, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Period one = PatternOf(rank, 7);
      ASSERT_EQ(one.size(), kPatternPeriod);
      for (size_t i = 0; i < sum.size(); ++i) {
        EXPECT_GE(one[i], 0);
        EXPECT_LE(one[i], 15);
        sum[i] += one[i];
      }
    }
    EXPECT_EQ(PatternSum(ranks, 7), sum);
  }
  EXPECT_NE(PatternOf(0, 7), PatternOf(1, 7));
  EXPECT_NE(PatternOf(0, 7), PatternOf(0, 8));
}

TEST(Pattern, FindsWrongValues) {
  const Period period = PatternOf(3, 1);
  std::vector<float> values(5000);
  const auto wrong_after = [&](auto change, size_t first = 100) {
    FillPattern(period, 100, absl::MakeSpan(values));
    change();
    WrongValues wrong;
    CompareWithPattern(period, first, values, &wrong);
    return wrong;
  };
  EXPECT_EQ(wrong_after([] {}).count, 0u);

  WrongValues one = wrong_after([&] { values[4321] += 0.5f; });
  EXPECT_EQ(one.count, 1u);
  EXPECT_EQ(one.index, 4421u);
  EXPECT_EQ(one.expected, period[4421 % kPatternPeriod]);
  EXPECT_EQ(one.found, one.expected + 0.5f);

  EXPECT_EQ(wrong_after([&] {
              values[7] = std::numeric_limits<float>::quiet_NaN();
              values[8] = kUnwritten;
            }).count,
            2u);
  // The values are shifted by any likely chunk size, or by one element.
  for (const size_t shift : {1, 2, 16, 256, 341, 1024, 4096}) {
    EXPECT_GT(wrong_after([] {}, 100 + shift).count, values.size() / 2)
        << shift;
  }
}

// --- Thresholds and flags ---------------------------------------------------

TEST(Thresholds, ReadFromJson) {
  const auto all = ParseThresholds(
      "t", R"({"require-net": "ib", "min-busbw": 10, "max-latency": 2.5,
              "link-outlier": 3})");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, (Thresholds{"ib", 10, 2.5, 3}));
  EXPECT_EQ(*ParseThresholds("t", "{}"), Thresholds());
  EXPECT_EQ(ParseThresholds("t", R"({"require-net": "Socket"})")->require_net,
            "socket");

  const struct {
    std::string json, says;
  } kRows[] = {
      {"", "not one JSON object"},
      {"[]", "not one JSON object"},
      {"{\"min-busbw\": 1", "not one JSON object"},
      {"{} {}", "not one JSON object"},
      {std::string(100'000, '['), "not one JSON object"},
      {"\xff", "not one JSON object"},
      {R"({"min_busbw": 1})", "\"min_busbw\": unknown"},
      {R"({"min-busbw": 1, "max-latncy": 1})", "\"max-latncy\": unknown"},
      {"{\"\xc3\": 1}", "not one JSON object"},
      {R"({"min-busbw": "1"})", "\"min-busbw\": got \"1\""},
      {R"({"min-busbw": -1})", "\"min-busbw\": got -1"},
      {R"({"min-busbw": 0})", "\"min-busbw\": got 0"},
      {R"({"min-busbw": null})", "\"min-busbw\": got null"},
      {R"({"max-latency": 1e99})", "\"max-latency\": got 1e+99"},
      {R"({"max-latency": 1e999})", "not one JSON object"},
      {R"({"link-outlier": [1]})", "\"link-outlier\": got [1]"},
      {R"({"require-net": "tcp"})", "\"require-net\": got \"tcp\""},
      {R"({"require-net": "ib+p2p"})", "\"require-net\": got \"ib+p2p\""},
      {R"({"require-net": 1})", "\"require-net\": got"},
  };
  for (const auto& row : kRows) {
    const auto got = ParseThresholds("FILE", row.json);
    EXPECT_EQ(got.status().code(), Code::kInvalidArgument) << row.json;
    EXPECT_NE(got.status().message().find("thresholds FILE: "),
              absl::string_view::npos);
    EXPECT_NE(got.status().message().find(row.says), absl::string_view::npos)
        << got.status();
    EXPECT_LT(got.status().message().size(), 300u);
  }
}

TEST(Thresholds, AFlagOverridesTheFile) {
  const Thresholds flags{std::nullopt, 5, std::nullopt, 3};
  const Thresholds file{"socket", 7, 9, std::nullopt};
  EXPECT_EQ(Merge(flags, file), (Thresholds{"socket", 5, 9, 3}));
}

struct Parsed {
  absl::Status status;
  CheckOptions options;
};

Parsed Parse(std::vector<std::string> words) {
  CLI::App app;
  Parsed parsed;
  CheckFlags flags;
  flags.AddTo(app, &parsed.options);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    parsed.status = absl::OutOfRangeError(error.what());
    return parsed;
  }
  parsed.status = flags.Apply(&parsed.options);
  return parsed;
}

TEST(CheckFlags, AreParsed) {
  const Parsed none = Parse({"--check"});
  ASSERT_TRUE(none.status.ok()) << none.status;
  EXPECT_TRUE(none.options.enabled);
  EXPECT_EQ(none.options.min_bytes, 8u);
  EXPECT_EQ(none.options.max_bytes, 0u);
  EXPECT_EQ(none.options.thresholds, Thresholds());

  const Parsed all = Parse({"--check",
                            "--min-bytes",
                            "1K",
                            "--max-bytes",
                            "2G",
                            "--step-factor",
                            "2",
                            "--iters",
                            "7",
                            "--warmup-iters",
                            "0",
                            "--pings",
                            "9",
                            "--json",
                            "--require-net",
                            "ib",
                            "--min-busbw",
                            "1.5",
                            "--max-latency",
                            "20",
                            "--link-outlier",
                            "8"});
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_EQ(all.options.min_bytes, 1024u);
  EXPECT_EQ(all.options.max_bytes, size_t{2} << 30);
  EXPECT_EQ(all.options.step_factor, 2u);
  EXPECT_EQ(all.options.iterations, 7);
  EXPECT_EQ(all.options.warmup, 0);
  EXPECT_EQ(all.options.trips, 9);
  EXPECT_TRUE(all.options.json);
  EXPECT_EQ(all.options.thresholds, (Thresholds{"ib", 1.5, 20, 8}));
}

TEST(CheckFlags, RefuseAndNameTheFlag) {
  const std::vector<std::pair<std::string, std::string>> kRows = {
      {"--min-bytes", "0"},
      {"--min-bytes", "3"},
      {"--min-bytes", "-8"},
      {"--min-bytes", "8X"},
      {"--min-bytes", "K"},
      {"--max-bytes", "65G"},
      {"--max-bytes", "1e6"},
      {"--max-bytes", "99999999999999999999"},
      {"--max-bytes", "4"},  // Below --min-bytes.
      {"--step-factor", "1"},
      {"--step-factor", "-2"},
      {"--iters", "0"},
      {"--iters", "many"},
      {"--warmup-iters", "-1"},
      {"--pings", "0"},
      {"--min-busbw", "nan"},
      {"--min-busbw", "0"},
      {"--max-latency", "inf"},
      {"--max-latency", "-1"},
      {"--link-outlier", "x"},
      {"--require-net", "tcp"},
      {"--require-net", "InfiniBand"}};
  for (const auto& [flag, value] : kRows) {
    const Parsed parsed = Parse({"--check", flag + "=" + value});
    EXPECT_EQ(parsed.status.code(), Code::kInvalidArgument) << flag << value;
    EXPECT_EQ(parsed.status.message().find(flag), 0u) << parsed.status;
  }
  // Without --check, these flags would have no effect, so they are refused.
  EXPECT_EQ(Parse({"--iters", "3"}).status.code(), Code::kOutOfRange);
}

TEST(CheckFlags, ThresholdsFromAFile) {
  const std::string path =
      testing::TempDir() + "/rollcall-thresholds-" + std::to_string(getpid());
  EXPECT_EQ(Parse({"--check", "--thresholds", path}).status.code(),
            Code::kNotFound);
  EXPECT_EQ(Parse({"--check", "--thresholds", "/"}).status.code(),
            Code::kNotFound);
  std::ofstream(path) << R"({"min-busbw": 3, "max-latency": 4})";
  const Parsed parsed =
      Parse({"--check", "--thresholds", path, "--min-busbw", "2"});
  EXPECT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.options.thresholds,
            (Thresholds{std::nullopt, 2, 4, std::nullopt}));
  std::ofstream(path) << R"({"busbw": 3})";
  EXPECT_EQ(Parse({"--check", "--thresholds", path}).status.code(),
            Code::kInvalidArgument);
  std::ofstream(path) << std::string(70'000, ' ') << "{}";
  EXPECT_EQ(Parse({"--check", "--thresholds", path}).status.code(),
            Code::kInvalidArgument);
  unlink(path.c_str());
}

// --- Links ------------------------------------------------------------------

TEST(Links, NoRankHasTwoLinksInARound) {
  for (int ranks = 3; ranks < 12; ++ranks) {
    for (int from = 0; from < ranks; ++from) {
      const int next = (from + 1) % ranks;
      EXPECT_NE(RoundOfLink(from, ranks), RoundOfLink(next, ranks))
          << from << " of " << ranks;
    }
  }
}

TEST(Links, MedianAndTail) {
  EXPECT_EQ(Summarize(3, {5}).median_us, 5);
  EXPECT_EQ(Summarize(3, {5}).from, 3);
  std::vector<double> times;
  for (int i = 100; i >= 0; --i) times.push_back(i);
  const LinkTime link = Summarize(0, times);
  EXPECT_EQ(link.median_us, 50);
  EXPECT_EQ(link.p99_us, 99);
}

}  // namespace
}  // namespace rollcall
