// The doctor's findings for gathered facts, from simulated machines and the
// fake libraries. The tables of doctor_test.cc test the thresholds; these rows
// test the names of missing facts.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/doctor/doctor.h"
#include "client/facts/device_facts.h"
#include "client/facts/facts.h"
#include "daemon/core/admission/admission.h"
#include "tests/unit/facts/facts_fixture.h"

namespace rollcall {
namespace {

constexpr auto kNA = Severity::kNotApplicable;
constexpr auto kOk = Severity::kOk;
constexpr auto kUnknown = Severity::kUnknown;
constexpr auto kWarning = Severity::kWarning;
constexpr auto kFatal = Severity::kFatal;

std::string Text(Severity severity) { return std::string(Word(severity)); }

class DoctorFactsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ForgetVariables();
    options_.nccl_library = "/nowhere/libnccl.so.2";
    options_.timeout = absl::Seconds(60);
  }
  void TearDown() override {
    DeviceTest::TearDown();
    ForgetVariables();
  }

  static void ForgetVariables() {
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("NCCL_NET_PLUGIN");
  }

  // Uses a machine with 8 HCAs and 8 GPUs.
  void UseEightOfEach() {
    options_.sysroot = Machine("dgx_h100");
    options_.verbs_library = Verbs();
    options_.nvml_library = NvmlLibrary();
  }

  // Uses a machine that is described by this text. It always has a sysfs.
  void UseMachine(const std::string& text) {
    options_.sysroot = folder_ / "machine";
    std::filesystem::create_directories(options_.sysroot + "/sys/class");
    ASSERT_TRUE(MakeSysfsTree(text, options_.sysroot));
  }

  void Write(const std::string& path, const std::string& text) {
    const std::string whole = options_.sysroot + path;
    std::filesystem::create_directories(
        std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text << "\n";
  }

  // Gathers facts as GatherNodeFacts does, but only those of devices.
  v1::Facts Gather() {
    const v1::Facts facts = HasDevices(options_) ? GatherDeviceFacts(options_)
                                                 : WithoutDevices(options_);
    EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
    return facts;
  }

  // Returns the findings of a check, the worst first.
  std::vector<Finding> Of(const std::string& check, const v1::Facts& facts) {
    std::vector<Finding> findings = WorstFirst(Diagnose(facts, doctor_));
    findings.erase(
        std::remove_if(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.check != check; }),
        findings.end());
    return findings;
  }

  // Expects this worst finding of a check. Its text must contain `says`.
  void Expect(const char* check, Severity severity, const std::string& subject,
              const std::string& says) {
    ExpectOf(Gather(), check, severity, subject, says);
  }
  void ExpectOf(const v1::Facts& facts, const char* check, Severity severity,
                const std::string& subject, const std::string& says) {
    const std::vector<Finding> findings = Of(check, facts);
    ASSERT_FALSE(findings.empty()) << check;
    const Finding& worst = findings.front();
    EXPECT_EQ(Text(worst.severity), Text(severity)) << worst.found;
    EXPECT_EQ(worst.subject, subject) << worst.found;
    const std::string said =
        absl::StrCat(worst.found, " ", worst.why, " ", worst.mend);
    EXPECT_TRUE(absl::StrContains(said, says)) << said;
  }

  DeviceFactsOptions options_;
  DoctorOptions doctor_;
};

// NVML fails in one way, and the check that needs the answer reports it.
TEST_F(DoctorFactsTest, WhatNvmlDoesNotTellIsNoOk) {
  struct {
    const char* check;
    const char* fate;
    const char* lacks;
    Severity severity;
    const char* subject;
    const char* says;
  } const kRows[] = {
      {"gpu-throttle", "", "nvmlDeviceGetCurrentClocksEventReasons", kUnknown,
       "gpu 0", "has no nvmlDeviceGetCurrentClocksEventReasons"},
      {"gpu-throttle", "nvmlDeviceGetCurrentClocksEventReasons@2=error:999", "",
       kUnknown, "gpu 2", "Unknown Error"},
      {"gpu-nvlink", "", "nvmlDeviceGetNvLinkState", kUnknown, "gpu 0",
       "has no nvmlDeviceGetNvLinkState"},
      {"nccl-version", "", "nvmlDeviceGetCudaComputeCapability", kUnknown,
       "gpu 0", "has no nvmlDeviceGetCudaComputeCapability"},
      {"gpu-retired-pages", "nvmlDeviceGetRemappedRows@3=error:999", "",
       kUnknown, "gpu 3", "Unknown Error"},
      // In the fake library, GPU N has N ECC errors.
      {"gpu-ecc", "nvmlDeviceGetEccMode=error:999;gpus=1", "", kUnknown,
       "gpu 0", "nvmlDeviceGetEccMode"},
      {"gpu-ecc", "gpus=1", "nvmlDeviceGetEccMode", kUnknown, "gpu 0",
       "has no nvmlDeviceGetEccMode"},
      {"gpu-ecc", "nvmlDeviceGetEccMode@3=error:999", "", kWarning, "gpu 1",
       "1 uncorrected"},
      {"gpu-ecc", "gpus=1", "nvmlDeviceGetTotalEccErrors", kUnknown, "gpu 0",
       "has no nvmlDeviceGetTotalEccErrors"},
  };
  UseEightOfEach();
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat(row.check, " ", row.fate, " ", row.lacks));
    setenv("FAKE_NVML", row.fate, 1);
    options_.nvml_library =
        *row.lacks == '\0' ? NvmlLibrary() : Without(NvmlLibrary(), row.lacks);
    v1::Facts facts = Gather();
    // The check needs the version before it checks any GPU.
    facts.mutable_versions()->set_nccl("2.28.9");
    ExpectOf(facts, row.check, row.severity, row.subject, row.says);
  }
  // The errors of a GPU count even if it is unknown whether ECC is on.
  setenv("FAKE_NVML", "nvmlDeviceGetEccMode@3=error:999", 1);
  options_.nvml_library = NvmlLibrary();
  const std::vector<Finding> ecc = Of("gpu-ecc", Gather());
  EXPECT_TRUE(std::any_of(ecc.begin(), ecc.end(), [](const Finding& f) {
    return f.subject == "gpu 3" && f.severity == kWarning;
  }));
}

TEST_F(DoctorFactsTest, AGpuThatIsLostIsFatalAndASlowNvmlIsNot) {
  struct {
    const char* name;
    const char* fate;
    const char* visible;
    Severity severity;
    const char* subject;
    const char* says;
  } const kRows[] = {
      {"all are there", "", nullptr, kOk, "node", "8 GPUs"},
      {"no handle", "nvmlDeviceGetHandleByIndex_v2@6=error:15", nullptr, kFatal,
       "gpu 6", "GPU is lost"},
      {"lost behind its handle", "nvmlDeviceGetMemoryInfo@6=error:15", nullptr,
       kFatal, "gpu 6", "GPU is lost"},
      {"lost, and perhaps hidden", "nvmlDeviceGetHandleByIndex_v2@6=error:15",
       "0,1", kWarning, "gpu 6", "GPU is lost"},
      {"no answer at one", "nvmlDeviceGetMemoryInfo@3=hang", nullptr, kUnknown,
       "node", "no answer within"},
      {"no answer at all", "nvmlInit_v2=hang", nullptr, kUnknown, "node",
       "no answer within"},
      {"a crash", "nvmlDeviceGetMemoryInfo@3=crash", nullptr, kUnknown, "node",
       "signal 6"},
      {"one lost, no answer at a later one",
       "nvmlDeviceGetHandleByIndex_v2@2=error:15;"
       "nvmlDeviceGetMemoryInfo@3=crash",
       nullptr, kFatal, "gpu 2", "GPU is lost"},
      {"fewer than the driver lists", "gpus=7", nullptr, kFatal, "node",
       "NVML opens 7"},
      {"some are hidden", "", "0,1", kOk, "node", "2 of 8 GPUs"},
  };
  UseEightOfEach();
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    ForgetVariables();
    if (row.visible != nullptr) setenv("CUDA_VISIBLE_DEVICES", row.visible, 1);
    setenv("FAKE_NVML", row.fate, 1);
    options_.timeout = absl::StrContains(row.fate, "hang") ? absl::Seconds(1)
                                                           : absl::Minutes(1);
    doctor_.gpus_expected = row.visible != nullptr ? 2 : 8;
    Expect("gpus", row.severity, row.subject, row.says);
    if (row.severity == kUnknown) {
      EXPECT_GT(Of("gpu-nvml", Gather()).front().severity, kOk);
    }
  }
  // One of the two visible GPUs is no longer in the driver's list.
  setenv("FAKE_NVML", "gpus=7", 1);
  setenv("CUDA_VISIBLE_DEVICES", "6,7", 1);
  std::filesystem::remove_all(options_.sysroot +
                              "/proc/driver/nvidia/gpus/0000:df:00.0");
  doctor_.gpus_expected = 2;
  Expect("gpus", kFatal, "node", "1 GPUs are left");
}

TEST_F(DoctorFactsTest, NcclsPluginIsJudgedForEachEfaPort) {
  UseMachine(
      "hca rdmap16s27 pci=0000:10:1b.0 driver=efa fw=1 numa=0 uverbs=0\n"
      "port rdmap16s27 1 state=4:_ACTIVE phys=5:_LinkUp layer=Unknown "
      "rate=100_Gb/sec_(4X_EDR) lid=0x0 sm=0x0\n"
      "hca rdmap32s27 pci=0000:20:1b.0 driver=efa fw=1 numa=0 uverbs=1\n"
      "port rdmap32s27 1 state=4:_ACTIVE phys=5:_LinkUp layer=Unknown "
      "rate=100_Gb/sec_(4X_EDR) lid=0x0 sm=0x0\n");
  const std::string pipe = folder_ / "plugin.so";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct {
    const char* name;
    std::string plugin;
    std::string verbs;
    const char* fate;
    Severity severity;
    const char* says;
  } const kRows[] = {
      {"there", NvmlLibrary(), "", "", kOk, "can be loaded"},
      {"not there", "", "", "", kWarning, "aws-ofi-nccl"},
      // The loader waits in open() until the pipe has a writer.
      {"hangs", pipe, "", "", kWarning, "no answer within"},
      // The plugin is reported, whatever happens in libibverbs.
      {"there, and libibverbs is not", NvmlLibrary(), "/nowhere/verbs.so", "",
       kOk, "can be loaded"},
      {"not there, and libibverbs crashes", "", Verbs(),
       "ibv_get_device_list=crash", kWarning, "aws-ofi-nccl"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    setenv("NCCL_NET_PLUGIN", row.plugin.c_str(), 1);
    setenv("FAKE_VERBS", row.fate, 1);
    options_.verbs_library = row.verbs;
    options_.timeout =
        row.plugin == pipe ? absl::Seconds(1) : absl::Seconds(60);
    const v1::Facts facts = Gather();
    const std::vector<Finding> findings = Of("efa-plugin", facts);
    ASSERT_EQ(findings.size(), 2u);
    for (const Finding& finding : findings) {
      EXPECT_EQ(Text(finding.severity), Text(row.severity)) << finding.found;
      const std::string said = absl::StrCat(finding.found, " ", finding.mend);
      EXPECT_TRUE(absl::StrContains(said, row.says)) << said;
    }
    // Only this check gives the reason.
    EXPECT_EQ(
        Of("facts", facts).front().severity == kOk ||
            !absl::StrContains(Of("facts", facts).front().found, "plugin"),
        true);
  }
}

// Only a limit with which no memory can be registered is fatal.
TEST_F(DoctorFactsTest, ALowMemlockIsFatalWhereADeviceCouldBeUsed) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  struct {
    const char* name;
    uint64_t limit;
    const char* fate;
    Severity severity;
    const char* usable;
  } const kRows[] = {
      {"no memory can be registered", 8 << 20, "ibv_reg_mr=error:12", kFatal,
       "no communicator"},
      {"nor with somewhat more", 12 << 20, "ibv_reg_mr=error:12", kFatal,
       "no communicator"},
      {"none for a reason of its own", 8 << 20, "ibv_open_device=error:13",
       kWarning, "falls back to TCP without a message"},
      {"it can", 8 << 20, "", kFatal, "opens it"},
      {"it can, with somewhat more", 12 << 20, "", kWarning, "opens it"},
  };
  UseEightOfEach();
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const rlimit low{std::min<rlim_t>(row.limit, before.rlim_max),
                     before.rlim_max};
    if (setrlimit(RLIMIT_MEMLOCK, &low) != 0) {
      GTEST_SKIP() << "the limit cannot be changed here";
    }
    setenv("FAKE_VERBS", row.fate, 1);
    v1::Facts facts = Gather();
    setrlimit(RLIMIT_MEMLOCK, &before);
    facts.mutable_limits()->set_memlock_bytes(row.limit);
    ExpectOf(facts, "memlock", row.severity, "node", "MiB");
    ExpectOf(facts, "hca-usable", *row.fate == '\0' ? kOk : kWarning,
             "mlx5_0 port 1", row.usable);
  }
  // Without an ACTIVE port, NCCL uses no RDMA.
  const rlimit low{64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  setenv("FAKE_VERBS", "ibv_reg_mr=error:12;devices=1;down=mlx5_0", 1);
  UseMachine("");
  options_.nvml_library.clear();
  v1::Facts facts = Gather();
  setrlimit(RLIMIT_MEMLOCK, &before);
  ASSERT_EQ(facts.infiniband_size(), 1);
  facts.mutable_limits()->set_memlock_bytes(8 << 20);
  ExpectOf(facts, "memlock", kWarning, "node", "8 MiB");
}

// A device that a node is known not to have is not a missing fact.
TEST_F(DoctorFactsTest, ANodeWithoutDevicesIsWell) {
  constexpr char kGpu[] =
      "gpu 0000:1b:00.0 pci=0000:15:01.0/0000:1b:00.0 "
      "numa=0\n";
  struct {
    const char* name;
    const char* machine;
    bool verbs;
    const char* fate;
    bool nvml;
  } const kRows[] = {
      {"neither", "", false, "", false},
      {"a kernel without RDMA", "", true, "ibv_get_device_list=error:38",
       false},
      {"libibverbs lists none", "", true, "devices=0", false},
      {"a GPU", kGpu, false, "", true},
      {"a GPU, a kernel without RDMA", kGpu, true,
       "ibv_get_device_list=error:38", true},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    std::filesystem::remove_all(folder_ / "machine");
    UseMachine(row.machine);
    options_.verbs_library = row.verbs ? Verbs() : "";
    options_.nvml_library = row.nvml ? NvmlLibrary() : "";
    setenv("FAKE_VERBS", row.fate, 1);
    // A PCIe card has no NVLink, no retired pages and no remapped rows.
    setenv("FAKE_NVML",
           "gpus=1;nvmlDeviceGetNvLinkState=error:3;rows=none;"
           "nvmlDeviceGetRetiredPages=error:3",
           1);
    const v1::Facts facts = Gather();
    for (const Finding& finding : Diagnose(facts, doctor_)) {
      const bool devices = absl::StartsWith(finding.check, "hca-") ||
                           absl::StartsWith(finding.check, "gpu") ||
                           finding.check == "efa-plugin" ||
                           finding.check == "facts" ||
                           (!row.nvml && finding.check == "nccl") ||
                           (!row.nvml && finding.check == "nccl-version");
      if (devices) {
        EXPECT_LE(finding.severity, kOk) << finding.check << finding.found;
      }
    }
    ExpectOf(facts, "hca-usable", kNA, "node", "no RDMA device here");
    if (row.nvml) {
      ExpectOf(facts, "gpu-nvlink", kNA, "gpu 0", "it has no NVLink");
    } else {
      ExpectOf(facts, "gpus", kNA, "node", "no NVIDIA GPU here");
    }
  }
}

// A device on the PCI bus without a driver does not count as absent.
TEST_F(DoctorFactsTest, ADeviceWithoutADriverIsNamed) {
  struct {
    const char* name;
    const char* vendor;
    const char* pci_class;
    const char* check;
    Severity severity;
  } const kRows[] = {
      {"ConnectX", "0x15b3", "0x020000", "hca-usable", kUnknown},
      {"ConnectX with InfiniBand", "0x15b3", "0x020700", "hca-usable",
       kUnknown},
      {"EFA", "0x1d0f", "0x020000", "hca-usable", kNA},
      {"another InfiniBand", "0x1077", "0x020700", "hca-usable", kUnknown},
      {"another NIC", "0x8086", "0x020000", "hca-usable", kNA},
      {"a Mellanox that is no NIC", "0x15b3", "0x080100", "hca-usable", kNA},
      {"H100", "0x10de", "0x030200", "gpus", kUnknown},
      {"GeForce", "0x10de", "0x030000", "gpus", kUnknown},
      {"its sound", "0x10de", "0x040300", "gpus", kNA},
      {"another display", "0x1234", "0x030000", "gpus", kNA},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    std::filesystem::remove_all(folder_ / "machine");
    UseMachine("");
    Write("/sys/bus/pci/devices/0000:01:00.0/vendor", row.vendor);
    Write("/sys/bus/pci/devices/0000:01:00.0/class", row.pci_class);
    Expect(row.check, row.severity, "node",
           row.severity == kUnknown ? "0000:01:00.0" : "");
  }
  UseMachine("");
  Write("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x1d0f");
  Write("/sys/bus/pci/devices/0000:01:00.0/device", "0xefa1");
  Write("/sys/bus/pci/devices/0000:01:00.0/class", "0x020000");
  Expect("hca-usable", kUnknown, "node", "0000:01:00.0");
  // Without sysfs, nothing is known about devices.
  std::filesystem::remove_all(options_.sysroot + "/sys");
  Expect("hca-usable", kUnknown, "node", "/sys/class is not there");
}

// A file in sysfs cannot be read, because it is a folder here.
TEST_F(DoctorFactsTest, APortsFileThatCannotBeReadIsUnknown) {
  struct {
    const char* file;
    const char* check;
    const char* machine;
    const char* subject;
  } const kRows[] = {
      {"lid", "hca-lid", "dgx_h100", "mlx5_3 port 1"},
      {"sm_lid", "hca-lid", "dgx_h100", "mlx5_3 port 1"},
      {"state", "hca-state", "dgx_h100", "mlx5_3 port 1"},
      {"phys_state", "hca-phys-state", "dgx_h100", "mlx5_3 port 1"},
      {"link_layer", "hca-link-layer", "dgx_h100", "mlx5_3 port 1"},
      {"rate", "hca-rate", "dgx_h100", "mlx5_3 port 1"},
      {"gids", "hca-roce-gid", "roce_a", "mlx5_1 port 1"},
  };
  size_t number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.file);
    options_.verbs_library.clear();
    options_.sysroot = Machine(row.machine, ++number);
    const std::string device =
        std::string(row.subject).substr(0, std::string(row.subject).find(' '));
    const std::string path =
        absl::StrCat(options_.sysroot, "/sys/class/infiniband/", device,
                     "/ports/1/", row.file);
    std::filesystem::remove_all(path);
    const bool folder = std::string(row.file) == "gids";
    if (folder) {
      std::ofstream(path) << "";
    } else {
      std::filesystem::create_directory(path);
    }
    const v1::Facts facts = Gather();
    ExpectOf(facts, row.check, kUnknown, row.subject,
             folder ? "Not a directory" : "Is a directory");
    EXPECT_EQ(Of("facts", facts).front().severity, kOk);
    // If libibverbs reports the value, the file is not needed.
    setenv("FAKE_VERBS", number == 7 ? "link=ethernet;devices=2" : "", 1);
    options_.verbs_library = Verbs();
    ExpectOf(Gather(), row.check, kOk, Of(row.check, Gather()).front().subject,
             "");
  }
}

}  // namespace
}  // namespace rollcall
