#include "trainer/cuda/nccl/nccl_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// The most transports that are stored. A log with more is not NCCL's.
constexpr size_t kUsedMax = 16;
constexpr size_t kNameMax = 64;

// The network's name from texts such as "Socket/0", "IB/3/GDRDMA", "AWS
// Libfabric/0/GDRDMA".
std::string NetworkOf(absl::string_view way) {
  const absl::string_view name = way.substr(0, way.find('/'));
  return absl::StrCat(name.substr(0, kNameMax),
                      absl::StrContains(way, "GDRDMA") ? "/GDRDMA" : "");
}

// The transport of a channel; empty: unknown.
std::string WayOf(absl::string_view way) {
  if (absl::ConsumePrefix(&way, "NET/")) return NetworkOf(way);
  if (absl::StartsWith(way, "P2P")) return "P2P";
  if (absl::StartsWith(way, "SHM") ||
      absl::StartsWith(way, "direct shared memory")) {
    return "SHM";
  }
  if (absl::StartsWith(way, "COLLNET")) return "CollNet";
  return "";
}

void PassWarnings(absl::string_view lines) {
  for (absl::string_view line : absl::StrSplit(lines, '\n')) {
    if (!absl::StrContains(line, " NCCL WARN ")) continue;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  }
}

bool IsLocal(const std::string& way) {
  return way == "P2P" || way == "SHM" || way == "NVLS";
}

}  // namespace

size_t NcclTransports::Read(absl::string_view text) {
  constexpr absl::string_view kInfo = "NCCL INFO ";
  constexpr absl::string_view kNetwork = "Using network ";
  constexpr absl::string_view kVia = " via ";
  size_t taken = 0;
  for (size_t end; (end = text.find('\n', taken)) != text.npos;
       taken = end + 1) {
    absl::string_view line = text.substr(taken, end - taken);
    const size_t info = line.find(kInfo);
    if (info == line.npos) continue;
    line.remove_prefix(info + kInfo.size());
    if (absl::ConsumePrefix(&line, kNetwork)) {
      network = std::string(line.substr(0, kNameMax));
      continue;
    }
    std::string way;
    const size_t via = line.find(kVia);
    // A channel between two ranks, or one to a switch that sums (CollNet).
    if (via != line.npos && (absl::StrContains(line.substr(0, via), " -> ") ||
                             absl::StartsWith(line, "Coll"))) {
      way = WayOf(line.substr(via + kVia.size()));
    } else if (absl::StartsWith(line, "Connected NVLS")) {
      way = "NVLS";
    }
    if (!way.empty() && used.size() < kUsedMax) used.insert(way);
  }
  return taken;
}

std::string NcclTransports::ToString() const {
  if (used.empty()) return network.empty() ? "NCCL" : network;
  std::vector<std::string> ways;
  for (const bool local : {false, true}) {
    for (const std::string& way : used) {
      if (IsLocal(way) == local) ways.push_back(way);
    }
  }
  return absl::StrJoin(ways, "+");
}

std::unique_ptr<NcclLog> NcclLog::Catch() {
  const char* level = std::getenv("NCCL_DEBUG");
  const bool warns = level != nullptr && absl::EqualsIgnoreCase(level, "WARN");
  const bool little = level == nullptr || warns ||
                      absl::EqualsIgnoreCase(level, "NONE") ||
                      absl::EqualsIgnoreCase(level, "VERSION");
  if (!little || std::getenv("NCCL_DEBUG_FILE") != nullptr) return nullptr;
  const int fd = memfd_create("nccl-log", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 0);
  return std::unique_ptr<NcclLog>(new NcclLog(fd, warns));
}

NcclLog::~NcclLog() {
  ReadOn();
  close(fd_);
}

void NcclLog::ReadOn() {
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const ssize_t got = pread(fd_, buffer.data(), buffer.size(), read_);
    if (got <= 0) return;
    const absl::string_view text(buffer.data(), static_cast<size_t>(got));
    size_t taken = transports_.Read(text);
    if (warns_) PassWarnings(text.substr(0, taken));
    // A line as long as the buffer is not a log line of NCCL.
    if (taken == 0 && static_cast<size_t>(got) == buffer.size()) taken = got;
    if (taken == 0) return;
    read_ += static_cast<int64_t>(taken);
    // Frees the memory of the part that was read; NCCL appends after it.
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, read_);
  }
}

std::string NcclLog::Transport() {
  ReadOn();
  return transports_.ToString();
}

}  // namespace rollcall
