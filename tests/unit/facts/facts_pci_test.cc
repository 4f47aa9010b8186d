#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/facts/system/pci.h"

namespace rollcall {
namespace {

TEST(Pci, ThePathIsWhatFollowsTheRoot) {
  const std::pair<const char*, const char*> kRows[] = {
      {"/sys/devices/pci0000:00/0000:00:02.0/0000:01:00.0",
       "0000:00:02.0/0000:01:00.0"},
      {"/sys/devices/pci0000:00/0000:00:02.0/0000:01:00.0/infiniband/mlx5_0",
       "0000:00:02.0/0000:01:00.0"},
      {"/tmp/pcidead/sys/devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
       "10000:e0:06.0/10000:e1:00.0"},
      {"/sys/devices/virtual/infiniband/rxe0", ""},
      {"/sys/devices/pci0000:00", ""},
      {"/sys/devices/pci/0000:00:02.0", ""},
      {"", ""}};
  for (const auto& [folder, expect] : kRows) {
    EXPECT_EQ(PciPath(folder), expect) << folder;
  }
  EXPECT_EQ(PciAddress(0, 0x1b, 0, 0), "0000:1b:00.0");
  EXPECT_EQ(PciAddress(0x10000, 0xE1, 0x1f, 7), "10000:e1:1f.7");
}

TEST(Pci, AGpuIsNearTheHcasOnItsSwitch) {
  struct Hca {
    const char* name;
    const char* pci;
    int numa;
  };
  struct {
    const char* name;
    const char* gpu;
    int numa;
    std::vector<Hca> hcas;
    std::vector<std::string> expect;
  } const kRows[] = {
      {"none", "a/g", 0, {}, {}},
      {"one on the switch",
       "r/s/p1/g",
       0,
       {{"near", "r/s/p2/h", 0}, {"far", "r2/s/h", 0}},
       {"near"}},
      {"the longest shared run",
       "r/s/t/p1/g",
       0,
       {{"root", "r/q/h", 0}, {"near", "r/s/t/p2/h", 1}, {"up", "r/s/u/h", 0}},
       {"near"}},
      {"two on the switch, and each once",
       "r/s/g",
       0,
       {{"a", "r/s/h1", 0}, {"a", "r/s/h1", 0}, {"b", "r/s/h2", 0}},
       {"a", "b"}},
      {"none on the switch: the memory node",
       "r/g",
       1,
       {{"a", "q/h", 0}, {"b", "p/h", 1}, {"c", "", 1}},
       {"b", "c"}},
      {"a switch before a memory node",
       "r/s/g",
       1,
       {{"node", "q/h", 1}, {"switch", "r/s/h", 0}},
       {"switch"}},
      {"no place is known", "", -1, {{"a", "r/h", -1}}, {}},
      {"no path, but a node", "", 0, {{"a", "r/h", 0}}, {"a"}},
  };
  for (const auto& row : kRows) {
    v1::Facts facts;
    for (const Hca& hca : row.hcas) {
      v1::InfinibandPort& port = *facts.add_infiniband();
      port.set_device(hca.name);
      port.set_pci(hca.pci);
      port.set_numa_node(hca.numa);
    }
    EXPECT_EQ(NearHcas(row.gpu, row.numa, facts.infiniband()), row.expect)
        << row.name;
  }
}

}  // namespace
}  // namespace rollcall
