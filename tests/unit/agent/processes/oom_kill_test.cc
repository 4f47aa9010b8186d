#include "client/agent/processes/process_tree/oom_kill.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "client/agent/processes/process_tree/cgroup.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(OomKill, ReadsCountsAndBytes) {
  const struct {
    const char* text;
    std::optional<uint64_t> kills;
  } kCounts[] = {
      {"low 0\nhigh 7\nmax 31\noom 2\noom_kill 1\noom_group_kill 0\n", 1},
      {"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3},  // v1
      {"oom_kill_disable 0\nunder_oom 0\n", std::nullopt},   // Before 4.13.
      {"oom_kill\noom_kill x\noom_kill -1\n", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& row : kCounts) {
    EXPECT_EQ(CgroupCount(row.text, "oom_kill"), row.kills) << row.text;
  }
  const struct {
    const char* text;
    std::optional<uint64_t> bytes;
  } kBytes[] = {
      {"536870912\n", 512 * kMiB},
      {"max\n", std::nullopt},
      {"9223372036854771712\n", std::nullopt},  // v1 without a limit.
      {"", std::nullopt},
      {"-1", std::nullopt},
  };
  for (const auto& row : kBytes) {
    EXPECT_EQ(CgroupBytes(row.text), row.bytes) << row.text;
  }
}

TEST(OomKill, SaysWhosePeakAndLimitItWas) {
  const struct {
    OomFacts facts;
    const char* text;
  } kRows[] = {
      {{"/c", 512 * kMiB, 512 * kMiB, 0},
       "peak 512 MiB, limit 512 MiB "
       "(cgroup /c)"},
      {{"/c", 512 * kMiB, 500 * kMiB, 300 * kMiB},
       "peak 500 MiB, limit 512 MiB (cgroup /c); the rank's largest process "
       "had 300 MiB"},
      {{"/c", 512 * kMiB, std::nullopt, 300 * kMiB},
       "limit 512 MiB (cgroup /c); the rank's largest process had 300 MiB"},
      {{"/c", std::nullopt, 5 * kMiB, 0},
       "peak 5 MiB, no limit, so the machine's memory was used up (cgroup "
       "/c)"},
  };
  for (const auto& row : kRows) EXPECT_EQ(OomText(row.facts), row.text);
}

TEST(OomKill, FindsTheMemoryCgroupOfV1) {
  const std::string hybrid =
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string bound =
      "33 31 0:30 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup "
      "rw,cpu,memory\n";
  const struct {
    std::string mounts, own, expect;
  } kRows[] = {
      {hybrid, "4:memory:/a:b\n1:cpu:/x\n0::/\n", "/sys/fs/cgroup/memory/a:b"},
      {hybrid, "4:memory:/\n0::/\n", "/sys/fs/cgroup/memory"},
      {bound, "4:cpu,memory:/docker/1/b\n", "/sys/fs/cgroup/memory/b"},
      {bound, "4:cpu,memory:/docker/12\n", ""},
      {hybrid, "4:memory:/../outside\n", ""},
      {hybrid, "1:cpu:/x\n0::/\n", ""},
      {"", "4:memory:/\n", ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(OwnMemoryFolderV1(row.mounts, row.own), row.expect) << row.own;
  }
}

class OomWatchTest : public testing::Test {
 protected:
  // Makes a cgroup's files in a folder below the test's folder.
  std::string Cgroup(
      const std::string& name,
      const std::vector<std::pair<const char*, std::string>>& files) {
    const std::string folder = folder_ / name;
    mkdir(folder.c_str(), 0755);
    for (const auto& [file, text] : files) {
      std::ofstream(folder + "/" + file) << text;
    }
    return folder;
  }

  TempFolder folder_;
};

TEST_F(OomWatchTest, EachNewKillExplainsOneRank) {
  const std::string pod = Cgroup("pod", {{"memory.events", "oom_kill 2\n"},
                                         {"memory.max", "536870912\n"},
                                         {"memory.peak", "536870912\n"}});
  const std::string agent =
      Cgroup("pod/agent",
             {{"memory.events", "oom_kill 1\n"}, {"memory.max", "max\n"}});
  const std::string rank = Cgroup("pod/agent/rank", {{"cgroup.procs", ""}});
  OomWatch first = OomWatch::At(rank);
  OomWatch second = OomWatch::At(rank);
  EXPECT_EQ(first.folder(), agent);
  EXPECT_EQ(first.Explain(0), "");  // That kill was before the start.
  Cgroup("pod/agent", {{"memory.events", "oom_kill 2\n"}});
  // The limit is that of a cgroup above.
  EXPECT_EQ(first.Explain(3 * kMiB),
            "peak 512 MiB, limit 512 MiB (cgroup " + pod +
                "); the rank's largest process had 3 MiB");
  second.Explained("/other");
  EXPECT_NE(second.Explain(0), "");
  second.Explained(first.folder());
  EXPECT_EQ(second.Explain(0), "");
  Cgroup("pod/agent", {{"memory.events", "oom_kill 3\n"}});
  EXPECT_NE(second.Explain(0), "");
}

TEST_F(OomWatchTest, TheLowestLimitIsNamed) {
  const std::string outer =
      Cgroup("outer", {{"memory.oom_control", "oom_kill 0\n"},
                       {"memory.limit_in_bytes", "1048576\n"},
                       {"memory.max_usage_in_bytes", "1048576\n"}});
  const std::string inner =
      Cgroup("outer/inner", {{"memory.oom_control", "oom_kill 0\n"},
                             {"memory.limit_in_bytes", "2097152\n"},
                             {"memory.max_usage_in_bytes", "5\n"}});
  const OomWatch watch = OomWatch::At(inner);
  Cgroup("outer/inner", {{"memory.oom_control", "oom_kill 1\n"}});
  EXPECT_EQ(watch.Explain(0), "peak 1 MiB, limit 1 MiB (cgroup " + outer + ")");
}

TEST_F(OomWatchTest, WithoutAMemoryCgroupNothingIsExplained) {
  const OomWatch watch = OomWatch::At(Cgroup("none", {}));
  EXPECT_EQ(watch.folder(), "");
  EXPECT_EQ(watch.Explain(kMiB), "");
  EXPECT_EQ(OomWatch::At("").folder(), "");
}

}  // namespace
}  // namespace rollcall
