#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/trainer/checkpoint/checkpoint_fixture.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using Names = std::vector<std::string>;
using CheckpointTest = CheckpointFixture;

TEST_F(CheckpointTest, ReadsBackTheSameBits) {
  auto store = Open();
  Names skipped;
  EXPECT_EQ(NewestStep(*store, &skipped), -1);
  auto saved = store->Save(StateOf(100), TensorsOf(100));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, Path("run/step-00000100"));
  EXPECT_EQ(saved->warnings, Names());
  EXPECT_EQ(NewestStep(*store, &skipped), 100);
  EXPECT_EQ(skipped, Names());
  EXPECT_EQ(Entries(), (Names{"latest", "step-00000100"}));
  EXPECT_EQ(Read(Path("run/latest")), "step-00000100\n");
  // It can also be loaded by its own path.
  std::filesystem::rename(Path("run/step-00000100"), Path("moved"));
  auto found = VerifyCheckpoint(Path("moved"), Model());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->state.step, 100);
  EXPECT_EQ(VerifyCheckpoint(Path("none"), Model()).status().code(),
            Code::kNotFound);
}

TEST_F(CheckpointTest, KeepsTheLast) {
  auto store = Open(2);
  for (int64_t step : {100, 200, 300, 99999999, 100000000, 100000001}) {
    ASSERT_TRUE(Save(*store, step).ok());
  }
  // The order is by number. As text, 100000000 would come before 99999999.
  EXPECT_EQ(Entries(), (Names{"latest", "step-100000000", "step-100000001"}));
  Names skipped;
  EXPECT_EQ(NewestStep(*store, &skipped), 100000001);
}

TEST_F(CheckpointTest, RemovesNoUnknownEntry) {
  auto store = Open(1);
  ASSERT_TRUE(Save(*store, 100).ok());
  ASSERT_TRUE(Save(*store, 200).ok());
  ASSERT_EQ(Entries(), (Names{"latest", "step-00000200"}));
  // These must stay: a user's file in a checkpoint, a damaged checkpoint, and
  // folders of others.
  Write("run/step-00000200/tokenizer.json", "{}");
  ASSERT_TRUE(Save(*store, 300).ok());
  Write("run/step-00000300/manifest.json", "");
  for (const char* name :
       {"run/step-7", "run/step-00000001.old", "run/step-00000005.partial"}) {
    mkdir(Path(name).c_str(), 0755);
  }
  Write("run/step-00000005.partial/model.safetensors", "half");
  Write("run/notes", "mine");
  auto saved = store->Save(StateOf(400), TensorsOf(400));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->warnings, Names());
  EXPECT_EQ(Entries(),
            (Names{"latest", "notes", "step-00000001.old", "step-00000200",
                   "step-00000300", "step-00000400", "step-7"}));
  // Unknown files in an unfinished checkpoint stay too, and are reported.
  mkdir(Path("run/step-00000006.partial").c_str(), 0755);
  Write("run/step-00000006.partial/notes", "mine");
  saved = store->Save(StateOf(500), TensorsOf(500));
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->warnings.size(), 1u);
  ExpectSays(saved->warnings[0], {"step-00000006.partial"});
  EXPECT_EQ(Read(Path("run/step-00000006.partial/notes")), "mine");
}

TEST_F(CheckpointTest, AStepIsSavedAgain) {
  auto store = Open();
  ASSERT_TRUE(Save(*store, 100).ok());
  StateTensors other = TensorsOf(1);
  TrainState state = StateOf(100);
  state.world_size = 9;
  auto saved = store->Save(state, other);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->warnings, Names());
  EXPECT_EQ(Entries(), (Names{"latest", "step-00000100"}));
  Names skipped;
  auto newest = store->Newest(Model(), &skipped);
  ASSERT_TRUE(newest.ok() && newest->has_value());
  EXPECT_EQ((*newest)->state.world_size, 9);
  StateTensors loaded;
  ASSERT_TRUE(LoadCheckpoint(**newest, &loaded).ok());
  EXPECT_EQ(loaded.weights, other.weights);
  // A damaged checkpoint of the same step is renamed.
  Write("run/step-00000100/config.json", "");
  ASSERT_TRUE(Save(*store, 100).ok());
  EXPECT_EQ(Entries(),
            (Names{"latest", "step-00000100", "step-00000100.damaged"}));
  EXPECT_EQ(NewestStep(*store, &skipped), 100);
}

TEST_F(CheckpointTest, ReliesOnTheListingNotOnLatest) {
  auto store = Open();
  ASSERT_TRUE(Save(*store, 100).ok());
  ASSERT_TRUE(Save(*store, 200).ok());
  struct Row {
    std::string latest;
    size_t lines;
  };
  const Row kRows[] = {{"step-00000100\n", 0},
                       {"step-00000900\n", 1},
                       {"", 1},
                       {"notes", 1},
                       {"../../etc\n\x1b[31m", 1},
                       {std::string(9999, 'x'), 1}};
  for (const Row& row : kRows) {
    Write("run/latest", row.latest);
    Names skipped;
    EXPECT_EQ(NewestStep(*store, &skipped), 200);
    ASSERT_EQ(skipped.size(), row.lines) << row.latest;
    if (row.lines == 0) continue;
    ExpectSays(skipped[0], {Path("run/latest"), "expected", "found"});
    EXPECT_EQ(skipped[0].find('\x1b'), std::string::npos);
  }
  unlink(Path("run/latest").c_str());
  Names skipped;
  EXPECT_EQ(NewestStep(*store, &skipped), 200);
  EXPECT_EQ(skipped, Names());
}

class Damage : public CheckpointFixture {
 protected:
  Damage() : store_(Open()) {
    EXPECT_TRUE(Save(*store_, 100).ok());
    EXPECT_TRUE(Save(*store_, 200).ok());
  }

  std::string Newer(const std::string& file) const {
    return Path("run/step-00000200/") + file;
  }
  static Names AllFiles() {
    Names names = {kManifestFile};
    names.insert(names.end(), std::begin(kCheckpointFiles),
                 std::end(kCheckpointFiles));
    return names;
  }

  // Expects that the newer checkpoint is skipped, with a line that names
  // `file`.
  void ExpectSkipped(const std::string& file, const Names& words = {}) {
    Names skipped;
    EXPECT_EQ(NewestStep(*store_, &skipped), 100) << file;
    ASSERT_EQ(skipped.size(), 1u) << file;
    ExpectSays(skipped[0], {Newer(file)});
    ExpectSays(skipped[0], words);
  }
  // Makes one change in the text of `file`.
  void Replace(const std::string& file, const std::string& from,
               const std::string& to) {
    const std::string text = Read(Newer(file));
    ASSERT_NE(text.find(from), std::string::npos);
    Write("run/step-00000200/" + file, absl::StrReplaceAll(text, {{from, to}}));
  }

  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(Damage, AFlippedBitAnywhere) {
  for (const std::string& file : AllFiles()) {
    const std::string whole = Read(Newer(file));
    // Flips one bit in every byte of the small files, and in some bytes of the
    // large ones.
    const size_t stride = whole.size() > 4096 ? 61 : 1;
    for (size_t i = 0; i < whole.size(); i += stride) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i / stride % 8)));
      Write("run/step-00000200/" + file, flipped);
      ASSERT_FALSE(VerifyCheckpoint(Path("run/step-00000200")).ok())
          << file << " with byte " << i << " flipped";
    }
    ExpectSkipped(file);
    Write("run/step-00000200/" + file, whole);
  }
  Names skipped;
  EXPECT_EQ(NewestStep(*store_, &skipped), 200);
}

TEST_F(Damage, TruncatedLongerOrGone) {
  for (const std::string& file : AllFiles()) {
    const std::string whole = Read(Newer(file));
    // The final newline of a manifest is not covered by a hash.
    for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9},
                        whole.size() / 2, whole.size() - 2}) {
      ASSERT_EQ(truncate(Newer(file).c_str(), size), 0);
      ExpectSkipped(file, {"expected", "found"});
      Write("run/step-00000200/" + file, whole);
    }
    if (file != kManifestFile) {
      Write("run/step-00000200/" + file, whole + " ");
      ExpectSkipped(file, {"bytes", "expected", "found"});
    }
    unlink(Newer(file).c_str());
    ExpectSkipped(file, {"No such file"});
    mkdir(Newer(file).c_str(), 0755);
    ExpectSkipped(file, {"expected a file"});
    rmdir(Newer(file).c_str());
    ASSERT_EQ(mkfifo(Newer(file).c_str(), 0600), 0);
    ExpectSkipped(file, {"expected a file"});
    unlink(Newer(file).c_str());
    Write("run/step-00000200/" + file, whole);
  }
  Names skipped;
  EXPECT_EQ(NewestStep(*store_, &skipped), 200);
}

TEST_F(Damage, ANewerManifest) {
  Replace(kManifestFile, "\"version\": 1", "\"version\": 2");
  ExpectSkipped(kManifestFile,
                {"version", "expected 1, found 2", "newer rollcall"});
  EXPECT_EQ(VerifyCheckpoint(Path("run/step-00000200")).status().code(),
            Code::kFailedPrecondition);
  // A new save of that step renames the damaged one, and overwrites nothing.
  ASSERT_TRUE(Save(*store_, 200).ok());
  EXPECT_TRUE(std::filesystem::exists(
      Path("run/step-00000200.damaged/model.safetensors")));
}

TEST_F(Damage, AManifestOfAnotherFolder) {
  Replace(kManifestFile, "\"config.json\"", "\"../config.json\"");
  ExpectSkipped(kManifestFile, {"files[2].name"});
  Write("run/step-00000200/manifest.json",
        Read(Path("run/step-00000100/manifest.json")));
  ExpectSkipped("trainer_state.json");
  // A complete checkpoint has the name of another step.
  std::filesystem::remove_all(Path("run/step-00000200"));
  std::filesystem::copy(Path("run/step-00000100"), Path("run/step-00000200"));
  Names skipped;
  EXPECT_EQ(NewestStep(*store_, &skipped), 100);
  ASSERT_EQ(skipped.size(), 1u);
  ExpectSays(skipped[0], {"step-00000200: step", "expected 200", "found 100"});
}

// Foreign files, with a manifest that matches them.
TEST_F(Damage, ForeignTensors) {
  const std::string manifest = Read(Newer(kManifestFile));
  const std::string model = Read(Newer("model.safetensors"));
  struct Row {
    std::string from, to;
    Names words;
  };
  const Row kRows[] = {
      {"\"ln_f.bias\"", "\"ln_g.bias\"", {"header", "ln_g.bias"}},
      {"[4,12]", "[12,4]", {"c_attn.weight.shape", "[4, 12]", "[12, 4]"}},
      {"\"dtype\":\"F32\"", "\"dtype\":\"I32\"", {"dtype", "F32", "I32"}},
  };
  for (const Row& row : kRows) {
    Write("run/step-00000200/model.safetensors",
          absl::StrReplaceAll(model, {{row.from, row.to}}));
    ExpectSkipped("model.safetensors", row.words);
    Write("run/step-00000200/model.safetensors", model);
  }
}

TEST_F(CheckpointTest, AnotherModelIsAnErrorAndNotSkipped) {
  auto store = Open();
  ASSERT_TRUE(Save(*store, 100).ok());
  struct Row {
    int GptConfig::*field;
    const char* name;
  };
  const Row kRows[] = {{&GptConfig::layers, "model.layers"},
                       {&GptConfig::heads, "model.heads"},
                       {&GptConfig::width, "model.width"},
                       {&GptConfig::context, "model.context"},
                       {&GptConfig::vocabulary, "model.vocabulary"}};
  for (const Row& row : kRows) {
    GptConfig expected = Model();
    expected.*row.field *= 2;
    Names skipped;
    const absl::Status status = store->Newest(expected, &skipped).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    ExpectSays(status.message(),
               {Path("run/step-00000100/trainer_state.json"), row.name,
                absl::StrCat("expected ", expected.*row.field),
                absl::StrCat("found ", Model().*row.field)});
    EXPECT_EQ(
        VerifyCheckpoint(Path("run/step-00000100"), expected).status().code(),
        Code::kFailedPrecondition);
  }
}

TEST_F(CheckpointTest, AFileThatChangesAfterItVerifiedDoesNotLoad) {
  auto store = Open();
  ASSERT_TRUE(Save(*store, 100).ok());
  Names skipped;
  auto newest = store->Newest(Model(), &skipped);
  ASSERT_TRUE(newest.ok() && newest->has_value());
  const std::string path = "run/step-00000100/optimizer.safetensors";
  std::string text = Read(Path(path));
  text.back() ^= 1;
  Write(path, text);
  StateTensors tensors;
  const absl::Status status = LoadCheckpoint(**newest, &tensors);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  ExpectSays(status.message(), {Path(path), "sha256"});
}

TEST_F(CheckpointTest, ReportsWhatCannotBeOpenedOrSaved) {
  const std::string file = Write("file", "");
  EXPECT_EQ(CheckpointStore::Open(file).status().code(),
            Code::kFailedPrecondition);
  EXPECT_FALSE(CheckpointStore::Open(file + "/below").ok());
  EXPECT_EQ(CheckpointStore::Open("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckpointStore::Open(Path("a"), 0).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(CheckpointStore::Open(Path("a/b/c")).ok());

  auto store = Open();
  TrainState state = StateOf(100);
  state.loss = 0.0 / 0.0;
  EXPECT_EQ(store->Save(state, TensorsOf(100)).status().code(),
            Code::kInvalidArgument);
  StateTensors tensors = TensorsOf(100);
  tensors.second.pop_back();
  EXPECT_EQ(store->Save(StateOf(100), tensors).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Entries(), Names());
}

TEST_F(CheckpointTest, OneProcessSavesAtATime) {
  auto store = Open();
  DiskCalls calls = DiskCalls::System();
  int met = 0;
  auto sync = calls.sync_folder;
  // A second save begins during the first.
  calls.sync_folder = [&](const std::string& path) {
    EXPECT_EQ(Save(*store, 100).code(), Code::kUnavailable);
    ++met;
    return sync(path);
  };
  auto other = Open(3, calls);
  EXPECT_TRUE(Save(*other, 100).ok());
  EXPECT_GT(met, 0);
  EXPECT_TRUE(Save(*store, 200).ok());
}

}  // namespace
}  // namespace rollcall
