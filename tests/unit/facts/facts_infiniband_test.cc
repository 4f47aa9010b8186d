#include <errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/device_facts.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/devices/verbs.h"
#include "daemon/core/admission/admission.h"
#include "tests/unit/facts/facts_fixture.h"

namespace rollcall {
namespace {

class InfinibandTest : public DeviceTest {
 protected:
  // Returns all InfiniBand facts of a simulated machine and the fake library.
  v1::Facts Ask(const std::string& root, const std::string& library) {
    DeviceFactsOptions options;
    options.sysroot = root;
    options.verbs_library = library;
    v1::Facts facts =
        AskInfiniband(options, [](const v1::Facts&, absl::string_view) {});
    EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
    return facts;
  }
};

std::string GidsText(const v1::InfinibandPort& port) {
  std::string text;
  for (const v1::Gid& gid : port.gids()) {
    absl::StrAppend(&text, gid.index(), " ", gid.type(), " ", gid.address(),
                    gid.net_device().empty() ? "" : " ", gid.net_device(), ";");
  }
  return text;
}

TEST_F(InfinibandTest, SysfsOfEightHcas) {
  const std::string root = Machine("dgx_h100");
  std::vector<v1::InfinibandPort> ports = ReadInfinibandPorts(root);
  ASSERT_EQ(ports.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    v1::InfinibandPort& port = ports[i];
    EXPECT_EQ(port.device(), absl::StrCat("mlx5_", i));
    EXPECT_EQ(port.port(), 1u);
    EXPECT_EQ(port.state(), "ACTIVE");
    EXPECT_EQ(port.phys_state(), "LinkUp");
    EXPECT_EQ(port.link_layer(), "InfiniBand");
    EXPECT_EQ(port.rate_gbps(), 400u);
    EXPECT_EQ(port.lid(), 0x10u + i);
    EXPECT_EQ(port.sm_lid(), 1u);
    EXPECT_EQ(port.driver(), "mlx5_core");
    EXPECT_EQ(port.firmware(), "28.39.1002");
    EXPECT_EQ(port.numa_node(), i / 4);
    EXPECT_EQ(port.unusable(), "");
    ReadGids(root, port);
    EXPECT_EQ(GidsText(port),
              absl::StrCat("0 IB fe80::a088:c203:46:2f4", i, ";"));
  }
  EXPECT_EQ(ports[0].pci(),
            "0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0");
  EXPECT_EQ(ports[0].net_device(), "ibp24s0") << "the IPoIB interface";
}

TEST_F(InfinibandTest, SysfsOfAPortThatIsDown) {
  const auto ports = ReadInfinibandPorts(Machine("seven_of_eight"));
  ASSERT_EQ(ports.size(), 8u);
  EXPECT_EQ(std::count_if(ports.begin(), ports.end(),
                          [](const auto& p) { return p.state() == "ACTIVE"; }),
            7);
  EXPECT_EQ(ports[5].state(), "DOWN");
  EXPECT_EQ(ports[5].phys_state(), "Polling");
  EXPECT_EQ(ports[5].lid(), 0xffffu);
}

TEST_F(InfinibandTest, SysfsOfTwoContainersWithOtherGidIndexes) {
  struct {
    const char* machine;
    const char* expect;
  } const kRows[] = {
      {"roce_a",
       "0 RoCE v1 fe80::a42:aff:fe00:1 eth2;1 RoCE v2 fe80::a42:aff:fe00:1 "
       "eth2;2 RoCE v1 ::ffff:10.1.0.1 eth2;3 RoCE v2 ::ffff:10.1.0.1 eth2;"},
      {"roce_b",
       "0 RoCE v1 fe80::a42:aff:fe00:1 eth2;1 RoCE v2 fe80::a42:aff:fe00:1 "
       "eth2;6 RoCE v1 ::ffff:10.1.0.2 eth2;7 RoCE v2 ::ffff:10.1.0.2 eth2;"},
  };
  for (const auto& row : kRows) {
    const v1::Facts facts = Ask(Machine(row.machine), "");
    ASSERT_EQ(facts.infiniband_size(), 2) << row.machine;
    const v1::InfinibandPort& port = facts.infiniband(1);
    EXPECT_EQ(GidsText(port), row.expect) << row.machine;
    EXPECT_EQ(port.link_layer(), "Ethernet");
    EXPECT_EQ(port.lid(), 0u);
    EXPECT_EQ(port.net_device(), "eth2");
    EXPECT_EQ(facts.missing_size(), 0);
  }
}

TEST_F(InfinibandTest, SysfsOfOtherDrivers) {
  const v1::Facts facts = Ask(Machine("mixed"), "");
  ASSERT_EQ(facts.infiniband_size(), 4);
  const v1::InfinibandPort& ib = facts.infiniband(0);
  EXPECT_EQ(ib.device(), "mlx4_0");
  EXPECT_EQ(ib.state(), "INIT");
  EXPECT_EQ(ib.driver(), "mlx4_core");
  EXPECT_EQ(ib.numa_node(), -1);
  EXPECT_EQ(ib.net_device(), "ib0");
  EXPECT_EQ(ib.lid(), 0u);
  const v1::InfinibandPort& ethernet = facts.infiniband(1);
  EXPECT_EQ(ethernet.port(), 2u);
  EXPECT_EQ(ethernet.link_layer(), "Ethernet");
  EXPECT_EQ(ethernet.net_device(), "eth4");
  EXPECT_EQ(GidsText(ethernet), "0 RoCE v1 fe80::2:c9ff:feaa:bb02 eth4;");
  const v1::InfinibandPort& efa = facts.infiniband(2);
  EXPECT_EQ(efa.driver(), "efa");
  EXPECT_EQ(efa.link_layer(), "Unspecified");
  EXPECT_EQ(efa.rate_gbps(), 100u);
  const v1::InfinibandPort& rxe = facts.infiniband(3);
  EXPECT_EQ(rxe.device(), "rxe0");
  EXPECT_EQ(rxe.driver(), "rdma_rxe");
  EXPECT_EQ(rxe.net_device(), "eth0");
  EXPECT_EQ(rxe.pci(), "");
  EXPECT_EQ(rxe.numa_node(), -1);
  EXPECT_EQ(GidsText(rxe),
            "0 RoCE v2 fe80::5054:ff:fe12:3456 eth0;1 RoCE v2 "
            "::ffff:192.168.1.7 eth0;");
  // The simulated machine has no plugin for EFA.
  DeviceFactsOptions options;
  options.sysroot = Machine("mixed", 1);
  EXPECT_TRUE(
      absl::StrContains(Missing(AskEfaPlugin(options))["infiniband.efa_plugin"],
                        "libnccl-net-ofi.so"));
}

TEST_F(InfinibandTest, APluginServesEfa) {
  v1::Facts facts;
  std::set<std::string> asked;
  const auto never = [&](const std::string& name) {
    asked.insert(name);
    return false;
  };
  CheckEfaPlugin("", never, facts);
  EXPECT_TRUE(asked.empty()) << "without an EFA device nothing is opened";
  facts.add_infiniband()->set_driver("efa");
  facts.mutable_infiniband(0)->set_device("rdmap0");
  CheckEfaPlugin(
      "", [](const std::string& name) { return name == "libnccl-net.so"; },
      facts);
  EXPECT_EQ(facts.missing_size(), 0);
  CheckEfaPlugin(
      "aws-ofi",
      [](const std::string& name) { return name == "libnccl-net-aws-ofi.so"; },
      facts);
  EXPECT_EQ(facts.missing_size(), 0);
  CheckEfaPlugin("", never, facts);
  EXPECT_EQ(asked,
            (std::set<std::string>{"libnccl-net.so", "libnccl-net-ofi.so"}));
  ASSERT_EQ(facts.missing_size(), 1);
  EXPECT_EQ(facts.missing(0).fact(), "infiniband.efa_plugin");
}

// Files that do not exist, cannot be read, or have wrong contents.
TEST_F(InfinibandTest, SysfsMayLackAnything) {
  EXPECT_TRUE(ReadInfinibandPorts(folder_ / "nothing").empty());
  const std::string root = folder_ / "odd";
  ASSERT_TRUE(MakeSysfsTree(
      "hca odd parent=\n"
      "port odd 1 state=9 phys= layer= rate=fast lid=zz sm=0xfffff\n"
      "port odd 99999999999 state=4:_ACTIVE\n"
      "port odd x state=4:_ACTIVE\n"
      "gid odd 1 x fe80::1 RoCE_v2\n"
      "gid odd 1 0 nonsense RoCE_v2\n"
      "gid odd 1 70000 fe80::1 RoCE_v2\n"
      "gid odd 1 3 fe80::1\n",
      root));
  const v1::Facts facts = Ask(root, "");
  ASSERT_EQ(facts.infiniband_size(), 1);
  const v1::InfinibandPort& port = facts.infiniband(0);
  EXPECT_EQ(port.state(), "");
  EXPECT_EQ(port.rate_gbps(), 0u);
  EXPECT_EQ(port.lid(), 0u);
  EXPECT_EQ(port.driver(), "");
  EXPECT_EQ(GidsText(port), "3  fe80::1;");
}

TEST_F(InfinibandTest, ThePortsOfAHelloAreBounded) {
  std::string text;
  for (int i = 0; i < 260; ++i) {
    absl::StrAppend(&text, "hca mlx5_", i, " parent=\nport mlx5_", i, " 1\n");
  }
  for (int i = 0; i < 260; ++i) {
    absl::StrAppend(&text, "gid mlx5_0 1 ", i, " fe80::1 RoCE_v2\n");
  }
  const std::string root = folder_ / "many";
  ASSERT_TRUE(MakeSysfsTree(text, root));
  const v1::Facts facts = Ask(root, "");
  EXPECT_EQ(facts.infiniband_size(), 256);
  EXPECT_EQ(facts.infiniband(2).device(), "mlx5_2") << "in natural order";
  EXPECT_EQ(facts.infiniband(0).gids_size(), 256);
}

// --- libibverbs --------------------------------------------------------------

TEST_F(InfinibandTest, VerbsWinsWhereBothSpeak) {
  const std::string root = Machine("dgx_h100");
  for (const char* fate : {"down=mlx5_2", "down=mlx5_2;extended=1"}) {
    setenv("FAKE_VERBS", fate, 1);
    const v1::Facts facts = Ask(root, Verbs());
    ASSERT_EQ(facts.infiniband_size(), 8) << fate;
    EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
    for (const v1::InfinibandPort& port : facts.infiniband()) {
      EXPECT_EQ(port.unusable(), "") << port.device();
      EXPECT_EQ(port.active_mtu(), 4096u) << "of verbs";
      EXPECT_EQ(port.driver(), "mlx5_core") << "of sysfs";
      EXPECT_FALSE(port.pci().empty());
      ASSERT_EQ(port.gids_size(), 1);
    }
    const v1::InfinibandPort& down = facts.infiniband(2);
    EXPECT_EQ(down.state(), "DOWN") << "sysfs says ACTIVE";
    EXPECT_EQ(down.phys_state(), "Disabled");
    EXPECT_EQ(GidsText(down), "0 IB fe80::a000:0:0:3;");
    EXPECT_EQ(facts.infiniband(0).state(), "ACTIVE");
  }
}

TEST_F(InfinibandTest, GidsComeByTheBestWayThereIs) {
  const std::string expect =
      "0 RoCE v1 fe80::a000:0:0:1 lo;1 RoCE v2 fe80::a000:0:0:1 lo;"
      "2 RoCE v1 ::ffff:10.0.0.1 lo;3 RoCE v2 ::ffff:10.0.0.1 lo;";
  const std::string of_sysfs =
      "0 RoCE v1 fe80::a42:aff:fe00:0 eth1;1 RoCE v2 fe80::a42:aff:fe00:0 "
      "eth1;2 RoCE v1 ::ffff:10.0.0.1 eth1;3 RoCE v2 ::ffff:10.0.0.1 eth1;";
  const std::string root = Machine("roce_a");
  struct {
    const char* fate;
    std::string library;
    std::string expect;
  } const kRows[] = {
      {"", Verbs(), expect},
      {"", Without(Verbs(), "_ibv_query_gid_table"), expect},
      {";_ibv_query_gid_table=error:95", Verbs(), expect},
      {";gids=none", Verbs(), of_sysfs},
      {";_ibv_query_gid_table=error:5;_ibv_query_gid_ex=error:5", Verbs(),
       of_sysfs},
  };
  for (const auto& row : kRows) {
    setenv("FAKE_VERBS",
           absl::StrCat("link=ethernet;devices=2", row.fate).c_str(), 1);
    const v1::Facts facts = Ask(root, row.library);
    ASSERT_EQ(facts.infiniband_size(), 2) << row.fate;
    EXPECT_EQ(GidsText(facts.infiniband(0)), row.expect) << row.fate;
    EXPECT_EQ(facts.infiniband(0).net_device(),
              row.expect == expect ? "lo" : "eth1");
    EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
  }
}

// Each symbol is missing in turn. Without one that ranks need, the devices are
// unusable. For all others, the value comes from sysfs or is left out.
TEST_F(InfinibandTest, AnOldLibraryMayLackAnySymbol) {
  const std::string root = Machine("dgx_h100");
  const std::set<std::string> needed = {"ibv_get_device_list",
                                        "ibv_open_device", "ibv_query_port"};
  for (const char* symbol :
       {"ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name",
        "ibv_open_device", "ibv_close_device", "ibv_query_device",
        "ibv_query_port", "_ibv_query_gid_table", "_ibv_query_gid_ex",
        "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr", "ibv_dereg_mr"}) {
    const v1::Facts facts = Ask(root, Without(Verbs(), symbol));
    ASSERT_EQ(facts.infiniband_size(), 8) << symbol;
    for (const v1::InfinibandPort& port : facts.infiniband()) {
      EXPECT_EQ(port.state(), "ACTIVE") << symbol;
      EXPECT_EQ(port.gids_size(), 1) << symbol;
      EXPECT_EQ(port.firmware(), "28.39.1002") << symbol;
      EXPECT_EQ(port.unusable().empty(), !needed.contains(symbol)) << symbol;
    }
    if (!needed.contains(symbol)) {
      EXPECT_EQ(facts.missing_size(), 0) << symbol;
      continue;
    }
    ASSERT_EQ(facts.missing_size(), 1) << symbol;
    EXPECT_EQ(facts.missing(0).fact(), "infiniband.unusable");
    EXPECT_TRUE(absl::StrContains(facts.missing(0).reason(), symbol));
    EXPECT_TRUE(absl::StrContains(facts.missing(0).remedy(), "libibverbs1"));
  }
}

TEST_F(InfinibandTest, EachFailureIsToldApart) {
  const std::string root = Machine("dgx_h100");
  const std::string none = Machine("seven_of_eight");
  std::filesystem::remove_all(none + "/dev/infiniband");
  const std::string no_uverbs = Machine("roce_a");
  std::filesystem::remove_all(no_uverbs + "/sys/class/infiniband_verbs");
  struct {
    const char* name;
    std::string root;
    std::string library;
    const char* fate;
    const char* fact;
    const char* reason;
    const char* remedy;
  } const kRows[] = {
      {"no library", root, "/nowhere/libibverbs.so.1", "",
       "infiniband.unusable", "libibverbs cannot be opened", "libibverbs1"},
      {"no RDMA in the kernel", root, Verbs(), "ibv_get_device_list=error:38",
       "infiniband.unusable", "ENOSYS", "ib_uverbs"},
      {"no right to list", root, Verbs(), "ibv_get_device_list=error:1",
       "infiniband.unusable", "Operation not permitted", ""},
      {"no provider", root, Verbs(), "devices=0", "infiniband.unusable",
       "no provider for mlx5_core (libmlx5-rdmav*.so)", "libmlx5-1"},
      {"no provider for one", root, Verbs(), "absent=mlx5_3",
       "infiniband.mlx5_3", "no provider", "ibverbs-providers"},
      {"no device node", none, Verbs(), "devices=0", "infiniband.unusable",
       "/dev/infiniband/uverbs0: No such file",
       "give the container the device nodes"},
      {"listed without a device node", none, Verbs(), "", "infiniband.unusable",
       "/dev/infiniband/uverbs0: No such file",
       "give the container the device nodes"},
      {"no module", no_uverbs, Verbs(), "devices=0", "infiniband.unusable",
       "/sys/class/infiniband_verbs", "ib_uverbs"},
      {"no right to open", root, Verbs(), "ibv_open_device=error:13",
       "infiniband.unusable", "Permission denied", "group rdma"},
      {"one cannot be opened", root, Verbs(), "ibv_open_device@mlx5_7=error:5",
       "infiniband.mlx5_7", "ibv_open_device: Input/output error", ""},
      {"one cannot be asked", root, Verbs(), "ibv_query_port@mlx5_1=error:5",
       "infiniband.mlx5_1", "ibv_query_port of port 1: Input/output error", ""},
  };
  for (const auto& row : kRows) {
    setenv("FAKE_VERBS", row.fate, 1);
    const v1::Facts facts = Ask(row.root, row.library);
    EXPECT_GT(facts.infiniband_size(), 0) << row.name;
    const bool all = std::string(row.fact) == "infiniband.unusable";
    for (const v1::InfinibandPort& port : facts.infiniband()) {
      const bool hit =
          all || absl::StrCat("infiniband.", port.device()) == row.fact;
      EXPECT_EQ(!port.unusable().empty(), hit) << row.name << port.device();
      // The value that sysfs gave stays.
      EXPECT_FALSE(port.state().empty()) << row.name;
    }
    ASSERT_EQ(facts.missing_size(), 1)
        << row.name << ": " << facts.ShortDebugString();
    EXPECT_EQ(facts.missing(0).fact(), row.fact) << row.name;
    EXPECT_TRUE(absl::StrContains(facts.missing(0).reason(), row.reason))
        << row.name << ": " << facts.missing(0).reason();
    EXPECT_TRUE(absl::StrContains(facts.missing(0).remedy(), row.remedy))
        << row.name << ": " << facts.missing(0).remedy();
    EXPECT_EQ(facts.missing(0).remedy().empty(),
              std::string(row.remedy).empty())
        << row.name;
  }
}

// If one of these calls fails, a fact is lost but no device.
TEST_F(InfinibandTest, AFailureThatCostsNoDevice) {
  const std::string root = Machine("dgx_h100");
  for (const char* fate :
       {"ibv_query_device=error:5", "_ibv_query_gid_table=error:5",
        "ibv_alloc_pd=error:12", "ibv_reg_mr=error:22"}) {
    setenv("FAKE_VERBS", fate, 1);
    const v1::Facts facts = Ask(root, Verbs());
    ASSERT_EQ(facts.infiniband_size(), 8) << fate;
    EXPECT_EQ(facts.missing_size(), 0) << fate;
    EXPECT_EQ(facts.infiniband(7).unusable(), "") << fate;
    EXPECT_EQ(facts.infiniband(7).firmware(), "28.39.1002") << fate;
    EXPECT_EQ(facts.infiniband(7).gids_size(), 1) << fate;
  }
}

TEST_F(InfinibandTest, TooLittleLockedMemoryIsNamedWithItsLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{64 << 10, before.rlim_max};
  if (setrlimit(RLIMIT_MEMLOCK, &low) != 0) {
    GTEST_SKIP() << "the limit cannot be changed here";
  }
  setenv("FAKE_VERBS", "ibv_reg_mr=error:12", 1);
  const v1::Facts facts = Ask(Machine("dgx_h100"), Verbs());
  // If locked memory is unlimited, no registration is tried.
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  const bool lifted = setrlimit(RLIMIT_MEMLOCK, &unlimited) == 0;
  const v1::Facts fine = Ask(Machine("roce_a"), Verbs());
  setrlimit(RLIMIT_MEMLOCK, &before);
  ASSERT_EQ(facts.infiniband_size(), 8);
  ASSERT_EQ(facts.missing_size(), 1);
  EXPECT_EQ(facts.missing(0).fact(), "infiniband.memlock");
  EXPECT_TRUE(absl::StrContains(facts.missing(0).reason(), "64 KiB"))
      << facts.missing(0).reason();
  EXPECT_TRUE(absl::StrContains(facts.missing(0).remedy(), "memlock=-1"));
  EXPECT_FALSE(facts.infiniband(0).unusable().empty());
  if (lifted) {
    EXPECT_EQ(fine.missing_size(), 0);
  }
}

// Devices that sysfs does not show (in a container without it) are listed too.
TEST_F(InfinibandTest, VerbsAloneIsEnough) {
  const v1::Facts facts = Ask(folder_ / "empty", Verbs());
  ASSERT_EQ(facts.infiniband_size(), 8);
  EXPECT_EQ(facts.infiniband(7).device(), "mlx5_7");
  EXPECT_EQ(facts.infiniband(7).state(), "ACTIVE");
  EXPECT_EQ(facts.infiniband(7).rate_gbps(), 400u);
  EXPECT_EQ(facts.infiniband(7).numa_node(), -1);
}

// The node has no port. It is unknown whether there is one, or known that there
// is none.
TEST_F(InfinibandTest, AMachineWithoutAPortSaysWhyItIsUnknown) {
  struct {
    const char* name;
    const char* made;  // A path below the root; a folder if it ends with '/'.
    const char* reason;
  } const kRows[] = {
      {"no sysfs", "", "/sys/class is not there"},
      {"no RDMA", "/sys/class/", ""},
      {"no device", "/sys/class/infiniband/", ""},
      {"it cannot be read", "/sys/class/infiniband", "Not a directory"},
      {"a device without ports", "/sys/class/infiniband/mlx5_0/",
       "no port of mlx5_0"},
  };
  for (const auto& row : kRows) {
    const std::string root = folder_ / row.name;
    const std::filesystem::path made = root + row.made;
    std::filesystem::create_directories(made.parent_path());
    if (made.has_filename() && *row.made != '\0') std::ofstream(made) << "";
    for (const std::string& library : {std::string(), Verbs()}) {
      setenv("FAKE_VERBS", "ibv_get_device_list=error:38", 1);
      const v1::Facts facts = Ask(root, library);
      EXPECT_EQ(facts.infiniband_size(), 0);
      auto missing = Missing(facts);
      EXPECT_EQ(missing.empty(), *row.reason == '\0') << row.name;
      EXPECT_TRUE(absl::StrContains(missing["infiniband"], row.reason))
          << row.name << ": " << missing["infiniband"];
    }
  }
}

}  // namespace
}  // namespace rollcall
