#include "client/agent/processes/process_tree/left_processes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system/system.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

// The limit for recording and for reading.
constexpr size_t kLeftMax = 1024;

// Replaces the record. Checks the folder, because after a program has removed a
// run folder from /tmp, a rank's user may have put another folder or a link in
// its place.
void Replace(const std::string& folder, const std::string& text) {
  const Fd opened(
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!opened.open() || fstat(opened.get(), &info) != 0 ||
      info.st_uid != geteuid()) {
    return;
  }
  const Fd file(openat(opened.get(), kLeftName + 1,
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                       0600));
  for (size_t at = 0; file.open() && at < text.size();) {
    const ssize_t n = write(file.get(), text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

}  // namespace

std::string PidScope() {
  std::error_code failed;
  const auto pids = std::filesystem::read_symlink("/proc/self/ns/pid", failed);
  return absl::StrCat(BootId(), " ", failed ? "?" : pids.string());
}

std::vector<FoundProcess> ReadLeft(const std::string& folder) {
  std::vector<FoundProcess> left;
  std::ifstream file(folder + kLeftName);
  const std::string here = PidScope();
  for (std::string line; left.size() < kLeftMax && std::getline(file, line);) {
    // boot pid-namespace pid start-ticks
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    FoundProcess process;
    if (words.size() == 4 && absl::StrCat(words[0], " ", words[1]) == here &&
        absl::SimpleAtoi(words[2], &process.pid) && process.pid > 1 &&
        absl::SimpleAtoi(words[3], &process.start_ticks)) {
      left.push_back(process);
    }
  }
  return left;
}

void RecordLeft(const std::string& folder, const SweepResult& result) {
  std::string text;
  size_t lines = 0;
  const std::string here = PidScope();
  for (const auto* processes : {&result.left, &result.denied}) {
    for (const FoundProcess& process : *processes) {
      if (++lines > kLeftMax) break;
      absl::StrAppend(&text, here, " ", process.pid, " ", process.start_ticks,
                      "\n");
    }
  }
  if (!text.empty()) Replace(folder, text);
}

}  // namespace rollcall
