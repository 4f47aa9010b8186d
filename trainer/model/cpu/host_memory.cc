#include "trainer/model/cpu/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace rollcall {
namespace {

// The number after `name` in a file of lines "name number ..."; without a name,
// the file's first word. "max" is not a number.
std::optional<double> Number(const std::string& path, absl::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    const size_t at = name.empty() ? 0 : 1;
    double number = 0;
    if (words.size() <= at || (!name.empty() && words[0] != name)) continue;
    if (absl::SimpleAtod(words[at], &number)) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

// What one cgroup has left. Memory for files that the kernel can drop counts as
// free, as in MemAvailable.
std::optional<double> LeftIn(const std::string& folder, bool unified) {
  const auto most =
      Number(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"), "");
  const auto used = Number(
      folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"), "");
  if (!most.has_value() || !used.has_value()) return std::nullopt;
  const auto files = Number(folder + "/memory.stat",
                            unified ? "inactive_file" : "total_inactive_file");
  return std::max(0.0, *most - *used + files.value_or(0));
}

}  // namespace

double FreeHostBytes(const std::string& root) {
  double free = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  if (const auto kb = Number(root + "/proc/meminfo", "MemAvailable:")) {
    free = *kb * 1024;
  }
  std::ifstream cgroups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    // The line has the form number:controllers:path.
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (words.size() != 3) continue;
    const bool unified = words[0] == "0";
    if (!unified && words[1] != "memory") continue;
    const std::string top =
        absl::StrCat(root, "/sys/fs/cgroup", unified ? "" : "/memory");
    // Each cgroup above also limits the process. In a container, the process's
    // own cgroup may look like the root.
    for (std::string path = words[2] == "/" ? "" : words[2];;
         path.resize(path.rfind('/'))) {
      if (const auto left = LeftIn(top + path, unified)) {
        free = std::min(free, *left);
      }
      if (path.empty() || path[0] != '/') break;
    }
  }
  return free;
}

}  // namespace rollcall
