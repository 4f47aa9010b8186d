#include "client/agent/processes/process_tree/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/facts/system/system.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

constexpr size_t kCgroupFileBytesMax = 4 << 20;
constexpr int kDepthMax = 16;
constexpr int kNamesMax = 64;

std::string ReadAll(const std::string& path) {
  return ReadSmallFile(path, kCgroupFileBytesMax);
}

std::vector<std::string> FoldersBelow(const std::string& folder) {
  std::vector<std::string> below;
  const std::unique_ptr<DIR, int (*)(DIR*)> open_folder(opendir(folder.c_str()),
                                                        closedir);
  if (open_folder == nullptr) return below;
  while (const dirent* entry = readdir(open_folder.get())) {
    const absl::string_view name = entry->d_name;
    if (name == "." || name == ".." || entry->d_type != DT_DIR) continue;
    below.push_back(absl::StrCat(folder, "/", name));
  }
  return below;
}

void AddMembers(const std::string& folder, int depth,
                std::vector<pid_t>& members) {
  const std::string listed = ReadAll(folder + "/cgroup.procs");
  for (absl::string_view line : absl::StrSplit(listed, '\n')) {
    pid_t pid = 0;
    // 0: a member that this pid namespace cannot see.
    if (absl::SimpleAtoi(line, &pid) && pid > 0) members.push_back(pid);
  }
  if (depth >= kDepthMax) return;
  for (const std::string& below : FoldersBelow(folder)) {
    AddMembers(below, depth + 1, members);
  }
}

bool RemoveTree(const std::string& folder, int depth) {
  if (depth < kDepthMax) {
    for (const std::string& below : FoldersBelow(folder)) {
      RemoveTree(below, depth + 1);
    }
  }
  return rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

// Decodes mountinfo's escapes: \040 is a blank, and so on.
std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) &&
        digit(i + 2) && digit(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 +
                                 (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool Lists(absl::string_view words, absl::string_view word) {
  const std::vector<absl::string_view> listed = absl::StrSplit(words, ',');
  return std::find(listed.begin(), listed.end(), word) != listed.end();
}

// The folder of the cgroup `own`. `fits` selects the mount of its hierarchy by
// the last three fields of mountinfo: type, source and options.
template <typename Fits>
std::string FolderOf(const std::string& own, const std::string& mountinfo,
                     Fits fits) {
  if (own.empty() || own[0] != '/' || absl::StrContains(own, "/..")) return "";
  for (absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2 || !fits(halves[1])) continue;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(halves[0], ' ');
    if (fields.size() < 5 || !absl::StartsWith(fields[4], "/")) continue;
    const std::string root = fields[3] == "/" ? "" : Unescape(fields[3]);
    const std::string mount = Unescape(fields[4]);
    absl::string_view below = own;
    if (!absl::ConsumePrefix(&below, root)) continue;
    if (!below.empty() && below[0] != '/') continue;
    return absl::StrCat(mount, below == "/" ? "" : below);
  }
  return "";
}

// Whether the cgroup accepts processes and can kill them all.
bool Usable(const std::string& folder) {
  const std::string type(
      absl::StripAsciiWhitespace(ReadAll(folder + "/cgroup.type")));
  return type == "domain" &&
         access((folder + "/cgroup.kill").c_str(), W_OK) == 0;
}

}  // namespace

std::string OwnCgroupFolder(const std::string& mountinfo,
                            const std::string& cgroup) {
  std::string own;
  for (absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) own = std::string(line);
  }
  return FolderOf(own, mountinfo, [](absl::string_view mount) {
    return absl::StartsWith(mount, "cgroup2 ");
  });
}

std::string OwnMemoryFolderV1(const std::string& mountinfo,
                              const std::string& cgroup) {
  std::string own;
  for (absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    // "4:cpu,memory:/path"
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() == 3 && Lists(fields[1], "memory")) {
      own = std::string(fields[2]);
    }
  }
  return FolderOf(own, mountinfo, [](absl::string_view mount) {
    // "cgroup cgroup rw,memory"
    const size_t options = mount.rfind(' ');
    return absl::StartsWith(mount, "cgroup ") &&
           Lists(mount.substr(options + 1), "memory");
  });
}

std::optional<RankCgroup> RankCgroup::Make(const std::string& name) {
  const std::string own = OwnCgroupFolder(ReadAll("/proc/self/mountinfo"),
                                          ReadAll("/proc/self/cgroup"));
  if (own.empty()) return std::nullopt;
  std::string folder = absl::StrCat(own, "/", name);
  for (int i = 1; mkdir(folder.c_str(), 0755) != 0; ++i) {
    if (errno != EEXIST || i >= kNamesMax) return std::nullopt;
    folder = absl::StrCat(own, "/", name, "-", i);
  }
  Fd entrance(open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!entrance.open() || !Usable(folder)) {
    rmdir(folder.c_str());
    return std::nullopt;
  }
  return RankCgroup(std::move(folder), std::move(entrance));
}

bool KillCgroup(const std::string& folder) {
  const Fd file(open((folder + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  return file.open() && write(file.get(), "1", 1) == 1;
}

std::vector<pid_t> CgroupMembers(const std::string& folder) {
  std::vector<pid_t> members;
  AddMembers(folder, 0, members);
  return members;
}

bool RemoveCgroup(const std::string& folder) {
  const absl::Time deadline = MonotonicNow() + absl::Seconds(1);
  const Fd events(
      open((folder + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  while (true) {
    // Reading arms the next POLLPRI, which signals that the last member has
    // left.
    char text[256];
    if (events.open()) (void)!pread(events.get(), text, sizeof text, 0);
    if (RemoveTree(folder, 0)) return true;
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration() || !events.open()) return false;
    pollfd polled{events.get(), POLLPRI, 0};
    poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

}  // namespace rollcall
