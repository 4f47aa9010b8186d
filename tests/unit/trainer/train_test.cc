#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/trainer/train_fixture.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST_F(TrainTest, LossFalls) {
  options_.steps = 60;
  SingleCollective single;
  Course course;
  Train(options_, single, &course);
  EXPECT_NEAR(course.losses.front(), 5.55, 0.1);  // ln 256
  EXPECT_LT(course.losses.back(), 3.0);
}

TEST_F(TrainTest, WorldSizeDoesNotMatter) {
  SingleCollective single;
  Course alone;
  Train(options_, single, &alone);
  for (int ranks : {2, 3, 8}) {  // One of eight has no sample.
    std::vector<Course> courses(ranks);
    ForEachRank(ranks, [&](int r, Collective& collective) {
      Train(options_, collective, &courses[r]);
    });
    for (int r = 0; r < ranks; ++r) {
      ASSERT_EQ(courses[r].losses.size(), alone.losses.size());
      for (size_t i = 0; i < alone.losses.size(); ++i) {
        EXPECT_NEAR(courses[r].losses[i], alone.losses[i], 2e-4)
            << "rank " << r << " of " << ranks << ", step " << i + 1;
      }
      EXPECT_EQ(courses[r].weights, courses[0].weights) << "rank " << r;
    }
  }
}

// A world that ends for this rank right after a collective that the other ranks
// have completed: after call `calls`, or after broadcast `broadcasts`.
class EndsAfter final : public Collective {
 public:
  EndsAfter(Collective& collective, int calls, int broadcasts = -1)
      : collective_(collective), left_(calls), broadcasts_(broadcasts) {}
  int rank() const override { return collective_.rank(); }
  int size() const override { return collective_.size(); }
  absl::Status AllReduce(absl::Span<float> values, Reduction how) override {
    return Counted(collective_.AllReduce(values, how));
  }
  absl::Status BeginSum(absl::Span<float> values) override {
    return collective_.BeginSum(values);
  }
  // Waits for all sums that were begun; there is one Wait per step.
  absl::Status Wait() override { return Counted(collective_.Wait()); }
  absl::Status AllGather(absl::Span<const char> mine,
                         absl::Span<char> all) override {
    return Counted(collective_.AllGather(mine, all));
  }
  absl::Status ReduceScatter(absl::Span<float> all,
                             absl::Span<float> mine) override {
    return collective_.ReduceScatter(all, mine);
  }
  absl::Status SendReceive(absl::Span<const char> out,
                           absl::Span<char> in) override {
    return collective_.SendReceive(out, in);
  }
  std::string transport() const override { return collective_.transport(); }
  CollectiveSeen seen() const override { return collective_.seen(); }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    broadcast_bytes += bytes.size();
    const absl::Status status = collective_.Broadcast(bytes, root);
    return --broadcasts_ == 0 ? absl::AbortedError("the world has ended")
                              : status;
  }
  absl::Status Finish() override { return collective_.Finish(); }

  uint64_t broadcast_bytes = 0;

 private:
  absl::Status Counted(const absl::Status& status) {
    return --left_ == 0 ? absl::AbortedError("the world has ended") : status;
  }

  Collective& collective_;
  int left_;
  int broadcasts_;
};

TEST_F(TrainTest, WorldsOfAnySizeTrainOn) {
  options_.steps = 12;
  SingleCollective single;
  Course alone;
  Train(options_, single, &alone);

  std::vector<std::unique_ptr<TrainLoop>> loops;
  const auto add = [&] {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    loops.push_back(*std::move(loop));
  };
  // All ranks do `steps` steps, but the rank `behind` loses its world in the
  // last one.
  const auto world = [&](std::optional<TrainSource> source, int steps,
                         int behind = -1) {
    ForEachRank(static_cast<int>(loops.size()), [&](int r, Collective& c) {
      // Agreeing on settings gathers twice, and the search for stored states
      // gathers once.
      EndsAfter ends(c, r == behind ? 3 + steps : -1);
      TrainLoop& loop = *loops[r];
      const absl::Status entered = loop.Enter(ends, source);
      ASSERT_TRUE(entered.ok()) << entered;
      if (source) {
        EXPECT_EQ(loop.steps_done(), source->step);
      }
      for (int i = 0; i < steps; ++i) {
        auto result = loop.Step();
        if (r == behind && i == steps - 1) {
          EXPECT_EQ(result.status().code(), Code::kAborted);
          EXPECT_EQ(loop.steps_done(), result.ok() ? 0 : steps - 1);
          EXPECT_TRUE(loop.whole());
          continue;
        }
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_NEAR(result->loss, alone.losses[result->step - 1], 2e-4)
            << "step " << result->step;
      }
    });
  };
  for (int i = 0; i < 3; ++i) add();
  world({}, 4, /*behind=*/0);         // Steps 1 to 4, and 3 for rank 0.
  loops.erase(loops.begin() + 1);     // A node is lost.
  world(TrainSource{1, 4}, 3);        // The other has the highest step.
  for (int i = 0; i < 3; ++i) add();  // These are newcomers.
  std::swap(loops[0], loops[4]);      // The order of the ranks may change.
  world(TrainSource{4, 7}, 2);
  loops.erase(loops.begin(), loops.begin() + 4);
  TrainLoop& last = *loops[0];
  ASSERT_TRUE(last.Enter(single, TrainSource{0, 9}).ok());
  for (int step = 10; step <= 12; ++step) {
    auto result = last.Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(result->loss, alone.losses[step - 1], 2e-4);
  }
  // No rank has a state, so training starts from the beginning and gives the
  // same bits.
  ASSERT_TRUE(last.Enter(single, {}).ok());
  EXPECT_EQ(last.steps_done(), 0);
  auto first = last.Step();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->loss, alone.losses[0]);
}

TEST_F(TrainTest, AllStopAfterTheSameStep) {
  ForEachRank(3, [&](int r, Collective& collective) {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    ASSERT_TRUE((*loop)->Enter(collective, {}).ok());
    for (int step = 1; step <= 5; ++step) {
      auto result = (*loop)->Step(r == 1 && step == 4);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->boundary, step == 4) << "rank " << r;
    }
  });
}

TEST_F(TrainTest, ASourceWithAnotherStateSendsNothing) {
  ForEachRank(2, [&](int r, Collective& collective) {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    if (r == 0) {
      EXPECT_EQ((*loop)->Enter(collective, TrainSource{0, 3}).code(),
                Code::kInternal);
      return;
    }
    // A state that was only partly received cannot be a source.
    EndsAfter ends(collective, 1);
    EXPECT_EQ((*loop)->Enter(ends, TrainSource{0, 3}).code(), Code::kAborted);
    SingleCollective single;
    EXPECT_TRUE((*loop)->Enter(single, {}).ok());
    EXPECT_TRUE((*loop)->whole());
  });
}

TEST_F(TrainTest, TheLossIsPartOfTheState) {
  ForEachRank(2, [&](int r, Collective& collective) {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    double loss = 0;
    if (r == 0) {
      SingleCollective single;
      ASSERT_TRUE((*loop)->Enter(single, {}).ok());
      auto result = (*loop)->Step();
      ASSERT_TRUE(result.ok()) << result.status();
      loss = result->loss;
      EXPECT_EQ((*loop)->state().loss, loss);
    }
    ASSERT_TRUE((*loop)->Enter(collective, TrainSource{0, 1}).ok());
    std::vector<double> all(2);
    loss = (*loop)->state().loss;
    const auto bytes = [](double* at, size_t n) {
      return absl::Span<char>(reinterpret_cast<char*>(at), n * sizeof(double));
    };
    ASSERT_TRUE(
        collective.AllGather(bytes(&loss, 1), bytes(all.data(), 2)).ok());
    EXPECT_EQ(all[0], all[1]);
    EXPECT_GT(all[1], 0);
  });
}

TEST_F(TrainTest, ARankAtTheSourcesStepCanReplaceIt) {
  SingleCollective single;
  Course alone;
  Train(options_, single, &alone);
  for (int broadcast = 1; broadcast <= 4; ++broadcast) {
    ForEachRank(3, [&](int r, Collective& collective) {
      auto loop = TrainLoop::Create(options_);
      ASSERT_TRUE(loop.ok()) << loop.status();
      SingleCollective single;
      if (r < 2) {
        ASSERT_TRUE((*loop)->Enter(single, {}).ok());
        ASSERT_TRUE((*loop)->Step().ok());
      }
      // The source has gone while it was sending its state.
      EndsAfter ends(collective, -1, broadcast);
      EXPECT_EQ((*loop)->Enter(ends, TrainSource{0, 1}).code(), Code::kAborted);
      if (r == 2) {
        EXPECT_FALSE((*loop)->whole());
        return;
      }
      EXPECT_TRUE((*loop)->whole()) << "broadcast " << broadcast;
      ASSERT_TRUE((*loop)->Enter(single, TrainSource{0, 1}).ok());
      auto result = (*loop)->Step();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->loss, alone.losses[1]);
    });
  }
}

// Survivors of a lost peer have done the same steps, so nothing is sent. A rank
// with a single other bit at the same step, and a newcomer, receive all.
TEST_F(TrainTest, TensorsAreSentOnlyIfARankLacksThem) {
  struct Row {
    const char* name;
    bool sent;
    std::function<void(TrainLoop&)> change;  // For rank 2.
  };
  const auto one_bit = [](TrainLoop& loop, StatePart part) {
    float& last = loop.backend().state(part).back();
    last = std::nextafter(last, 1.0f);
  };
  const Row kRows[] = {
      {"the same", false, [](TrainLoop& loop) { EXPECT_TRUE(loop.whole()); }},
      {"a weight", true,
       [&](TrainLoop& loop) { one_bit(loop, StatePart::kWeights); }},
      {"a mean", true,
       [&](TrainLoop& loop) { one_bit(loop, StatePart::kFirstMoment); }},
      {"a square", true,
       [&](TrainLoop& loop) { one_bit(loop, StatePart::kSecondMoment); }},
      {"another step", true,
       [](TrainLoop& loop) { ASSERT_TRUE(loop.Step().ok()); }},
      {"a newcomer", true, nullptr},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    ForEachRank(3, [&](int r, Collective& collective) {
      auto loop = TrainLoop::Create(options_);
      ASSERT_TRUE(loop.ok()) << loop.status();
      SingleCollective single;
      if (r != 2 || row.change != nullptr) {
        ASSERT_TRUE((*loop)->Enter(single, {}).ok());
        ASSERT_TRUE((*loop)->Step().ok());
        if (r == 2) row.change(**loop);
      }
      EndsAfter counted(collective, -1);
      ASSERT_TRUE((*loop)->Enter(counted, TrainSource{1, 1}).ok());
      const uint64_t tensors = 3 * sizeof(float) * (*loop)->parameters();
      if (row.sent) {
        EXPECT_GE(counted.broadcast_bytes, tensors);
      } else {
        EXPECT_LT(counted.broadcast_bytes, tensors / 10);
      }
      EXPECT_EQ((*loop)->steps_done(), 1);
      uint64_t mine = *(*loop)->backend().Fingerprint();
      std::vector<uint64_t> all(3);
      const auto bytes = [](uint64_t* at, size_t n) {
        return absl::Span<char>(reinterpret_cast<char*>(at), n * sizeof(*at));
      };
      ASSERT_TRUE(
          collective.AllGather(bytes(&mine, 1), bytes(all.data(), 3)).ok());
      EXPECT_EQ(all, std::vector<uint64_t>(3, mine));
    });
  }
}

// Only rank 0 reads the weights that a training begins with; all ranks have
// them, also one that comes before the first step.
TEST_F(TrainTest, BeginsWithGivenWeights) {
  SingleCollective single;
  auto reference = TrainLoop::Create(options_);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::vector<float> given((*reference)->parameters());
  InitializeWeights((*reference)->backend().config(),
                    (*reference)->backend().layout(), 77,
                    absl::MakeSpan(given));
  std::atomic<int> reads = 0;
  const auto begin = [&](TrainLoop& loop, bool may_read) {
    loop.BeginsWith([&, may_read](absl::Span<float> weights) {
      if (!may_read) return absl::NotFoundError("no such folder here");
      ++reads;
      std::copy(given.begin(), given.end(), weights.begin());
      return absl::OkStatus();
    });
  };
  auto old = TrainLoop::Create(options_);
  ASSERT_TRUE(old.ok()) << old.status();
  begin(**old, true);
  ASSERT_TRUE((*old)->Enter(single, {}).ok());
  EXPECT_EQ(reads, 1);
  ForEachRank(3, [&](int r, Collective& collective) {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    begin(**loop, r == 0);
    TrainLoop& mine = r == 2 ? **old : **loop;
    const absl::Status entered = mine.Enter(collective, {});
    ASSERT_TRUE(entered.ok()) << entered;
    EXPECT_EQ(mine.steps_done(), 0);
    const auto weights = mine.backend().state(StatePart::kWeights);
    EXPECT_TRUE(std::equal(weights.begin(), weights.end(), given.begin()));
    const auto moments = mine.backend().state(StatePart::kFirstMoment);
    EXPECT_EQ(std::count(moments.begin(), moments.end(), 0.0f),
              static_cast<int64_t>(moments.size()));
    // Without a source, a rank that has done steps begins again with them.
    ASSERT_TRUE(mine.Step().ok());
    ASSERT_TRUE(mine.Enter(collective, {}).ok());
    EXPECT_TRUE(std::equal(weights.begin(), weights.end(), given.begin()));
  });
  EXPECT_EQ(reads, 3);
}

TEST_F(TrainTest, GivenWeightsThatCannotBeReadEndTheRank) {
  SingleCollective single;
  auto loop = TrainLoop::Create(options_);
  ASSERT_TRUE(loop.ok()) << loop.status();
  (*loop)->BeginsWith(
      [](absl::Span<float>) { return absl::DataLossError("damaged"); });
  EXPECT_EQ((*loop)->Enter(single, {}).code(), Code::kDataLoss);
  EXPECT_FALSE((*loop)->whole());
}

TEST_F(TrainTest, RefusesBadInput) {
  SingleCollective single;
  const auto code = [&](const TrainOptions& options) {
    auto loop = TrainLoop::Create(options);
    if (!loop.ok()) return loop.status().code();
    return (*loop)->Enter(single, {}).code();
  };
  TrainOptions options = options_;
  options.data = {Write("short", "0123456789abcdef")};  // No next byte.
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  options.data = {"/none"};
  EXPECT_EQ(code(options), Code::kNotFound);
  options = options_;
  options.model = {256, 1, 16384, 8};
  EXPECT_EQ(code(options), Code::kResourceExhausted);
}

}  // namespace
}  // namespace rollcall
