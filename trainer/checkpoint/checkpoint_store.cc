#include "trainer/checkpoint/checkpoint_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "trainer/checkpoint/checkpoint_names.h"
#include "trainer/checkpoint/files/hashed_file.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

constexpr char kLatest[] = "latest";
constexpr char kLatestNew[] = "latest.partial";
constexpr char kLock[] = ".lock";
constexpr char kDamaged[] = ".damaged";

absl::Status SystemSays(const std::string& path, absl::string_view doing) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", doing));
}

bool IsOurs(const std::string& file) {
  return file == kManifestFile ||
         std::find(std::begin(kCheckpointFiles), std::end(kCheckpointFiles),
                   file) != std::end(kCheckpointFiles);
}

bool Exists(const std::string& path) {
  struct stat about;
  return lstat(path.c_str(), &about) == 0;
}

absl::Status MakeFolders(const DiskCalls& calls, const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (calls.make_folder(part) != 0 && errno != EEXIST) {
      return SystemSays(part, "cannot be made");
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<std::string>> List(const std::string& folder) {
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return SystemSays(folder, "cannot be listed");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(open);
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  absl::Status status;
  if (errno != 0) status = SystemSays(folder, "cannot be listed");
  closedir(open);
  if (!status.ok()) return status;
  return names;
}

struct Entry {
  std::string name;
  CheckpointName means;
};

// In the order in which checkpoints are tried: the newest step first, and of
// the entries of one step the whole checkpoint.
bool IsAfter(const CheckpointName& a, const CheckpointName& b) {
  return a.step != b.step ? a.step < b.step : a.kind > b.kind;
}

// The store's own entries in that order.
std::vector<Entry> Sorted(const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const std::optional<CheckpointName> means = ParseCheckpointName(name);
    if (means.has_value()) entries.push_back({name, *means});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return IsAfter(b.means, a.means);
  });
  return entries;
}

// Warns if the file `latest` is wrong. No code relies on its contents.
void CheckLatest(const std::string& folder,
                 const std::vector<std::string>& names,
                 std::vector<std::string>* skipped) {
  const std::string path = absl::StrCat(folder, "/", kLatest);
  if (!Exists(path)) return;
  constexpr size_t kBytesMax = 256;
  const absl::StatusOr<std::string> text = ReadCheckpointFile(path, kBytesMax);
  if (!text.ok()) {
    skipped->push_back(std::string(text.status().message()));
    return;
  }
  const absl::string_view name = absl::StripSuffix(*text, "\n");
  if (std::find(names.begin(), names.end(), name) != names.end() &&
      ParseCheckpointName(name).has_value()) {
    return;
  }
  skipped->push_back(absl::StrCat(
      path, ": expected the name of a checkpoint in this folder, found \"",
      Excerpt(name), "\""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(
    const std::string& folder, int keep_last, DiskCalls calls) {
  if (folder.empty() || keep_last < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoints: expected a folder and at least one to keep, found \"",
        folder, "\" and ", keep_last));
  }
  if (absl::Status s = MakeFolders(calls, folder); !s.ok()) return s;
  struct stat about;
  if (stat(folder.c_str(), &about) != 0) {
    return SystemSays(folder, "cannot be read");
  }
  if (!S_ISDIR(about.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     ": expected a folder, found something else; give "
                     "another one for checkpoints"));
  }
  // A process that has no permission to write here may still read.
  const int lock = open(absl::StrCat(folder, "/", kLock).c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  return std::unique_ptr<CheckpointStore>(
      new CheckpointStore(folder, keep_last, std::move(calls), lock));
}

CheckpointStore::CheckpointStore(std::string folder, int keep_last,
                                 DiskCalls calls, int lock)
    : folder_(std::move(folder)),
      keep_last_(keep_last),
      calls_(std::move(calls)),
      lock_(lock) {}

CheckpointStore::~CheckpointStore() {
  if (lock_ >= 0) close(lock_);
}

// --- Reading -----------------------------------------------------------------

absl::StatusOr<std::optional<FoundCheckpoint>> CheckpointStore::Newest(
    const GptConfig& expected, std::vector<std::string>* skipped,
    const FoundCheckpoint* older_than) const {
  const absl::StatusOr<std::vector<std::string>> names = List(folder_);
  if (!names.ok()) return names.status();
  std::optional<CheckpointName> after;
  if (older_than == nullptr) {
    CheckLatest(folder_, *names, skipped);
  } else {
    after =
        ParseCheckpointName(absl::StripPrefix(older_than->path, folder_ + "/"));
  }
  for (const Entry& entry : Sorted(*names)) {
    if (entry.means.kind == CheckpointKind::kPartial) continue;
    if (after.has_value() && !IsAfter(entry.means, *after)) continue;
    absl::StatusOr<FoundCheckpoint> found = FindCheckpoint(Path(entry.name));
    if (found.ok() && found->state.step != entry.means.step) {
      found = WrongField(Path(entry.name) + ": step",
                         absl::StrCat(entry.means.step, " as its name says"),
                         absl::StrCat(found->state.step));
    }
    if (!found.ok()) {
      skipped->push_back(std::string(found.status().message()));
      continue;
    }
    if (absl::Status s = CheckModel(*found, expected); !s.ok()) return s;
    return std::optional<FoundCheckpoint>(*std::move(found));
  }
  return std::optional<FoundCheckpoint>();
}

// --- Saving ------------------------------------------------------------------

absl::StatusOr<SavedCheckpoint> CheckpointStore::Save(
    const TrainState& state, const StateTensors& tensors) {
  const auto failed = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("checkpoint of step ", state.step, ": ",
                                     status.message()));
  };
  // On a file system without locks, other processes are not excluded.
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) != 0 &&
      errno == EWOULDBLOCK) {
    return failed(absl::UnavailableError(absl::StrCat(
        folder_,
        ": another process is saving there; give each run its own folder, "
        "or wait for it")));
  }
  const auto unlock = absl::MakeCleanup([this] {
    if (lock_ >= 0) flock(lock_, LOCK_UN);
  });
  const std::string name = FormatCheckpointName(state.step);
  const std::string partial =
      Path(FormatCheckpointName(state.step, CheckpointKind::kPartial));
  const absl::StatusOr<Manifest> manifest = Write(partial, state, tensors);
  absl::Status status = manifest.status();
  if (status.ok()) status = PutInPlace(partial, name);
  if (!status.ok()) {
    (void)RemovePartial(partial);
    return failed(status);
  }
  SavedCheckpoint saved;
  saved.path = Path(name);
  for (const ManifestFile& file : manifest->files) saved.bytes += file.bytes;
  status = SwitchLatest(name);
  if (!status.ok()) saved.warnings.push_back(std::string(status.message()));
  Sweep(name, &saved.warnings);
  return saved;
}

absl::StatusOr<Manifest> CheckpointStore::Write(
    const std::string& partial, const TrainState& state,
    const StateTensors& tensors) const {
  // The folder of an unfinished save.
  if (Exists(partial)) {
    if (absl::Status s = RemovePartial(partial); !s.ok()) return s;
  }
  // An earlier save of this step moved the old checkpoint to `replaced`, and
  // stopped before it removed it.
  const std::string replaced =
      FormatCheckpointName(state.step, CheckpointKind::kReplaced);
  if (LooksWhole(FormatCheckpointName(state.step)) && LooksWhole(replaced)) {
    absl::Status s = RemoveWhole(replaced, state.step);
    if (!s.ok()) return s;
  }
  if (calls_.make_folder(partial) != 0) {
    return SystemSays(partial, "cannot be made");
  }
  return WriteCheckpoint(calls_, partial, state, tensors);
}

absl::StatusOr<std::string> CheckpointStore::SetAside(
    const std::string& name) const {
  const std::string path = Path(name);
  if (!Exists(path)) return std::string();
  const int64_t step = ParseCheckpointName(name)->step;
  const std::string replaced =
      FormatCheckpointName(step, CheckpointKind::kReplaced);
  const bool whole = LooksWhole(name);
  std::string aside = Path(whole ? replaced : name + kDamaged);
  if (calls_.rename(path, aside) == 0) return aside;
  return SystemSays(path, absl::StrCat("cannot be put aside as ", aside));
}

absl::Status CheckpointStore::PutInPlace(const std::string& partial,
                                         const std::string& name) const {
  const absl::StatusOr<std::string> aside = SetAside(name);
  if (!aside.ok()) return aside.status();
  absl::Status status;
  if (calls_.rename(partial, Path(name)) != 0) {
    status = SystemSays(partial, absl::StrCat("cannot be renamed to ", name));
  } else if (calls_.sync_folder(folder_) != 0) {
    status = SystemSays(folder_, "cannot be synced");
    (void)calls_.rename(Path(name), partial);
  }
  if (!status.ok() && !aside->empty()) (void)calls_.rename(*aside, Path(name));
  return status;
}

absl::Status CheckpointStore::SwitchLatest(const std::string& name) const {
  const std::string temporary = Path(kLatestNew);
  const auto write = [&]() -> absl::Status {
    absl::StatusOr<HashedWriter> file =
        HashedWriter::Create(calls_, folder_, kLatestNew);
    if (!file.ok()) return file.status();
    if (absl::Status s = file->Write(name + "\n"); !s.ok()) return s;
    if (absl::Status s = file->Finish().status(); !s.ok()) return s;
    if (calls_.rename(temporary, Path(kLatest)) == 0) return absl::OkStatus();
    return SystemSays(temporary, "cannot be renamed to latest");
  };
  if (absl::Status s = write(); !s.ok()) {
    (void)calls_.remove_file(temporary);
    return s;
  }
  if (calls_.sync_folder(folder_) == 0) return absl::OkStatus();
  return SystemSays(folder_, "cannot be synced");
}

// --- Removing ----------------------------------------------------------------

void CheckpointStore::Sweep(const std::string& saved,
                            std::vector<std::string>* warnings) const {
  const auto warn = [&](const absl::Status& status) {
    if (!status.ok()) warnings->push_back(std::string(status.message()));
  };
  const absl::StatusOr<std::vector<std::string>> names = List(folder_);
  if (!names.ok()) return warn(names.status());
  const std::vector<Entry> entries = Sorted(*names);
  for (const Entry& entry : entries) {
    if (entry.means.kind != CheckpointKind::kPartial) continue;
    warn(RemovePartial(Path(entry.name)));
  }
  int others = 0;
  for (const Entry& entry : entries) {
    if (entry.means.kind == CheckpointKind::kPartial || entry.name == saved ||
        !LooksWhole(entry.name)) {
      continue;
    }
    const bool replaced = entry.means.kind == CheckpointKind::kReplaced;
    if (!replaced && ++others < keep_last_) continue;
    warn(RemoveWhole(entry.name, entry.means.step));
  }
}

bool CheckpointStore::LooksWhole(const std::string& name) const {
  const std::string path = Path(name);
  const absl::StatusOr<Manifest> manifest = ReadManifest(path);
  const absl::StatusOr<std::vector<std::string>> names = List(path);
  if (!manifest.ok() || !names.ok()) return false;
  for (const std::string& one : *names) {
    if (!IsOurs(one)) return false;
  }
  for (const ManifestFile& file : manifest->files) {
    struct stat about;
    if (lstat(absl::StrCat(path, "/", file.name).c_str(), &about) != 0 ||
        static_cast<uint64_t>(about.st_size) != file.bytes) {
      return false;
    }
  }
  return true;
}

// Renames the folder to a partial name first, so that a half removed checkpoint
// never has the name of a whole one.
absl::Status CheckpointStore::RemoveWhole(const std::string& name,
                                          int64_t step) const {
  const std::string partial =
      Path(FormatCheckpointName(step, CheckpointKind::kPartial));
  if (calls_.rename(Path(name), partial) != 0) {
    return SystemSays(Path(name), "cannot be removed");
  }
  if (calls_.sync_folder(folder_) != 0) {
    return SystemSays(folder_, "cannot be synced");
  }
  return RemovePartial(partial);
}

// A folder with unknown files stays, and so do these files. This is reported as
// an error.
absl::Status CheckpointStore::RemovePartial(const std::string& path) const {
  const absl::StatusOr<std::vector<std::string>> names = List(path);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::string file = absl::StrCat(path, "/", name);
    if (IsOurs(name) && calls_.remove_file(file) != 0) {
      return SystemSays(file, "cannot be removed");
    }
  }
  if (calls_.remove_folder(path) == 0) return absl::OkStatus();
  return SystemSays(path, "cannot be removed");
}

int64_t CheckpointStore::HighestStep() const {
  const absl::StatusOr<std::vector<std::string>> names = List(folder_);
  if (!names.ok()) return 0;
  for (const Entry& entry : Sorted(*names)) {
    if (entry.means.kind == CheckpointKind::kWhole) return entry.means.step;
  }
  return 0;
}

}  // namespace rollcall
