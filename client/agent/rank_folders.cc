#include "client/agent/rank_folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/agent/fd.h"
#include "client/agent/world_files.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// The number that a rank wrote into its progress file; 0: none.
uint64_t ReadStep(const std::string& path) {
  // A rank may have put anything there: nothing but a file is read, and no
  // more of it than a number needs.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return 0;
  }
  char text[32];
  const ssize_t size = read(fd.get(), text, sizeof(text));
  if (size <= 0) return 0;
  std::string word(text, static_cast<size_t>(size));
  word = word.substr(0, word.find_first_of(" \t\r\n"));
  uint64_t step = 0;
  return absl::SimpleAtoi(word, &step) ? step : 0;
}

}  // namespace

void RankFolders::Begin(uint64_t generation, const RankFiles& files,
                        const std::vector<RankLife>& waiting) {
  std::set<uint64_t> kept;
  for (const RankLife& life : waiting) kept.insert(life.generation);
  for (auto at = notice_files_.begin(); at != notice_files_.end();) {
    if (kept.contains(at->first)) {
      // Of a notice that its ranks have come to.
      unlink(at->second.c_str());
      ++at;
    } else {
      folder_.Remove(at->first);
      at = notice_files_.erase(at);
    }
  }
  generation_ = generation;
  progress_files_ = files.progress_files;
  progress_ = 0;
  notice_files_[generation] = files.notice_file;
}

std::optional<RankProgressed> RankFolders::Sample() {
  uint64_t step = 0;
  for (const std::string& file : progress_files_) {
    step = std::max(step, ReadStep(file));
  }
  if (step <= progress_) return std::nullopt;
  progress_ = step;
  return RankProgressed{generation_, step};
}

absl::Status RankFolders::WriteNotice(const std::vector<RankLife>& ranks,
                                      const std::string& kind,
                                      absl::Duration deadline) {
  const nlohmann::ordered_json notice = {
      {"kind", kind},
      {"deadline", absl::ToUnixSeconds(absl::Now() + deadline)}};
  absl::Status first;
  for (const auto& entry : notice_files_) {
    const bool theirs = std::any_of(
        ranks.begin(), ranks.end(),
        [&](const RankLife& life) { return life.generation == entry.first; });
    if (!ranks.empty() && !theirs) continue;
    first.Update(WriteFileAtomically(entry.second,
                                     absl::StrCat(notice.dump(), "\n"), 0644));
  }
  return first;
}

}  // namespace rollcall
