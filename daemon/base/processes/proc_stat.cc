#include "daemon/base/processes/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

// Field numbers of proc(5). The state is the first field after the name.
constexpr int kState = 3;
constexpr int kParent = 4;
constexpr int kGroup = 5;
constexpr int kSession = 6;
constexpr int kFlags = 9;
constexpr int kThreads = 20;
constexpr int kStart = 22;
constexpr int kEnvironmentEnd = 51;

std::string ReadFile(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  ssize_t size = -1;
  do {
    if (file.open()) size = read(file.get(), text, sizeof text);
  } while (file.open() && size < 0 && errno == EINTR);
  return std::string(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

}  // namespace

std::optional<ProcStat> ReadProcStat(const std::string& folder) {
  const std::string text = ReadFile(absl::StrCat(folder, "/stat"));
  // The name in parentheses may contain any byte, also parentheses.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  ProcStat stat;
  int field = kState;
  const char* at = text.c_str() + name_end + 2;
  const char* const end = text.c_str() + text.size();
  while (at < end && field <= kEnvironmentEnd) {
    const char* stop = std::find(at, end, ' ');
    const auto number = [&](auto& value) { std::from_chars(at, stop, value); };
    if (field == kState) stat.state = *at;
    if (field == kParent) number(stat.parent);
    if (field == kGroup) number(stat.group);
    if (field == kSession) number(stat.session);
    if (field == kFlags) number(stat.flags);
    if (field == kThreads) number(stat.threads);
    if (field == kStart) number(stat.start_ticks);
    if (field == kEnvironmentEnd) number(stat.environment_end);
    ++field;
    at = stop + 1;
  }
  if (field <= kStart) return std::nullopt;
  return stat;
}

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  return ReadProcStat(absl::StrCat("/proc/", pid));
}

}  // namespace rollcall
