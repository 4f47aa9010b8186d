#include "client/facts/system/system.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/facts/system/missing.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr char kMountProc[] = "`mount -t proc proc /proc`";
constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr char kMemory[] = "/sys/kernel/mm";
constexpr char kHugepages[] = "/sys/kernel/mm/transparent_hugepage/enabled";

// The soft limit; 2^64-1: unlimited. 0: it cannot be read, and `fact` is
// missing.
uint64_t SoftLimit(__rlimit_resource_t resource, const char* fact,
                   v1::Facts& facts) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) {
    AddMissing(facts, fact, absl::StrCat("getrlimit: ", std::strerror(errno)),
               "");
    return 0;
  }
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<uint64_t>::max()
                                         : limit.rlim_cur;
}

// The number of CPUs that this process may run on, which may be fewer than the
// machine has.
uint32_t UsableCpus() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) == 0) {
    return static_cast<uint32_t>(CPU_COUNT(&usable));
  }
  // More CPUs than the fixed set can hold.
  return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// The value of the line "NAME:   123 kB"; nullopt: there is no such line.
std::optional<uint64_t> MeminfoBytes(absl::string_view meminfo,
                                     absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":")) {
      continue;
    }
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumeSuffix(&line, " kB")) return std::nullopt;
    uint64_t kib = 0;
    if (!absl::SimpleAtoi(line, &kib) || kib > UINT64_MAX >> 10) {
      return std::nullopt;
    }
    return kib << 10;
  }
  return std::nullopt;
}

void GatherLimits(v1::Facts& facts) {
  v1::SystemLimits& limits = *facts.mutable_limits();
  limits.set_memlock_bytes(
      SoftLimit(RLIMIT_MEMLOCK, "limits.memlock_bytes", facts));
  limits.set_memlock_unbound(MayLockMemory());
  limits.set_nofile(SoftLimit(RLIMIT_NOFILE, "limits.nofile", facts));
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    limits.set_shm_bytes(uint64_t{shm.f_blocks} * shm.f_frsize);
  } else {
    AddMissing(facts, "limits.shm_bytes",
               absl::StrCat("/dev/shm: ", std::strerror(errno)),
               "mount a tmpfs at /dev/shm");
  }
  const std::string meminfo = ReadSmallFile("/proc/meminfo", 16 << 10);
  ReadSwap(meminfo, limits);
  if (!limits.has_swap_used_bytes()) {
    AddMissing(facts, "limits.swap_used_bytes",
               meminfo.empty() ? WhyUnread("/proc/meminfo")
                               : "/proc/meminfo has no lines about swap",
               meminfo.empty() ? kMountProc : "");
  }
  const std::string word = ChosenWord(ReadSmallFile(kHugepages, 256));
  limits.set_transparent_hugepages(PlainText(word));
  // A kernel without transparent huge pages has no such file.
  const bool without = access(kMemory, F_OK) == 0 &&
                       access(kHugepages, F_OK) != 0 && errno == ENOENT;
  if (word.empty() && !without) {
    AddMissing(facts, "limits.transparent_hugepages", WhyUnread(kHugepages),
               "");
  }
}

bool Exists(const char* path) { return access(path, F_OK) == 0; }

std::string OwnVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

ContainerSigns FindContainerSigns() {
  ContainerSigns signs;
  signs.dockerenv = Exists("/.dockerenv");
  signs.containerenv = Exists("/run/.containerenv");
  signs.singularity = Exists("/.singularity.d");
  signs.kubernetes = Exists("/var/run/secrets/kubernetes.io/serviceaccount") ||
                     !OwnVariable("KUBERNETES_SERVICE_HOST").empty();
  for (const char* path :
       {"/run/host/container-manager", "/run/systemd/container"}) {
    if (signs.manager_word.empty()) {
      signs.manager_word =
          std::string(absl::StripAsciiWhitespace(ReadSmallFile(path, 64)));
    }
  }
  signs.variable = OwnVariable("container");
  signs.cgroup = ReadSmallFile("/proc/self/cgroup", 16 << 10);
  return signs;
}

}  // namespace

void ReadSwap(absl::string_view meminfo, v1::SystemLimits& limits) {
  const auto total = MeminfoBytes(meminfo, "SwapTotal");
  const auto free = MeminfoBytes(meminfo, "SwapFree");
  if (!total.has_value()) return;
  limits.set_swap_bytes(*total);
  if (free.has_value() && *free <= *total) {
    limits.set_swap_used_bytes(*total - *free);
  }
}

bool MayLockMemory(absl::string_view status, absl::string_view uid_map) {
  // Only the initial user namespace maps all user ids to themselves
  // (user_namespaces(7)). A capability in another namespace does not lift the
  // limit.
  const std::vector<absl::string_view> mapped =
      absl::StrSplit(uid_map, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (mapped != std::vector<absl::string_view>{"0", "0", "4294967295"}) {
    return false;
  }
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "CapEff:")) continue;
    uint64_t capabilities = 0;
    return absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line),
                               &capabilities) &&
           (capabilities >> CAP_IPC_LOCK & 1) != 0;
  }
  return false;
}

bool MayLockMemory() {
  return MayLockMemory(ReadSmallFile("/proc/self/status"),
                       ReadSmallFile("/proc/self/uid_map"));
}

std::string ContainerKind(const ContainerSigns& signs) {
  if (signs.kubernetes || absl::StrContains(signs.cgroup, "/kubepods")) {
    return "kubernetes";
  }
  if (signs.containerenv || signs.variable == "podman") return "podman";
  if (signs.singularity) return "apptainer";
  if (signs.dockerenv || absl::StrContains(signs.cgroup, "/docker")) {
    return "docker";
  }
  // These texts name the container manager, as systemd.io's container interface
  // defines it.
  for (const std::string* word : {&signs.manager_word, &signs.variable}) {
    if (!word->empty()) return PlainText(*word, 64);
  }
  return absl::StrContains(signs.cgroup, "/lxc") ? "lxc" : "";
}

absl::StatusOr<v1::FolderSpace> ReadFolderSpace(const std::string& folder) {
  std::string path = folder;
  struct statvfs space {};
  // If the folder does not exist yet, the file system of the nearest existing
  // parent is used.
  while (statvfs(path.empty() ? "/" : path.c_str(), &space) != 0) {
    const int error = errno;
    const size_t slash = path.find_last_of('/');
    if (error != ENOENT || path.empty() || path == ".") {
      return absl::ErrnoToStatus(error, folder);
    }
    if (slash == std::string::npos) {
      path = ".";
    } else {
      path.resize(slash);
    }
  }
  v1::FolderSpace found;
  found.set_path(PlainText(folder, FactsLimits::path_bytes_max));
  found.set_free_bytes(uint64_t{space.f_bavail} * space.f_frsize);
  found.set_size_bytes(uint64_t{space.f_blocks} * space.f_frsize);
  return found;
}

std::string ReadSmallFile(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  // In blocks, because most files are much smaller than `bytes_max`.
  std::string text;
  char block[64 << 10];
  while (text.size() < bytes_max) {
    const ssize_t size =
        read(fd, block, std::min(sizeof(block), bytes_max - text.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(block, static_cast<size_t>(size));
  }
  close(fd);
  return text;
}

std::string WhyUnread(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::StrCat(path, ": ", std::strerror(errno));
  char text[64];
  const ssize_t size = read(fd, text, sizeof(text));
  const int error = errno;
  close(fd);
  if (size < 0) return absl::StrCat(path, ": ", std::strerror(error));
  const absl::string_view read(text, static_cast<size_t>(size));
  return absl::StrCat(path, " says \"", absl::StripAsciiWhitespace(read), "\"");
}

std::string BootId() {
  const std::string text = ReadSmallFile(kBootId, 64);
  return std::string(absl::StripAsciiWhitespace(text));
}

uint64_t NamespaceInode(const char* name) {
  struct stat status {};
  const std::string path = absl::StrCat("/proc/self/ns/", name);
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string ChosenWord(absl::string_view text) {
  const size_t open = text.find('[');
  if (open == text.npos) return "";
  const size_t close = text.find(']', open);
  if (close == text.npos) return "";
  return std::string(text.substr(open + 1, close - open - 1));
}

void GatherSystem(v1::Facts& facts) {
  utsname names{};
  if (uname(&names) == 0) {
    facts.set_hostname(PlainText(names.nodename));
    facts.mutable_versions()->set_kernel(PlainText(names.release));
  }
  facts.mutable_versions()->set_rollcall(ROLLCALL_VERSION);
  facts.set_boot_id(PlainText(BootId()));
  if (facts.boot_id().empty()) {
    AddMissing(facts, "boot_id", WhyUnread(kBootId), kMountProc);
  }
  facts.set_network_namespace(NamespaceInode("net"));
  if (facts.network_namespace() == 0) {
    AddMissing(facts, "network_namespace", "/proc/self/ns/net is not there",
               kMountProc);
  }
  facts.set_cpu_count(UsableCpus());
  facts.set_container(ContainerKind(FindContainerSigns()));
  GatherLimits(facts);
  SetWallClock(facts);
}

void SetWallClock(v1::Facts& facts) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  facts.mutable_wall_clock()->set_seconds(now.tv_sec);
  facts.mutable_wall_clock()->set_nanos(static_cast<int32_t>(now.tv_nsec));
}

}  // namespace rollcall
