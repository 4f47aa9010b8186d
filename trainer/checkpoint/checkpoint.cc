#include "trainer/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "trainer/checkpoint/files/gpt2_config.h"
#include "trainer/checkpoint/files/hashed_file.h"
#include "trainer/checkpoint/files/json_text.h"
#include "trainer/checkpoint/files/tensor_file.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

constexpr const char* kModel = kCheckpointFiles[0];
constexpr const char* kConfig = kCheckpointFiles[1];
constexpr const char* kOptimizer = kCheckpointFiles[2];
constexpr const char* kTrainState = kCheckpointFiles[3];

constexpr char kFirstMoment[] = "exp_avg.";
constexpr char kSecondMoment[] = "exp_avg_sq.";

using Constant = TensorArray<const float>;

absl::Status InFile(const std::string& folder, const char* name,
                    const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(folder, "/", name, ": ", status.message()));
}

// Creates one file, calls `fill` to write its contents, and adds it to the
// manifest.
template <typename Fill>
absl::Status WriteFile(const DiskCalls& calls, const std::string& folder,
                       const char* name, Manifest* manifest, Fill fill) {
  absl::StatusOr<HashedWriter> file = HashedWriter::Create(calls, folder, name);
  if (!file.ok()) return file.status();
  if (absl::Status s = fill(*file); !s.ok()) return s;
  absl::StatusOr<ManifestFile> written = file->Finish();
  if (!written.ok()) return written.status();
  manifest->files.push_back(*std::move(written));
  return absl::OkStatus();
}

absl::Status WriteText(const DiskCalls& calls, const std::string& folder,
                       const char* name, Manifest* manifest,
                       const std::string& text) {
  return WriteFile(calls, folder, name, manifest,
                   [&](HashedWriter& file) { return file.Write(text); });
}

absl::Status CheckWritable(const TrainState& state, const std::string& text,
                           const StateTensors& tensors) {
  if (absl::Status s = ParseTrainState(text).status(); !s.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state cannot be saved: ", s.message()));
  }
  const size_t expected = GptLayout(state.model).size;
  for (const auto* values :
       {&tensors.weights, &tensors.first, &tensors.second}) {
    if (values->size() == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the state cannot be saved: expected ", expected,
                     " values, found ", values->size()));
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const std::string& folder, const Manifest& manifest) {
  for (const char* name : kCheckpointFiles) {
    if (manifest.Find(name) != nullptr) continue;
    return InFile(folder, kManifestFile,
                  WrongField("files", name, "no such file"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainState> ReadTrainState(const std::string& folder,
                                          const Manifest& manifest) {
  absl::StatusOr<HashedReader> file =
      HashedReader::Open(folder, *manifest.Find(kTrainState));
  if (!file.ok()) return file.status();
  if (file->bytes() > TrainState::kTextBytesMax) {
    return InFile(
        folder, kTrainState,
        WrongField("bytes", absl::StrCat(TrainState::kTextBytesMax, " at most"),
                   absl::StrCat(file->bytes())));
  }
  std::string text(file->bytes(), '\0');
  absl::Status status = file->Read(text.data(), text.size());
  status.Update(status.ok() ? file->Finish() : status);
  if (!status.ok()) return status;
  absl::StatusOr<TrainState> state = ParseTrainState(text);
  if (!state.ok()) return InFile(folder, kTrainState, state.status());
  if (state->step == manifest.step) return state;
  return InFile(
      folder, kTrainState,
      WrongField("step",
                 absl::StrCat(manifest.step, " as ", kManifestFile, " says"),
                 absl::StrCat(state->step)));
}

bool HoldsTensors(const ManifestFile& file) {
  return file.name == kModel || file.name == kOptimizer;
}

// Adds what tells this copy of a file from another one with the same contents.
absl::Status AddToCopy(const std::string& path, uint64_t* copy) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read"));
  }
  for (const int64_t part :
       {static_cast<int64_t>(about.st_ino), int64_t{about.st_size},
        int64_t{about.st_mtim.tv_sec}, int64_t{about.st_mtim.tv_nsec}}) {
    *copy = Mix(*copy + static_cast<uint64_t>(part));
  }
  return absl::OkStatus();
}

// Verifies the size and hash of any file except trainer_state.json, and in
// tensor files also the tensors' names and shapes.
absl::Status VerifyFile(const std::string& folder, const ManifestFile& expected,
                        const GptLayout& layout) {
  absl::StatusOr<HashedReader> file = HashedReader::Open(folder, expected);
  if (!file.ok()) return file.status();
  absl::Status status;
  if (expected.name == kModel) status = CheckTensors(layout, {""}, *file);
  if (expected.name == kOptimizer) {
    status = CheckTensors(layout, {kFirstMoment, kSecondMoment}, *file);
  }
  if (!status.ok()) return status;
  return file->Finish();
}

absl::Status LoadFile(const FoundCheckpoint& found, const char* name,
                      const GptLayout& layout,
                      absl::Span<const TensorArray<float>> arrays) {
  const ManifestFile* const expected = found.manifest.Find(name);
  if (expected == nullptr) {
    return InFile(found.path, kManifestFile,
                  WrongField("files", name, "no such file"));
  }
  absl::StatusOr<HashedReader> file = HashedReader::Open(found.path, *expected);
  if (!file.ok()) return file.status();
  if (absl::Status s = ReadTensors(layout, arrays, *file); !s.ok()) return s;
  return file->Finish();
}

}  // namespace

absl::Status StateTensors::Resize(size_t parameters) {
  std::vector<float> parts[3];
  try {
    for (std::vector<float>& part : parts) part.resize(parameters);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a checkpoint of ", parameters, " parameters needs ",
                     parameters * 12, " bytes of memory, which are not free"));
  }
  pins.clear();
  weights = std::move(parts[0]);
  first = std::move(parts[1]);
  second = std::move(parts[2]);
  return absl::OkStatus();
}

absl::StatusOr<Manifest> WriteCheckpoint(const DiskCalls& calls,
                                         const std::string& folder,
                                         const TrainState& state,
                                         const StateTensors& tensors) {
  const std::string text = FormatTrainState(state);
  absl::Status status = CheckWritable(state, text, tensors);
  if (!status.ok()) return status;
  const GptLayout layout(state.model);
  Manifest manifest;
  manifest.step = state.step;
  status = WriteFile(calls, folder, kModel, &manifest, [&](HashedWriter& file) {
    return WriteTensors(layout, {Constant{"", tensors.weights}}, file);
  });
  if (!status.ok()) return status;
  status =
      WriteFile(calls, folder, kOptimizer, &manifest, [&](HashedWriter& file) {
        return WriteTensors(layout,
                            {Constant{kFirstMoment, tensors.first},
                             Constant{kSecondMoment, tensors.second}},
                            file);
      });
  if (!status.ok()) return status;
  status = WriteText(calls, folder, kConfig, &manifest,
                     FormatGpt2Config(state.model));
  if (!status.ok()) return status;
  status = WriteText(calls, folder, kTrainState, &manifest, text);
  if (!status.ok()) return status;
  Manifest itself;  // The manifest does not list itself.
  status = WriteText(calls, folder, kManifestFile, &itself,
                     FormatManifest(manifest));
  if (!status.ok()) return status;
  if (calls.sync_folder(folder) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(folder, ": cannot be synced"));
  }
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadCheckpointFile(
      absl::StrCat(folder, "/", kManifestFile), Manifest::kTextBytesMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = ParseManifest(*text);
  if (manifest.ok()) return manifest;
  return InFile(folder, kManifestFile, manifest.status());
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& folder) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status s = CheckFiles(folder, *manifest); !s.ok()) return s;
  absl::StatusOr<TrainState> state = ReadTrainState(folder, *manifest);
  if (!state.ok()) return state.status();
  const GptLayout layout(state->model);
  FoundCheckpoint found;
  for (const ManifestFile& file : manifest->files) {
    if (file.name == kTrainState) continue;
    absl::Status status;
    if (HoldsTensors(file)) {
      // Opening checks the size.
      status = HashedReader::Open(folder, file).status();
      if (status.ok()) {
        status = AddToCopy(absl::StrCat(folder, "/", file.name), &found.copy);
      }
    } else {
      status = VerifyFile(folder, file, layout);
    }
    if (!status.ok()) return status;
  }
  found.path = folder;
  found.state = *std::move(state);
  found.manifest = *std::move(manifest);
  return found;
}

absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder) {
  absl::StatusOr<FoundCheckpoint> found = FindCheckpoint(folder);
  if (!found.ok()) return found;
  const GptLayout layout(found->state.model);
  for (const ManifestFile& file : found->manifest.files) {
    if (!HoldsTensors(file)) continue;
    if (absl::Status s = VerifyFile(folder, file, layout); !s.ok()) return s;
  }
  return found;
}

absl::Status CheckModel(const FoundCheckpoint& found,
                        const GptConfig& expected) {
  const absl::Status status = SameModel(expected, found.state.model);
  return status.ok() ? status : InFile(found.path, kTrainState, status);
}

absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder,
                                                 const GptConfig& expected) {
  absl::StatusOr<FoundCheckpoint> found = VerifyCheckpoint(folder);
  if (!found.ok()) return found;
  if (absl::Status s = CheckModel(*found, expected); !s.ok()) return s;
  return found;
}

absl::Status LoadCheckpoint(const FoundCheckpoint& found,
                            StateTensors* tensors) {
  const GptLayout layout(found.state.model);
  absl::Status status = tensors->Resize(layout.size);
  if (!status.ok()) return status;
  status =
      LoadFile(found, kModel, layout, {{"", absl::MakeSpan(tensors->weights)}});
  if (!status.ok()) return status;
  return LoadFile(found, kOptimizer, layout,
                  {{kFirstMoment, absl::MakeSpan(tensors->first)},
                   {kSecondMoment, absl::MakeSpan(tensors->second)}});
}

}  // namespace rollcall
