// Test states of a small model, different for each step.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_CHECKPOINT_CHECKPOINT_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_CHECKPOINT_CHECKPOINT_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/unit/trainer/files.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace rollcall {

class CheckpointFixture : public Files {
 protected:
  static GptConfig Model() {
    GptConfig model;
    model.layers = 2;
    model.heads = 2;
    model.width = 4;
    model.context = 8;
    model.vocabulary = 16;
    return model;
  }

  static TrainState StateOf(int64_t step) {
    TrainState state;
    state.step = step;
    state.loss = 1.0 / 3 + static_cast<double>(step);
    state.position = {7, static_cast<uint64_t>(step)};
    state.powers = {0.1 + 0.2, 1e-300};
    state.model = Model();
    state.seed = ~uint64_t{0};
    state.batch = 16;
    state.learning_rate = 0.1f;
    state.fall = RateFall{0.01f, Schedule::kLinear};
    state.warmup = 3;
    state.steps = 1000;
    state.data_fingerprint = 0x9e3779b97f4a7c15u;
    state.world_size = 3;
    state.backend = "cpu";
    return state;
  }

  // The values are exact in a float.
  static StateTensors TensorsOf(int64_t step) {
    StateTensors tensors;
    EXPECT_TRUE(tensors.Resize(GptLayout(Model()).size).ok());
    for (size_t i = 0; i < tensors.weights.size(); ++i) {
      const auto at = static_cast<float>(i);
      tensors.weights[i] = at + static_cast<float>(step) / 1024;
      tensors.first[i] = -at;
      tensors.second[i] = at / 4096;
    }
    return tensors;
  }

  std::unique_ptr<CheckpointStore> Open(
      int keep_last = 3, DiskCalls calls = DiskCalls::System()) const {
    auto store =
        CheckpointStore::Open(Path("run"), keep_last, std::move(calls));
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  static absl::Status Save(CheckpointStore& store, int64_t step) {
    return store.Save(StateOf(step), TensorsOf(step)).status();
  }

  // The step of the newest checkpoint that loads, which must be as it was
  // saved; -1: none.
  static int64_t NewestStep(const CheckpointStore& store,
                            std::vector<std::string>* skipped) {
    auto newest = store.Newest(Model(), skipped);
    EXPECT_TRUE(newest.ok()) << newest.status();
    StateTensors loaded;
    while (newest.ok() && newest->has_value()) {
      const absl::Status status = LoadCheckpoint(**newest, &loaded);
      if (status.ok()) break;
      skipped->push_back(std::string(status.message()));
      const FoundCheckpoint damaged = **newest;
      newest = store.Newest(Model(), skipped, &damaged);
      EXPECT_TRUE(newest.ok()) << newest.status();
    }
    if (!newest.ok() || !newest->has_value()) return -1;
    const int64_t step = (*newest)->state.step;
    EXPECT_EQ(FormatTrainState((*newest)->state),
              FormatTrainState(StateOf(step)));
    const StateTensors expected = TensorsOf(step);
    EXPECT_TRUE(loaded.weights == expected.weights);
    EXPECT_TRUE(loaded.first == expected.first);
    EXPECT_TRUE(loaded.second == expected.second);
    return step;
  }

  // The entries of the store's folder, sorted, without its lock file.
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(Path("run"))) {
      if (one.path().filename() != ".lock")
        names.push_back(one.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static void ExpectSays(absl::string_view text,
                         const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), absl::string_view::npos)
          << "\"" << text << "\" does not say \"" << word << "\"";
    }
  }
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_CHECKPOINT_CHECKPOINT_FIXTURE_H_
