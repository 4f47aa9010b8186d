#include "client/facts/system.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// 2^64-1 stands for "unlimited", and so does what cannot be read, since
// nothing then says that there is a limit.
uint64_t SoftLimit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<uint64_t>::max();
  }
  return limit.rlim_cur;
}

// CPUs that this process may run on, not those that the machine has.
uint32_t UsableCpus() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) == 0) {
    return static_cast<uint32_t>(CPU_COUNT(&usable));
  }
  // More CPUs than the fixed set can hold.
  return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

std::string ReadSmallFile(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  std::string text(bytes_max, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  close(fd);
  text.resize(size);
  return text;
}

std::string BootId() {
  const std::string text = ReadSmallFile("/proc/sys/kernel/random/boot_id", 64);
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
    facts.set_hostname(names.nodename);
    facts.mutable_versions()->set_kernel(names.release);
  }
  facts.mutable_versions()->set_rollcall(ROLLCALL_VERSION);
  facts.set_boot_id(BootId());
  facts.set_network_namespace(NamespaceInode("net"));
  facts.set_cpu_count(UsableCpus());

  auto& limits = *facts.mutable_limits();
  limits.set_memlock_bytes(SoftLimit(RLIMIT_MEMLOCK));
  limits.set_nofile(SoftLimit(RLIMIT_NOFILE));
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    limits.set_shm_bytes(uint64_t{shm.f_blocks} * shm.f_frsize);
  }
  limits.set_transparent_hugepages(ChosenWord(
      ReadSmallFile("/sys/kernel/mm/transparent_hugepage/enabled", 256)));

  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  facts.mutable_wall_clock()->set_seconds(now.tv_sec);
  facts.mutable_wall_clock()->set_nanos(static_cast<int32_t>(now.tv_nsec));
}

}  // namespace rollcall
