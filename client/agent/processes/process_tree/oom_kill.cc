#include "client/agent/processes/process_tree/oom_kill.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/base/text/bytes_text.h"

namespace rollcall {
namespace {

constexpr int kLevelsMax = 32;
constexpr uint64_t kNoLimitInV1 = uint64_t{1} << 62;

std::string Read(const std::string& path) {
  return ReadWholeFile(path).value_or("");
}

// The number of processes killed in the cgroup; nullopt: not a memory cgroup.
std::optional<uint64_t> KillsIn(const std::string& folder) {
  for (const char* name : {"/memory.events", "/memory.oom_control"}) {
    if (const auto kills = CgroupCount(Read(folder + name), "oom_kill")) {
      return kills;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> BytesIn(const std::string& folder, const char* v2,
                                const char* v1) {
  const auto bytes = CgroupBytes(Read(absl::StrCat(folder, "/", v2)));
  return bytes ? bytes : CgroupBytes(Read(absl::StrCat(folder, "/", v1)));
}

// The folder and those above it, nearest first.
std::vector<std::string> Upwards(std::string folder) {
  std::vector<std::string> folders;
  while (folder.size() > 1 && folders.size() < kLevelsMax) {
    folders.push_back(folder);
    folder.resize(folder.find_last_of('/') == std::string::npos
                      ? 0
                      : folder.find_last_of('/'));
  }
  return folders;
}

}  // namespace

OomWatch OomWatch::At(const std::string& folder) {
  OomWatch watch;
  for (const std::string& at : Upwards(folder)) {
    const std::optional<uint64_t> kills = KillsIn(at);
    if (!kills) continue;
    watch.folder_ = at;
    watch.kills_known_ = *kills;
    break;
  }
  return watch;
}

OomWatch OomWatch::ForProcessIn(const std::string& own) {
  const std::string mounts = Read("/proc/self/mountinfo");
  const std::string cgroups = Read("/proc/self/cgroup");
  if (const std::string v1 = OwnMemoryFolderV1(mounts, cgroups); !v1.empty()) {
    return At(v1);
  }
  return At(own.empty() ? OwnCgroupFolder(mounts, cgroups) : own);
}

std::string OomWatch::Explain(uint64_t process_peak_bytes) const {
  if (folder_.empty() || KillsIn(folder_).value_or(0) <= kills_known_) {
    return "";
  }
  OomFacts facts{.folder = folder_, .process_peak_bytes = process_peak_bytes};
  for (const std::string& at : Upwards(folder_)) {
    if (!KillsIn(at)) break;  // The root of the hierarchy is below this folder.
    const std::optional<uint64_t> limit =
        BytesIn(at, "memory.max", "memory.limit_in_bytes");
    if (!limit || (facts.limit_bytes && *limit >= *facts.limit_bytes)) continue;
    facts.folder = at;
    facts.limit_bytes = limit;
  }
  facts.peak_bytes =
      BytesIn(facts.folder, "memory.peak", "memory.max_usage_in_bytes");
  return OomText(facts);
}

std::string OomText(const OomFacts& facts) {
  std::vector<std::string> parts;
  if (facts.peak_bytes) {
    parts.push_back(absl::StrCat("peak ", BytesText(*facts.peak_bytes)));
  }
  parts.push_back(facts.limit_bytes
                      ? absl::StrCat("limit ", BytesText(*facts.limit_bytes))
                      : "no limit, so the machine's memory was used up");
  std::string text =
      absl::StrCat(absl::StrJoin(parts, ", "), " (cgroup ", facts.folder, ")");
  if (facts.process_peak_bytes > 0) {
    absl::StrAppend(&text, "; the rank's largest process had ",
                    BytesText(facts.process_peak_bytes));
  }
  return text;
}

std::optional<uint64_t> CgroupCount(absl::string_view text,
                                    absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t count = 0;
    if (absl::ConsumePrefix(&line, key) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtoi(line, &count)) {
      return count;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> CgroupBytes(absl::string_view text) {
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &bytes) ||
      bytes >= kNoLimitInV1) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace rollcall
