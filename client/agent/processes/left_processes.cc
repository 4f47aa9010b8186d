#include "client/agent/processes/left_processes.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system.h"

namespace rollcall {
namespace {

// The bound when recording and when reading.
constexpr size_t kLeftMax = 1024;

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
  if (!text.empty()) std::ofstream(folder + kLeftName) << text;
}

}  // namespace rollcall
