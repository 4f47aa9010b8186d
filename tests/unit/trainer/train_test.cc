#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/files.h"
#include "tests/unit/trainer/local_exchange.h"
#include "tests/unit/trainer/wrapped_backend.h"
#include "trainer/checkpoint/gpt2_config.h"
#include "trainer/collective/gloo.h"
#include "trainer/collective/single.h"
#include "trainer/options.h"
#include "trainer/sample.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

class TrainTest : public Files {
 protected:
  TrainTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox, number ";
    options_.data = {Write("text", text)};
    options_.model = {2, 2, 16, 16};
    options_.batch = 7;  // Shares of two and three ranks differ in size.
    options_.steps = 6;
    options_.warmup = 2;
    options_.learning_rate = 1e-2f;
  }

  struct Course {
    std::vector<double> losses;
    std::vector<float> weights;
  };

  // Does all steps of one rank.
  static void Train(const TrainOptions& options, Collective& collective,
                    Course* course) {
    auto loop = TrainLoop::Create(options);
    ASSERT_TRUE(loop.ok()) << loop.status();
    const absl::Status entered = (*loop)->Enter(collective, {});
    ASSERT_TRUE(entered.ok()) << entered;
    for (int i = 0; i < options.steps; ++i) {
      auto result = (*loop)->Step();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->step, i + 1);
      course->losses.push_back(result->loss);
    }
    const auto weights = (*loop)->backend().state(StatePart::kWeights);
    course->weights.assign(weights.begin(), weights.end());
  }

  // Runs `body(rank, collective)` on one thread per rank, over Gloo.
  template <typename Body>
  static void ForEachRank(int ranks, Body body) {
    LocalExchange exchange(ranks);
    std::vector<std::future<void>> all;
    for (int r = 0; r < ranks; ++r) {
      all.push_back(std::async(std::launch::async, [&, r] {
        GlooOptions gloo;
        gloo.rank = r;
        gloo.size = ranks;
        gloo.address = "127.0.0.1";
        gloo.exchange = exchange.For(r);
        gloo.name = [](int which) { return "rank " + std::to_string(which); };
        auto collective = ConnectGloo(gloo);
        ASSERT_TRUE(collective.ok()) << collective.status();
        body(r, **collective);
        EXPECT_TRUE((*collective)->Finish().ok());
      }));
    }
    for (auto& one : all) one.get();
  }

  TrainOptions options_;
};

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
                Code::kFailedPrecondition);
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

// The model's shape is that of --init-from's folder; a flag that differs is
// named.
TEST_F(TrainTest, InitFromHasTheShape) {
  GptConfig model{3, 2, 16, 32, 256};
  Write("config.json", FormatGpt2Config(model));
  const struct {
    std::vector<const char*> flags;
    std::string said;
  } rows[] = {
      {{}, ""},
      {{"--layers", "3", "--width", "16"}, ""},
      {{"--layers", "4"}, "--layers: got 4, expected 3 as --init-from"},
      {{"--heads", "4"}, "--heads: got 4, expected 2"},
      {{"--width", "32"}, "--width: got 32, expected 16"},
      {{"--context", "8"}, "--context: got 8, expected 32"},
      {{"--model", "gpt2"}, "--model gpt2: --layers: got 12, expected 3"},
      {{"--init-from", ""}, "--init-from: got an empty value"},
      {{"--init-from", "/none"}, "--init-from: /none/config.json: "},
  };
  for (const auto& row : rows) {
    std::vector<const char*> argv = {"rollcall-train", "--data", "a"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    if (row.said.find("--init-from: ") != 0) {
      argv.insert(argv.end(), {"--init-from", folder_.c_str()});
    }
    TrainOptions options;
    testing::internal::CaptureStderr();
    const auto code = ParseOptions(argv.size(), argv.data(), &options);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(row.said), std::string::npos) << said;
    if (!row.said.empty()) {
      EXPECT_EQ(code, 2) << row.said;
      continue;
    }
    ASSERT_EQ(code, std::nullopt) << said;
    EXPECT_EQ(options.model.layers, 3);
    EXPECT_EQ(options.model.heads, 2);
    EXPECT_EQ(options.model.width, 16);
    EXPECT_EQ(options.model.context, 32);
    EXPECT_EQ(options.learning_rate, 3e-3f);
  }
  // The learning rate suits the folder's model.
  model = {12, 12, 768, 1024, 50257};
  Write("config.json", FormatGpt2Config(model));
  const char* argv[] = {"rollcall-train", "--data", "a", "--init-from",
                        folder_.c_str()};
  TrainOptions options;
  ASSERT_EQ(ParseOptions(std::size(argv), argv, &options), std::nullopt);
  EXPECT_EQ(options.learning_rate, 6e-4f);
  EXPECT_EQ(options.model.vocabulary, 50257);
}

TEST_F(TrainTest, OnlyARankThatDiffersFromTheSourceLeaves) {
  const std::string other = Write("other", std::string(1680, 'x'));
  ForEachRank(3, [&](int r, Collective& collective) {
    TrainOptions options = options_;
    if (r == 1) options.data = {other};
    auto loop = TrainLoop::Create(options);
    ASSERT_TRUE(loop.ok()) << loop.status();
    SingleCollective single;
    if (r != 1) {
      ASSERT_TRUE((*loop)->Enter(single, {}).ok());
    }
    const absl::Status status = (*loop)->Enter(collective, TrainSource{2, 0});
    EXPECT_EQ(status.code(),
              r == 1 ? Code::kFailedPrecondition : Code::kUnavailable)
        << status;
    EXPECT_NE(status.message().find("1 and 2: the files of --data differ"),
              absl::string_view::npos)
        << status;
    EXPECT_EQ((*loop)->whole(), r != 1);
  });
}

TEST_F(TrainTest, RanksThatDisagreeDoNotTrain) {
  const std::string other = Write("other", std::string(1680, 'x'));
  struct Row {
    const char* names;
    std::function<void(TrainOptions&)> change;
  };
  const Row kRows[] = {
      {"--lr 0.5 and 0.01;", [](TrainOptions& o) { o.learning_rate = 0.5f; }},
      {"--min-lr 0 and 0.001;",
       [](TrainOptions& o) { o.last_learning_rate = 0; }},
      {"--schedule linear and cosine;",
       [](TrainOptions& o) { o.schedule = Schedule::kLinear; }},
      {"--seed 2 and 1;", [](TrainOptions& o) { o.seed = 2; }},
      {"--layers 3 and 2;", [](TrainOptions& o) { o.model.layers = 3; }},
      {"--heads 4 and 2;", [](TrainOptions& o) { o.model.heads = 4; }},
      {"--width 18 and 16;", [](TrainOptions& o) { o.model.width = 18; }},
      {"--context 8 and 16;", [](TrainOptions& o) { o.model.context = 8; }},
      {"--steps 7 and 6;", [](TrainOptions& o) { o.steps = 7; }},
      {"--batch 8 and 7;", [](TrainOptions& o) { o.batch = 8; }},
      {"--warmup 3 and 2;", [](TrainOptions& o) { o.warmup = 3; }},
      {"--beta1 0.5 and 0.9;",
       [](TrainOptions& o) { o.optimizer.beta1 = 0.5; }},
      {"--beta2 0.5 and 0.95;",
       [](TrainOptions& o) { o.optimizer.beta2 = 0.5; }},
      {"--weight-decay 0 and 0.1;",
       [](TrainOptions& o) { o.optimizer.weight_decay = 0; }},
      {"--clip 2 and 1;", [](TrainOptions& o) { o.optimizer.clip = 2; }},
      {"--val-every 5 and 250;", [](TrainOptions& o) { o.validate_every = 5; }},
      {"--val-batches 5 and 20;",
       [](TrainOptions& o) { o.validation_batches = 5; }},
      {"--skip-spikes 4 and 0;", [](TrainOptions& o) { o.skip_spikes = 4; }},
      {"--init-from given and not given;",
       [](TrainOptions& o) { o.init_from = "model"; }},
      {"the files of --data", [&](TrainOptions& o) { o.data = {other}; }},
      {"the files of --val-data",
       [&](TrainOptions& o) { o.validation_data = {other}; }},
  };
  for (const Row& row : kRows) {
    ForEachRank(2, [&](int r, Collective& collective) {
      TrainOptions options = options_;
      if (r == 1) row.change(options);
      auto loop = TrainLoop::Create(options);
      ASSERT_TRUE(loop.ok()) << loop.status();
      const absl::Status status = (*loop)->Enter(collective, {});
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
      EXPECT_NE(status.message().find(absl::StrCat("1 and 0: ", row.names)),
                absl::string_view::npos)
          << status;
    });
  }
}

// The buffers of a checkpoint are pinned once, and keep their place.
class Pinning final : public WrappedBackend {
 public:
  Pinning(std::unique_ptr<Backend> cpu, std::vector<const float*>* pinned)
      : WrappedBackend(std::move(cpu)), pinned_(pinned) {}
  std::shared_ptr<void> Pin(absl::Span<float> host) override {
    pinned_->push_back(host.data());
    return {pinned_, [](std::vector<const float*>* p) { p->pop_back(); }};
  }

 private:
  std::vector<const float*>* const pinned_;
};

TEST_F(TrainTest, CopiesForCheckpointsGoToPinnedMemory) {
  std::vector<const float*> pinned;
  auto loop = TrainLoop::Create(
      options_,
      [&](const GptConfig& model, const AdamWConfig& optimizer)
          -> absl::StatusOr<std::unique_ptr<Backend>> {
        return std::make_unique<Pinning>(*MakeCpuBackend(model, optimizer),
                                         &pinned);
      });
  ASSERT_TRUE(loop.ok()) << loop.status();
  SingleCollective single;
  ASSERT_TRUE((*loop)->Enter(single, {}).ok());
  {
    StateTensors tensors;
    for (int save = 0; save < 2; ++save) {
      ASSERT_TRUE((*loop)->CopyOut(&tensors).ok());
      EXPECT_EQ(pinned, (std::vector<const float*>{tensors.weights.data(),
                                                   tensors.first.data(),
                                                   tensors.second.data()}));
    }
  }
  EXPECT_TRUE(pinned.empty());
}

// The CPU's backend, whose first sum takes memory as on a GPU.
class LikeGpu final : public WrappedBackend {
 public:
  struct Noted {
    // How many sums the world had begun when memory was asked for.
    uint64_t begun = 0;
    int reserved = 0;
  };

  LikeGpu(std::unique_ptr<Backend> cpu, const Collective& collective,
          Noted* noted)
      : WrappedBackend(std::move(cpu)),
        collective_(collective),
        noted_(noted) {}

  bool FirstSumTakesMemory() const override { return true; }
  absl::StatusOr<double> RoomForActivations(int ranks_here) override {
    noted_->begun = collective_.seen().entered;
    return WrappedBackend::RoomForActivations(ranks_here);
  }
  absl::Status Reserve(int sequences) override {
    noted_->reserved = sequences;
    return WrappedBackend::Reserve(sequences);
  }

 private:
  const Collective& collective_;
  Noted* const noted_;
};

TrainLoop::MakeBackend MakeLikeGpu(const Collective& collective,
                                   LikeGpu::Noted& noted) {
  return [&](const GptConfig& model, const AdamWConfig& optimizer)
             -> absl::StatusOr<std::unique_ptr<Backend>> {
    return std::make_unique<LikeGpu>(*MakeCpuBackend(model, optimizer),
                                     collective, &noted);
  };
}

// On GPUs, memory is planned after the ranks have agreed on their settings and
// have summed once. The plan is reported before the memory is taken.
TEST_F(TrainTest, MemoryIsPlannedAfterAWarmUp) {
  ForEachRank(2, [&](int, Collective& collective) {
    LikeGpu::Noted noted;
    auto loop = TrainLoop::Create(options_, MakeLikeGpu(collective, noted));
    ASSERT_TRUE(loop.ok()) << loop.status();
    std::vector<MemoryPlan> plans;
    (*loop)->WhenPlanned([&](const MemoryPlan& plan) {
      plans.push_back(plan);
      EXPECT_EQ(noted.begun, 2u);
      EXPECT_EQ(noted.reserved, 1);
    });
    ASSERT_TRUE((*loop)->Enter(collective, {}).ok());
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_EQ(plans[0].share, 4);  // Four of seven samples.
    EXPECT_EQ(plans[0].micro_batch, 4);
    EXPECT_EQ(plans[0].state, (*loop)->backend().StateBytes());
  });
}

// A memory limit or a wish changes how the share is computed, but not the
// result.
TEST_F(TrainTest, MicroBatchesDoNotMatter) {
  options_.model.context = 600;  // A unit is two samples.
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the quick brown fox, number ";
  options_.data = {Write("long", text)};
  options_.steps = 2;
  SingleCollective single;
  Course whole;
  Train(options_, single, &whole);
  auto loop = TrainLoop::Create(options_);
  ASSERT_TRUE(loop.ok()) << loop.status();
  const Backend& backend = (*loop)->backend();
  TrainOptions limited = options_;
  limited.memory_max = backend.StateBytes() + backend.ActivationBytes(4);
  TrainOptions wished = options_;
  wished.micro_batch = 2;
  for (const TrainOptions& options : {limited, wished}) {
    Course parts;
    Train(options, single, &parts);
    EXPECT_EQ(parts.losses, whole.losses);
    EXPECT_EQ(parts.weights, whole.weights);
    // Memory for the whole share would not be there.
    LikeGpu::Noted noted;
    auto planned = TrainLoop::Create(options, MakeLikeGpu(single, noted));
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE((*planned)->Enter(single, {}).ok());
    EXPECT_EQ(noted.reserved, options.micro_batch == 0 ? 4 : 2);
  }
  limited.micro_batch = 7;
  auto refused = TrainLoop::Create(limited);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_TRUE(absl::IsResourceExhausted((*refused)->Enter(single, {})));
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

TEST(Sample, TokensComeAsOftenAsTheirProbabilitiesSay) {
  // The probabilities are 1/7, 4/7 and 2/7; with temperature 1/2 1/21, 16/21
  // and 4/21.
  const std::vector<float> logits = {0, 2 * 0.6931472f, 0.6931472f};
  const struct {
    double temperature;
    std::vector<double> expect;
  } rows[] = {{1, {1.0 / 7, 4.0 / 7, 2.0 / 7}},
              {0.5, {1.0 / 21, 16.0 / 21, 4.0 / 21}},
              {0, {0, 1, 0}}};
  for (const auto& row : rows) {
    constexpr int kDraws = 20000;
    Random random(5);
    std::vector<int> counts(3);
    for (int i = 0; i < kDraws; ++i) {
      ++counts[DrawToken(logits, row.temperature, random)];
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(double(counts[i]) / kDraws, row.expect[i], 0.02)
          << row.temperature << " " << i;
    }
  }
}

TEST(TrainOptions, CommandLine) {
  struct Row {
    std::vector<const char*> flags;
    std::optional<int> expect;
    const char* said = "";  // Part of the message.
  };
  const Row kRows[] = {
      {{"--data", "a", "b", "--steps", "5"}, std::nullopt},
      {{"--data", "a", "--lr", "1e-4", "--seed", "3"}, std::nullopt},
      {{"--help"}, 0},
      {{"--version"}, 0},
      {{}, 2, "--data is required"},
      {{"--sample", "a", "--checkpoints", "b"}, std::nullopt},
      {{"--sample", "a"}, 2, "--sample needs a model: give --init-from"},
      {{"--sample", "", "--checkpoints", "b"}, 2, "--sample: got an empty"},
      {{"--sample", "a", "--checkpoints", "b", "--sample-tokens", "0"},
       2,
       "--sample-tokens: got 0"},
      {{"--sample", "a", "--checkpoints", "b", "--temperature", "nan"},
       2,
       "--temperature: got nan"},
      {{"--data", "a", "--sample-tokens", "5"}, 2, "--sample-tokens requires"},
      {{"--data", "a", "--temperature", "1"}, 2, "--temperature requires"},
      {{"--data"}, 2, "--data"},
      {{"--data", ""}, 2, "--data: got an empty value"},
      {{"--data", "a", "--checkpoints", ""}, 2, "--checkpoints: got an empty"},
      {{"--check", "--require-net", ""}, 2, "--require-net: got an empty"},
      {{"--check", "--device", "cpu", "--collective-timeout", "9", "--json",
        "--pings", "7", "--require-net", "any"},
       std::nullopt},
      {{"--check", "--skip-spikes", "4"},
       2,
       "--check: got --skip-spikes, expected only"},
      {{"--check", "--val-data", "a", "--init-from", "b"},
       2,
       "--check: got --val-data, --init-from, expected only"},
      {{"--check", "--sample", "a", "--checkpoints", "b"},
       2,
       "--check: got --sample, --checkpoints, expected only"},
      {{"--check", "--val-every", "5"}, 2, "--check: got --val-every"},
      {{"--check", "--data", "a"}, 2, "leave it out, or leave out --check"},
      {{"--check", "--new-data"}, 2, "--check: got --new-data"},
      {{"--check", "--log-json"}, 2, "--check: got --log-json"},
      {{"--check", "--min-busbw", ""}, 2, "--min-busbw: got an empty"},
      {{"--data", "a", "--stepz", "5"}, 2, "5"},
      {{"--data", "a", "--steps", "0"}, 2, "--steps: got 0, expected 1"},
      {{"--data", "a", "--steps", "x"}, 2, "--steps: got x"},
      {{"--data", "a", "--batch", "65537"}, 2, "--batch: got 65537"},
      {{"--data", "a", "--micro-batch", "3", "--memory-max", "1e9"},
       std::nullopt},
      {{"--data", "a", "--micro-batch", "0"}, 2, "--micro-batch: got 0"},
      {{"--data", "a", "--seed", "-1"}, 2, "--seed: got -1"},
      {{"--data", "a", "--width", "30", "--heads", "4"}, 2, "30"},
      {{"--data", "a", "--context", "-1"}, 2, "-1"},
      {{"--data", "a", "--lr", "nan"}, 2, "--lr: got nan"},
      {{"--data", "a", "--lr", "0"}, 2, "--lr: got 0"},
      {{"--data", "a", "--min-lr", "0", "--schedule", "linear"}, std::nullopt},
      {{"--data", "a", "--min-lr", "-1"}, 2, "--min-lr: got -1"},
      {{"--data", "a", "--min-lr", "0.004"},
       2,
       "--min-lr: got 0.004, expected at most --lr, 0.003"},
      {{"--data", "a", "--schedule", "step"},
       2,
       "--schedule: got step, expected cosine, linear, constant"},
      {{"--data", "a", "--beta1", "1"}, 2, "--beta1: got 1"},
      {{"--data", "a", "--beta2", "1"}, 2, "--beta2: got 1"},
      {{"--data", "a", "--weight-decay", "-1"}, 2, "--weight-decay: got -1"},
      {{"--data", "a", "--clip", "0"}, 2, "--clip: got 0"},
      {{"--data", "a", "--device", "tpu"},
       2,
       "--device: got tpu, expected auto, cpu, cuda"},
      {{"--data", "a", "--device", "2"}, 2, "--device: got 2"},
      {{"--data", "a", "--saved-by", "me"},
       2,
       "--saved-by: got me, expected rank0, node"},
      {{"--data", "a", "--model", "gpt5"}, 2, "gpt5"},
      {{"--data", "a", "--save-every", "0"}, 2, "--save-every: got 0"},
      {{"--data", "a", "--keep-last", "0"}, 2, "--keep-last: got 0"},
      {{"--data", "a", "--log-every", "0"}, 2, "--log-every: got 0"},
      {{"--data", "a", "--warmup", "-1"}, 2, "--warmup: got -1"},
      {{"--data", "a", "--layers", "0"}, 2, "0"},
      {{"--data", "a", "--val-data", "b", "c", "--val-every", "5",
        "--val-batches", "3"},
       std::nullopt},
      {{"--data", "a", "--val-data"}, 2, "--val-data"},
      {{"--data", "a", "--val-every", "5"}, 2, "--val-every needs --val-data"},
      {{"--data", "a", "--val-batches", "5"},
       2,
       "--val-batches needs --val-data"},
      {{"--data", "a", "--val-data", "b", "--val-every", "0"},
       2,
       "--val-every: got 0"},
      {{"--data", "a", "--skip-spikes", "4"}, std::nullopt},
      {{"--data", "a", "--skip-spikes", "0.5"},
       2,
       "--skip-spikes: got 0.5, expected 1"},
      {{"--data", "a", "--skip-spikes", "nan"}, 2, "--skip-spikes: got nan"},
      {{"--data", "a", "--collective-timeout", "0"}, 2, "--collective-timeout"},
      {{"--data", "a", "--collective-timeout", "nan"},
       2,
       "--collective-timeout: got nan"},
  };
  for (const Row& row : kRows) {
    std::vector<const char*> argv = {"rollcall-train"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    TrainOptions options;
    testing::internal::CaptureStderr();
    const std::optional<int> code =
        ParseOptions(argv.size(), argv.data(), &options);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, row.expect) << testing::PrintToString(row.flags);
    EXPECT_NE(said.find(row.said), std::string::npos)
        << testing::PrintToString(row.flags) << ": " << said;
  }
}

TEST(TrainOptions, TheSizeHasALearningRate) {
  const struct {
    std::vector<const char*> flags;
    LearningRates expect;
  } rows[] = {
      {{}, {3e-3f, 3e-4f, 20, 200, Schedule::kCosine}},
      {{"--model", "gpt2"}, {6e-4f, 6e-5f, 20, 200, Schedule::kCosine}},
      {{"--model", "gpt2", "--lr", "0.01", "--min-lr", "0", "--schedule",
        "constant"},
       {0.01f, 0, 20, 200, Schedule::kConstant}},
  };
  for (const auto& row : rows) {
    std::vector<const char*> argv = {"rollcall-train", "--data", "a"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    TrainOptions options;
    ASSERT_EQ(ParseOptions(argv.size(), argv.data(), &options), std::nullopt);
    const LearningRates rates = options.learning_rates();
    EXPECT_EQ(rates.peak, row.expect.peak);
    EXPECT_FLOAT_EQ(rates.last, row.expect.last);
    EXPECT_EQ(rates.schedule, row.expect.schedule);
  }
}

}  // namespace
}  // namespace rollcall
