// How the ranks of a world find and read a checkpoint: one rank reads it. And
// which changed flags a resume names.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/files.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/checkpointing.h"
#include "trainer/collective/single.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

constexpr char kModelFile[] = "model.safetensors";

// The bytes that this thread has read from files and connections.
uint64_t BytesRead() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  uint64_t bytes = 0;
  file >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

class ResumeTest : public Files {
 protected:
  ResumeTest() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "the quick brown fox, number ";
    options_.data = {Write("text", text)};
    options_.model = {2, 2, 64, 16};
    options_.batch = 16;
    options_.steps = 100;
    options_.checkpoints = Path("run");
  }

  // Saves the checkpoints of steps 1, 2, ... `steps`.
  void Save(int steps) {
    auto loop = TrainLoop::Create(options_);
    ASSERT_TRUE(loop.ok()) << loop.status();
    SingleCollective single;
    ASSERT_TRUE((*loop)->Enter(single, {}).ok());
    auto saves = Checkpointing::Open(options_);
    ASSERT_TRUE(saves.ok()) << saves.status();
    for (int i = 0; i < steps; ++i) {
      ASSERT_TRUE((*loop)->Step().ok());
      ASSERT_TRUE((*saves)->SaveNow(**loop, absl::InfiniteFuture()).ok());
    }
    bytes_ = 0;
    for (const auto& one : std::filesystem::directory_iterator(Step(steps))) {
      bytes_ += one.file_size();
    }
  }

  std::string Step(int step, const std::string& run = "run") const {
    return Path(absl::StrCat(run, "/step-0000000", step));
  }

  // Changes the last byte of a tensor file. Its size stays.
  static void Damage(const std::string& folder) {
    const std::string path = absl::StrCat(folder, "/", kModelFile);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(byte);
  }

  struct Resumed {
    int64_t step = -1;
    int64_t stored = -1;  // What this rank then knows as stored.
    std::vector<float> weights;
  };

  // Lets `ranks` ranks resume, rank r from the folder `folders[r]` (or all
  // from "run"). Counts in read_ the bytes that they read of checkpoints.
  std::vector<Resumed> Resume(int ranks,
                              const std::vector<std::string>& folders = {}) {
    std::vector<Resumed> all(ranks);
    read_ = 0;
    loads_ = 0;
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> collective) {
      const int r = collective->rank();
      TrainOptions options = options_;
      if (!folders.empty()) options.checkpoints = Path(folders[r]);
      auto loop = TrainLoop::Create(options);
      ASSERT_TRUE(loop.ok()) << loop.status();
      auto saves = Checkpointing::Open(options);
      ASSERT_TRUE(saves.ok()) << saves.status();
      const uint64_t before = BytesRead();
      auto stored =
          (*saves)->Newest((*loop)->backend().config(), (*loop)->data());
      read_ += BytesRead() - before;
      ASSERT_TRUE(stored.ok()) << stored.status();
      if (stored->has_value()) Count(**stored);
      const absl::Status entered = (*loop)->Enter(*collective, {}, &*stored);
      ASSERT_TRUE(entered.ok()) << entered;
      all[r].step = (*loop)->steps_done();
      if (stored->has_value()) all[r].stored = (*stored)->state.step;
      const auto weights = (*loop)->backend().state(StatePart::kWeights);
      all[r].weights.assign(weights.begin(), weights.end());
      EXPECT_TRUE((*loop)->whole());
      EXPECT_TRUE(collective->Finish().ok());
    });
    for (const Resumed& one : all) {
      EXPECT_EQ(one.step, all[0].step);
      EXPECT_EQ(one.weights, all[0].weights);
    }
    return all;
  }

  // Makes the state count what it reads.
  void Count(StoredState& stored) {
    const auto load = stored.load;
    stored.load = [this, load](StateTensors* tensors) {
      ++loads_;
      const uint64_t before = BytesRead();
      const absl::Status status = load(tensors);
      read_ += BytesRead() - before;
      return status;
    };
    const auto find_older = stored.find_older;
    stored.find_older = [this, find_older](std::optional<StoredState>* to) {
      const uint64_t before = BytesRead();
      const absl::Status status = find_older(to);
      read_ += BytesRead() - before;
      if (to->has_value()) Count(**to);
      return status;
    };
  }

  TrainOptions options_;
  uint64_t bytes_ = 0;  // Of one checkpoint.
  std::atomic<uint64_t> read_ = 0;
  std::atomic<int> loads_ = 0;
};

TEST_F(ResumeTest, SixteenRanksReadACheckpointOnce) {
  Save(3);
  ASSERT_GT(bytes_, 100u * 16 * 64);  // Far more than the small files have.
  for (const int ranks : {2, 16}) {
    const auto all = Resume(ranks);
    EXPECT_EQ(all[0].step, 3);
    EXPECT_GE(read_, bytes_) << ranks;
    EXPECT_LE(read_, bytes_ * 3 / 2) << ranks;
    EXPECT_EQ(loads_, 1);
  }
}

TEST_F(ResumeTest, ADamagedOneIsReadOnceToo) {
  Save(3);
  Damage(Step(3));
  Damage(Step(2));
  const auto all = Resume(4);
  EXPECT_EQ(all[0].step, 1);
  EXPECT_EQ(all[3].stored, 1);
  EXPECT_EQ(loads_, 3);
  EXPECT_LE(read_, bytes_ * 7 / 2);
}

TEST_F(ResumeTest, AllAreDamaged) {
  Save(2);
  Damage(Step(1));
  Damage(Step(2));
  const auto all = Resume(3);
  EXPECT_EQ(all[0].step, 0);
  EXPECT_EQ(all[0].stored, -1);
}

// With --saved-by node, each node has its own copy.
TEST_F(ResumeTest, AnotherCopyOfADamagedOneIsRead) {
  Save(3);
  for (const char* node : {"a", "b", "c"}) {
    std::filesystem::copy(Path("run"), Path(node),
                          std::filesystem::copy_options::recursive);
  }
  Damage(Step(3, "a"));
  std::filesystem::remove_all(Step(3, "c"));
  const auto all = Resume(3, {"a", "b", "c"});
  EXPECT_EQ(all[0].step, 3);
  EXPECT_EQ(all[0].stored, 2);
  EXPECT_EQ(all[1].stored, 3);
  EXPECT_EQ(all[2].stored, 2);
  EXPECT_EQ(loads_, 2);
}

// The newest one is not rank 0's, and a node has none.
TEST_F(ResumeTest, NodesWithDifferentNewestOnes) {
  Save(3);
  for (const char* node : {"a", "b"}) {
    std::filesystem::copy(Path("run"), Path(node),
                          std::filesystem::copy_options::recursive);
  }
  std::filesystem::remove_all(Step(3, "a"));
  const auto all = Resume(3, {"a", "b", "none"});
  EXPECT_EQ(all[0].step, 3);
  EXPECT_EQ(all[2].stored, -1);
  EXPECT_EQ(loads_, 1);
  Damage(Step(3, "b"));
  EXPECT_EQ(Resume(3, {"a", "b", "none"})[0].step, 2);
}

TEST(ChangedOptions, Table) {
  // A training of --lr 0.01, with the default of --min-lr if `last` is 0.001.
  const auto before = [](float last, Schedule schedule) {
    TrainState state;
    state.learning_rate = 0.01f;
    state.fall = RateFall{last, schedule};
    return state;
  };
  TrainState old = before(0, Schedule::kLinear);
  old.fall = std::nullopt;
  const auto cosine = Schedule::kCosine, linear = Schedule::kLinear,
             constant = Schedule::kConstant;
  const struct {
    const char* what;
    TrainState before;
    float lr;
    std::optional<float> min_lr;
    Schedule schedule;
    const char* expected;
  } kRows[] = {
      {"the same", before(0.001f, cosine), 0.01f, {}, cosine, ""},
      {"the default, given", before(0.001f, cosine), 0.01f, 0.001f, cosine, ""},
      {"the default follows --lr",
       before(0.001f, cosine),
       0.02f,
       {},
       cosine,
       "--lr 0.01 before, 0.02 now"},
      {"given now", before(0.001f, cosine), 0.01f, 0.0f, cosine,
       "--min-lr 0.001 before, 0 now"},
      {"given before",
       before(0.002f, linear),
       0.01f,
       {},
       linear,
       "--min-lr 0.002 before, 0.001 now"},
      {"another schedule",
       before(0.001f, cosine),
       0.01f,
       {},
       linear,
       "--schedule cosine before, linear now"},
      {"both", before(0, linear), 0.01f, 0.005f, cosine,
       "--schedule linear before, cosine now; --min-lr 0 before, 0.005 now"},
      {"a constant rate has no last one",
       before(0.002f, constant),
       0.01f,
       {},
       constant,
       ""},
      {"nor if it is constant from now on",
       before(0.002f, cosine),
       0.01f,
       {},
       constant,
       "--schedule cosine before, constant now"},
      {"version 1 does not tell", old, 0.01f, 0.003f, cosine, ""},
      {"but the rest of it does", old, 0.02f, 0.003f, cosine,
       "--lr 0.01 before, 0.02 now"},
  };
  for (const auto& row : kRows) {
    TrainOptions options;
    options.learning_rate = row.lr;
    options.last_learning_rate = row.min_lr;
    options.schedule = row.schedule;
    TrainState state = row.before;
    state.warmup = options.warmup;
    state.steps = options.steps;
    state.batch = options.batch;
    EXPECT_EQ(ChangedOptions(state, options), row.expected) << row.what;
  }
}

}  // namespace
}  // namespace rollcall
