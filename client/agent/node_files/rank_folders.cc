#include "client/agent/node_files/rank_folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/agent/node_files/world_files.h"
#include "daemon/base/files/fd.h"
#include "daemon/core/limits.h"
#include "nlohmann/json.hpp"

namespace rollcall {

// Reads a rank's progress file. False: it has not changed.
bool RankFolders::Read(Progress& progress) {
  // A rank may have put anything there: only a plain file is read, and only as
  // many bytes as a number needs.
  const Fd fd(open(progress.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return false;
  }
  const int64_t written_ns =
      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (written_ns == progress.written_ns && info.st_size == progress.size) {
    return false;
  }
  progress.written_ns = written_ns;
  progress.size = info.st_size;
  char text[32];
  const ssize_t size = read(fd.get(), text, sizeof(text));
  std::string word(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  word = word.substr(0, word.find_first_of(" \t\r\n"));
  uint64_t step = 0;
  if (absl::SimpleAtoi(word, &step) && step <= Limits::step_max) {
    progress.step = std::max(progress.step, step);
  }
  return true;
}

void RankFolders::Begin(uint64_t generation, const RankFiles& files,
                        const std::vector<RankIncarnation>& waiting) {
  std::set<uint64_t> kept;
  for (const RankIncarnation& incarnation : waiting)
    kept.insert(incarnation.generation);
  for (auto at = notice_files_.begin(); at != notice_files_.end();) {
    if (kept.contains(at->first)) {
      // The ranks in `kept` have already reached the boundary of this notice.
      const AsUser as(user_);
      if (as.ok()) unlink(at->second.c_str());
      ++at;
    } else {
      folder_.Remove(at->first);
      at = notice_files_.erase(at);
    }
  }
  generation_ = generation;
  progress_.clear();
  for (const std::string& file : files.progress_files) {
    progress_.push_back({file});
  }
  notice_files_[generation] = files.notice_file;
}

std::vector<RankProgressed> RankFolders::Sample() {
  std::vector<RankProgressed> progressed;
  const AsUser as(user_);
  if (!as.ok()) return progressed;
  for (uint32_t i = 0; i < progress_.size(); ++i) {
    if (Read(progress_[i])) {
      progressed.push_back({generation_, progress_[i].step, i});
    }
  }
  return progressed;
}

absl::Status RankFolders::WriteNotice(const std::vector<RankIncarnation>& ranks,
                                      const std::string& kind,
                                      absl::Duration deadline) {
  const nlohmann::ordered_json notice = {
      {"kind", kind},
      {"deadline", absl::ToUnixSeconds(absl::Now() + deadline)}};
  const AsUser as(user_);
  if (!as.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot act as ", UserText(*user_)));
  }
  absl::Status first;
  for (const auto& entry : notice_files_) {
    const bool theirs = std::any_of(
        ranks.begin(), ranks.end(), [&](const RankIncarnation& incarnation) {
          return incarnation.generation == entry.first;
        });
    if (!ranks.empty() && !theirs) continue;
    first.Update(WriteFileAtomically(entry.second,
                                     absl::StrCat(notice.dump(), "\n"), 0644));
  }
  return first;
}

}  // namespace rollcall
