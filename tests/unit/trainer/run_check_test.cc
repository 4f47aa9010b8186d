// A whole check over Gloo, in one process.
#include "trainer/check/run_check.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/local_exchange.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using Kind = CollectiveKind;
using Json = nlohmann::json;

CheckOptions Quick() {
  CheckOptions options;
  options.max_bytes = 100000;
  options.step_factor = 8;
  options.iterations = 2;
  options.warmup = 1;
  options.trips = 5;
  options.json = true;
  options.thresholds.link_outlier = 1e9;
  return options;
}

// Corrupts what one rank receives in one kind of collective.
class Spoiled final : public Collective {
 public:
  Spoiled(std::unique_ptr<Collective> whole, Kind kind, int rank)
      : whole_(std::move(whole)), kind_(kind), rank_(rank) {}
  int rank() const override { return whole_->rank(); }
  int size() const override { return whole_->size(); }
  absl::Status AllReduce(absl::Span<float> values, Reduction r) override {
    absl::Status s = whole_->AllReduce(values, r);
    // The short all-reduces only serve to agree on something.
    if (values.size() > 100) Spoil(Kind::kAllReduce, values);
    return s;
  }
  absl::Status BeginSum(absl::Span<float> v) override {
    return whole_->BeginSum(v);
  }
  absl::Status Wait() override { return whole_->Wait(); }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    absl::Status s = whole_->Broadcast(bytes, root);
    Spoil(Kind::kBroadcast, Floats(bytes));
    return s;
  }
  absl::Status AllGather(absl::Span<const char> mine,
                         absl::Span<char> all) override {
    absl::Status s = whole_->AllGather(mine, all);
    if (all.size() > 1000) Spoil(Kind::kAllGather, Floats(all));
    return s;
  }
  absl::Status ReduceScatter(absl::Span<float> all,
                             absl::Span<float> mine) override {
    absl::Status s = whole_->ReduceScatter(all, mine);
    Spoil(Kind::kReduceScatter, mine);
    return s;
  }
  absl::Status SendReceive(absl::Span<const char> out,
                           absl::Span<char> in) override {
    absl::Status s = whole_->SendReceive(out, in);
    if (in.size() > 1000) Spoil(Kind::kSendReceive, Floats(in));
    return s;
  }
  absl::Status SendReceiveBack(absl::Span<const char> out,
                               absl::Span<char> in) override {
    return whole_->SendReceiveBack(out, in);
  }
  std::string transport() const override { return whole_->transport(); }
  CollectiveSeen seen() const override { return whole_->seen(); }
  absl::Status Finish() override { return whole_->Finish(); }

 private:
  static absl::Span<float> Floats(absl::Span<char> bytes) {
    return {reinterpret_cast<float*>(bytes.data()),
            bytes.size() / sizeof(float)};
  }
  void Spoil(Kind kind, absl::Span<float> values) {
    if (kind == kind_ && rank() == rank_) values.back() += 100;
  }

  const std::unique_ptr<Collective> whole_;
  const Kind kind_;
  const int rank_;
};

struct Checked {
  std::vector<absl::StatusOr<Verdict>> verdicts;
  std::vector<std::string> said;
};

// Checks a world of `ranks` ranks. `options(rank)` and `around(collective)` are
// called for each rank.
template <typename OptionsOf, typename Around, typename WorldOf>
Checked CheckOver(int ranks, OptionsOf options, Around around, WorldOf world) {
  Checked checked;
  LocalExchange exchange(ranks);
  std::vector<std::future<absl::StatusOr<Verdict>>> running;
  for (int r = 0; r < ranks; ++r) {
    running.push_back(std::async(std::launch::async, [&, r] {
      auto connected = ConnectGloo(LocalGloo(exchange, r, ranks));
      EXPECT_TRUE(connected.ok()) << connected.status();
      const auto collective = around(*std::move(connected));
      HostMemory memory;
      absl::StatusOr<Verdict> verdict =
          RunCheck(options(r), *collective, memory, world(r),
                   [&checked, r](const std::string& line) {
                     EXPECT_EQ(r, 0) << "only rank 0 speaks";
                     checked.said.push_back(line);
                   });
      EXPECT_TRUE(collective->Finish().ok());
      return verdict;
    }));
  }
  for (auto& one : running) checked.verdicts.push_back(one.get());
  return checked;
}

std::unique_ptr<Collective> AsItIs(std::unique_ptr<Collective> collective) {
  return collective;
}
CheckedWorld Nameless(int) { return {}; }

TEST(RunCheck, PassesWithAnyNumberOfRanks) {
  for (const int ranks : {2, 3, 5}) {
    const Checked checked = CheckOver(
        ranks, [](int) { return Quick(); }, AsItIs, Nameless);
    for (const auto& verdict : checked.verdicts) {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->level, VerdictLevel::kOk);
    }
    size_t rows = 0, links = 0;
    for (const std::string& line : checked.said) {
      const Json object = Json::parse(line);
      links += object.contains("link");
      if (!object.contains("collective")) continue;
      ++rows;
      EXPECT_EQ(object["wrong"], 0) << line;
      EXPECT_GT(object["time_us"], 0) << line;
      const double algbw =
          object["size"].get<double>() / object["time_us"].get<double>() / 1000;
      EXPECT_NEAR(object["algbw"], algbw, algbw * 1e-6) << line;
    }
    // There are sizes of 8, 64, 512, 4096, 32768 and 100000 bytes, for five
    // collectives.
    EXPECT_EQ(rows, 30u);
    EXPECT_EQ(links, ranks == 2 ? 1u : static_cast<size_t>(ranks));
    const Json last = Json::parse(checked.said.back());
    EXPECT_EQ(last["verdict"], "ok");
    EXPECT_EQ(last["exit_code"], 0);
    EXPECT_EQ(last["transport"], "Socket");
  }
}

TEST(RunCheck, ReportsWrongValuesOnAllRanks) {
  for (const Kind kind : kAllCollectives) {
    const Checked checked = CheckOver(
        3,
        [](int) {
          CheckOptions options = Quick();
          options.min_bytes = options.max_bytes = 4800;
          return options;
        },
        [kind](std::unique_ptr<Collective> collective) {
          return std::make_unique<Spoiled>(std::move(collective), kind, 1);
        },
        Nameless);
    for (const auto& verdict : checked.verdicts) {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->level, VerdictLevel::kFatal);
      ASSERT_EQ(verdict->reasons.size(), 1u);
      EXPECT_EQ(verdict->reasons[0].find(
                    absl::StrCat(NameOf(kind),
                                 " of 4800 bytes gave 1 wrong "
                                 "element on 1 rank; first on rank 1: ")),
                0u)
          << verdict->reasons[0];
    }
    int wrong = 0;
    for (const std::string& line : checked.said) {
      const Json object = Json::parse(line);
      if (!object.contains("collective") || object["wrong"] == 0) continue;
      ++wrong;
      EXPECT_EQ(object["collective"], NameOf(kind));
      EXPECT_EQ(object["first_wrong"]["rank"], 1);
      EXPECT_EQ(object["first_wrong"]["found"].get<float>(),
                object["first_wrong"]["expected"].get<float>() + 100);
    }
    EXPECT_EQ(wrong, 1);
  }
}

TEST(RunCheck, ReportsDifferentFlags) {
  const Checked checked = CheckOver(
      3,
      [](int rank) {
        CheckOptions options = Quick();
        if (rank == 2) options.thresholds.min_busbw_gbps = 1e-6;
        return options;
      },
      AsItIs, Nameless);
  for (const auto& verdict : checked.verdicts) {
    EXPECT_EQ(verdict.status().code(), Code::kFailedPrecondition);
  }
}

TEST(RunCheck, ANoticeToOneStopsAllAtTheSameRow) {
  const Checked checked = CheckOver(
      3, [](int) { return Quick(); }, AsItIs,
      [](int rank) {
        CheckedWorld world;
        world.noticed = [rank] { return rank == 1; };
        return world;
      });
  for (const auto& verdict : checked.verdicts) {
    EXPECT_EQ(verdict.status().code(), Code::kCancelled);
  }
  EXPECT_EQ(checked.said.size(), 1u);
}

TEST(RunCheck, ReportsThatOneRankMovesNothing) {
  SingleCollective single;
  HostMemory memory;
  CheckOptions options = Quick();
  options.json = false;
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  absl::StatusOr<Verdict> verdict = RunCheck(options, single, memory, {}, say);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->level, VerdictLevel::kOk);
  EXPECT_NE(said.front().find("transport single"), std::string::npos);
  EXPECT_EQ(said.back(), "# verdict: ok");
  options.thresholds.require_net = "ib";
  verdict = RunCheck(options, single, memory, {}, say);
  EXPECT_EQ(verdict->level, VerdictLevel::kFatal);
}

}  // namespace
}  // namespace rollcall
