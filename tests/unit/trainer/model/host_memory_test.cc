#include "trainer/model/cpu/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace rollcall {
namespace {

struct Machine {
  const char* what;
  std::map<std::string, std::string> files;
  double expect;  // 0: all physical memory.
};

const char kMeminfo[] = "MemTotal:  9000 kB\nMemAvailable:   4000 kB\n";

const Machine kMachines[] = {
    {"nothing can be read", {}, 0},
    {"no cgroup", {{"proc/meminfo", kMeminfo}}, 4096000},
    {"cgroup without a limit",
     {{"proc/meminfo", kMeminfo},
      {"proc/self/cgroup", "0::/a\n"},
      {"sys/fs/cgroup/a/memory.max", "max\n"},
      {"sys/fs/cgroup/a/memory.current", "700\n"}},
     4096000},
    {"cgroup with a limit",
     {{"proc/meminfo", kMeminfo},
      {"proc/self/cgroup", "0::/a\n"},
      {"sys/fs/cgroup/a/memory.max", "2000\n"},
      {"sys/fs/cgroup/a/memory.current", "700\n"},
      {"sys/fs/cgroup/a/memory.stat", "file 90\ninactive_file 50\n"}},
     1350},
    {"the limit is above",
     {{"proc/meminfo", kMeminfo},
      {"proc/self/cgroup", "0::/a/b\n"},
      {"sys/fs/cgroup/a/memory.max", "2000\n"},
      {"sys/fs/cgroup/a/memory.current", "1999\n"},
      {"sys/fs/cgroup/a/b/memory.max", "2000\n"},
      {"sys/fs/cgroup/a/b/memory.current", "700\n"}},
     1},
    {"a container's own cgroup is the root",
     {{"proc/meminfo", kMeminfo},
      {"proc/self/cgroup", "0::/\n"},
      {"sys/fs/cgroup/memory.max", "2000\n"},
      {"sys/fs/cgroup/memory.current", "2100\n"}},
     0.0 + 1e-300},  // Nothing is left.
    {"version 1",
     {{"proc/meminfo", kMeminfo},
      {"proc/self/cgroup", "5:pids:/x\n4:memory:/a\n"},
      {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000\n"},
      {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000\n"},
      {"sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 10\n"}},
     2010},
};

TEST(HostMemory, IsTheLeastThatIsLeft) {
  const double all = FreeHostBytes("/no such folder");
  EXPECT_GT(all, 1e6);
  EXPECT_GT(FreeHostBytes(), 0);
  for (const Machine& machine : kMachines) {
    SCOPED_TRACE(machine.what);
    std::string root = testing::TempDir() + "host-memory-XXXXXX";
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    for (const auto& [path, text] : machine.files) {
      const std::filesystem::path file = root + "/" + path;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text;
    }
    EXPECT_NEAR(FreeHostBytes(root), machine.expect == 0 ? all : machine.expect,
                1e-6);
    std::filesystem::remove_all(root);
  }
}

}  // namespace
}  // namespace rollcall
