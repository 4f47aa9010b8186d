#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/device_facts.h"
#include "client/facts/devices/gpu.h"
#include "client/facts/devices/nvml.h"
#include "daemon/core/admission/admission.h"
#include "tests/unit/facts/facts_fixture.h"

namespace rollcall {
namespace {

class NvmlTest : public DeviceTest {
 protected:
  v1::Facts Ask(const std::string& library) {
    v1::Facts facts;
    AskNvml(
        {library}, [](absl::string_view) {}, facts);
    EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
    return facts;
  }
};

using Words = std::vector<std::string>;

TEST(NvmlText, WordsOfBitsAndVersions) {
  EXPECT_EQ(ThrottleReasons(0), Words());
  EXPECT_EQ(ThrottleReasons(1), Words()) << "idle";
  EXPECT_EQ(ThrottleReasons(0x48),
            (Words{"hw_slowdown", "hw_thermal_slowdown"}));
  EXPECT_EQ(ThrottleReasons(0x204), (Words{"sw_power_cap", "0x200"}));
  EXPECT_EQ(CudaVersionText(13000), "13.0");
  EXPECT_EQ(CudaVersionText(12040), "12.4");
  EXPECT_EQ(CudaVersionText(0), "");
  EXPECT_EQ(NvmlLibraryNames("/x/nvml.so"), Words{"/x/nvml.so"});
  EXPECT_EQ(NvmlLibraryNames("").back(), "/usr/lib/wsl/lib/libnvidia-ml.so.1");
}

TEST_F(NvmlTest, EightGpus) {
  const v1::Facts facts = Ask(NvmlLibrary());
  EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
  EXPECT_EQ(facts.versions().driver(), "580.65.06");
  EXPECT_EQ(facts.versions().cuda(), "13.0");
  ASSERT_EQ(facts.gpus_size(), 8);
  for (int i = 0; i < 8; ++i) {
    const v1::Gpu& gpu = facts.gpus(i);
    EXPECT_EQ(gpu.index(), static_cast<uint32_t>(i));
    EXPECT_EQ(gpu.name(), "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(gpu.uuid(),
              absl::StrCat("GPU-00000000-0000-0000-0000-00000000000", i));
    EXPECT_EQ(gpu.memory_bytes(), 85520809984u);
    EXPECT_EQ(gpu.driver(), "580.65.06");
    EXPECT_TRUE(gpu.ecc());
    EXPECT_EQ(gpu.ecc_errors_uncorrected(), static_cast<uint64_t>(i));
    EXPECT_EQ(gpu.retired_pages(), static_cast<uint32_t>(i % 2));
    EXPECT_EQ(gpu.sm_clock_mhz(), 1755u);
    EXPECT_EQ(gpu.sm_clock_mhz_max(), 1980u);
    EXPECT_EQ(gpu.throttle_reasons_size(), i == 2 ? 2 : 0);
    EXPECT_EQ(gpu.nvlinks(), 18u);
    EXPECT_EQ(gpu.nvlinks_active(), i == 4 ? 16u : 18u);
    EXPECT_EQ(gpu.nvlink_domain(), "abababababababababababababababab.7");
    EXPECT_EQ(gpu.compute_capability(), "9.0");
  }
  EXPECT_EQ(facts.gpus(0).pci(), "0000:1b:00.0");
  EXPECT_EQ(facts.gpus(7).pci(), "0000:df:00.0");
}

// Each call with the name that its field has in `missing`.
const std::pair<const char*, const char*> kFields[] = {
    {"nvmlDeviceGetName", "name"},
    {"nvmlDeviceGetUUID", "uuid"},
    {"nvmlDeviceGetPciInfo_v3", "pci"},
    {"nvmlDeviceGetMemoryInfo", "memory_bytes"},
    {"nvmlDeviceGetEccMode", "ecc"},
    {"nvmlDeviceGetTotalEccErrors", "ecc_errors_uncorrected"},
    {"nvmlDeviceGetRemappedRows", "retired_pages"},
    {"nvmlDeviceGetClockInfo", "sm_clock_mhz"},
    {"nvmlDeviceGetMaxClockInfo", "sm_clock_mhz_max"},
    {"nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons"},
    {"nvmlDeviceGetNvLinkState", "nvlinks"},
    {"nvmlDeviceGetGpuFabricInfoV", "nvlink_domain"},
    {"nvmlDeviceGetCudaComputeCapability", "compute_capability"},
};

// Removes the field from a GPU, for comparison.
std::string Rest(v1::Gpu gpu, const std::string& field) {
  const auto* descriptor = v1::Gpu::descriptor()->FindFieldByName(field);
  v1::Gpu::GetReflection()->ClearField(&gpu, descriptor);
  if (field == "nvlinks") gpu.clear_nvlinks_active();
  return gpu.ShortDebugString();
}

TEST_F(NvmlTest, AnErrorOfOneCallCostsOneFact) {
  const v1::Facts whole = Ask(NvmlLibrary());
  for (const auto& [call, field] : kFields) {
    setenv("FAKE_NVML", absl::StrCat(call, "@3=error:999").c_str(), 1);
    const v1::Facts facts = Ask(NvmlLibrary());
    ASSERT_EQ(facts.gpus_size(), 8) << call;
    for (int i = 0; i < 8; ++i) {
      if (i == 3) continue;
      EXPECT_EQ(facts.gpus(i).ShortDebugString(),
                whole.gpus(i).ShortDebugString())
          << call;
    }
    EXPECT_EQ(facts.gpus(3).ShortDebugString(), Rest(whole.gpus(3), field))
        << call;
    ASSERT_EQ(facts.missing_size(), 1) << call;
    EXPECT_EQ(facts.missing(0).fact(), absl::StrCat("gpus.3.", field));
    EXPECT_TRUE(
        absl::StrContains(facts.missing(0).reason(), "Unknown Error (999)"))
        << facts.missing(0).reason();
    // A GPU that does not support it has no missing fact.
    setenv("FAKE_NVML", absl::StrCat(call, "@3=error:3").c_str(), 1);
    EXPECT_EQ(Ask(NvmlLibrary()).missing_size(), 0) << call;
  }
  setenv("FAKE_NVML", "nvmlDeviceGetNvLinkState@3=error:3", 1);
  const v1::Gpu card = Ask(NvmlLibrary()).gpus(3);
  EXPECT_TRUE(card.has_nvlinks() && card.nvlinks() == 0) << "known to be none";
}

TEST_F(NvmlTest, AnOldLibraryMayLackAnySymbol) {
  const v1::Facts whole = Ask(NvmlLibrary());
  for (const auto& [call, field] : kFields) {
    const v1::Facts facts = Ask(Without(NvmlLibrary(), call));
    ASSERT_EQ(facts.gpus_size(), 8) << call;
    EXPECT_EQ(facts.versions().cuda(), "13.0") << call;
    if (std::string(field) == "retired_pages") {
      // Older GPUs retire pages, and older libraries have only that call.
      EXPECT_EQ(facts.gpus(0).retired_pages(), 3u);
      EXPECT_EQ(facts.missing_size(), 0) << call;
      continue;
    }
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(facts.gpus(i).ShortDebugString(), Rest(whole.gpus(i), field))
          << call;
    }
    if (std::string(field) == "nvlink_domain") {
      EXPECT_EQ(facts.missing_size(), 0) << "older than the fabric";
      continue;
    }
    ASSERT_EQ(facts.missing_size(), 1) << "said once for all GPUs: " << call;
    EXPECT_EQ(facts.missing(0).fact(), absl::StrCat("gpus.", field));
  }
}

TEST_F(NvmlTest, WithoutItsFirstCallsThereAreNoGpus) {
  for (const char* call : {"nvmlInit_v2", "nvmlDeviceGetCount_v2"}) {
    setenv("FAKE_NVML", absl::StrCat(call, "=error:9").c_str(), 1);
    const v1::Facts refused = Ask(NvmlLibrary());
    EXPECT_EQ(refused.gpus_size(), 0) << call;
    EXPECT_FALSE(Missing(refused)["gpus"].empty()) << call;
    unsetenv("FAKE_NVML");
    const v1::Facts lacking = Ask(Without(NvmlLibrary(), call));
    EXPECT_EQ(lacking.gpus_size(), 0) << call;
    EXPECT_FALSE(Missing(lacking)["gpus"].empty()) << call;
  }
  const v1::Facts none = Ask("/nowhere/libnvidia-ml.so.1");
  EXPECT_EQ(none.gpus_size(), 0);
  EXPECT_TRUE(absl::StrContains(Missing(none)["gpus"], "/nowhere"));
  EXPECT_TRUE(absl::StrContains(none.missing(0).remedy(), "--gpus all"));
}

// Only a handle, a version or an error text is missing.
TEST_F(NvmlTest, OtherCallsCostTheirOwnFacts) {
  const v1::Facts no_handle =
      Ask(Without(NvmlLibrary(), "nvmlDeviceGetHandleByIndex_v2"));
  EXPECT_EQ(no_handle.gpus_size(), 0) << "nothing can be asked of any";
  EXPECT_TRUE(absl::StrContains(Missing(no_handle)["gpus"],
                                "nvmlDeviceGetHandleByIndex"));

  setenv("FAKE_NVML", "nvmlDeviceGetHandleByIndex_v2@6=error:15", 1);
  const v1::Facts lost = Ask(NvmlLibrary());
  ASSERT_EQ(lost.gpus_size(), 8);
  EXPECT_EQ(lost.gpus(6).name(), "");
  EXPECT_EQ(lost.gpus(7).name(), "NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(absl::StrContains(Missing(lost)["gpus.6"], "GPU is lost (15)"));
  EXPECT_EQ(lost.missing_size(), 1);

  // The GPU is lost after it gave a handle. This is reported once, and no
  // further calls are made.
  setenv("FAKE_NVML", "nvmlDeviceGetPciInfo_v3@6=error:15", 1);
  const v1::Facts falling = Ask(NvmlLibrary());
  ASSERT_EQ(falling.gpus_size(), 8);
  EXPECT_EQ(falling.gpus(6).name(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(falling.gpus(6).memory_bytes(), 0u);
  EXPECT_TRUE(absl::StrContains(Missing(falling)["gpus.6"], "lost (15)"));
  EXPECT_EQ(falling.missing_size(), 1);

  setenv("FAKE_NVML", "nvmlDeviceGetName@0=error:999", 1);
  const v1::Facts wordless = Ask(Without(NvmlLibrary(), "nvmlErrorString"));
  EXPECT_TRUE(absl::StrContains(Missing(wordless)["gpus.0.name"], "(999)"));

  unsetenv("FAKE_NVML");
  for (const auto& [call, fact] :
       {std::pair("nvmlSystemGetDriverVersion", "versions.driver"),
        std::pair("nvmlSystemGetCudaDriverVersion_v2", "versions.cuda")}) {
    const v1::Facts facts = Ask(Without(NvmlLibrary(), call));
    EXPECT_EQ(facts.gpus_size(), 8) << call;
    EXPECT_EQ(facts.missing_size(), 1) << call;
    EXPECT_FALSE(Missing(facts)[fact].empty()) << call;
  }
  EXPECT_EQ(Ask(Without(NvmlLibrary(), "nvmlShutdown")).missing_size(), 0);

  setenv("FAKE_NVML", "rows=none", 1);
  EXPECT_EQ(Ask(NvmlLibrary()).gpus(0).retired_pages(), 3u);
  setenv("FAKE_NVML", "gpus=1000", 1);
  EXPECT_EQ(Ask(NvmlLibrary()).gpus_size(), 256) << "bounded";
}

TEST_F(NvmlTest, GpusAreCountedWhereTheDriverShowsThem) {
  DeviceFactsOptions options;
  const auto ask = [&] {
    return AskGpus(options, [](const v1::Facts&, absl::string_view) {});
  };
  options.sysroot = Machine("dgx_h100");
  v1::Facts facts = ask();
  EXPECT_EQ(facts.gpu_count(), 8u) << "of /proc/driver/nvidia/gpus";
  EXPECT_EQ(facts.gpus_size(), 0) << "NVML is of another machine";
  options.nvml_library = NvmlLibrary();
  facts = ask();
  EXPECT_EQ(facts.gpus_size(), 8);
  EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
  setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  facts = ask();
  EXPECT_EQ(facts.gpu_count(), 2u);
  EXPECT_EQ(facts.gpus_size(), 8) << "the node has them all the same";

  // On WSL2 there is only /dev/dxg, and NVML knows how many GPUs there are.
  const std::string wsl = folder_ / "wsl";
  std::filesystem::create_directories(wsl + "/dev");
  std::ofstream(wsl + "/dev/dxg") << "";
  options.sysroot = wsl;
  setenv("FAKE_NVML", "gpus=3", 1);
  facts = ask();
  EXPECT_EQ(facts.gpu_count(), 2u) << "of three";
  EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(ask().gpu_count(), 3u);

  options.sysroot = folder_ / "empty";
  options.nvml_library.clear();
  facts = ask();
  EXPECT_EQ(facts.gpu_count(), 0u);
  EXPECT_EQ(facts.missing_size(), 0) << "it is known that there is none";
}

TEST_F(NvmlTest, EachGpuIsNearTheHcaOnItsSwitch) {
  const std::string root = Machine("dgx_h100");
  DeviceFactsOptions options;
  options.sysroot = root;
  v1::Facts facts =
      AskInfiniband(options, [](const v1::Facts&, absl::string_view) {});
  AskNvml(
      {NvmlLibrary()}, [](absl::string_view) {}, facts);
  PlaceGpus(root, facts);
  ASSERT_EQ(facts.gpus_size(), 8);
  for (int i = 0; i < 8; ++i) {
    const v1::Gpu& gpu = facts.gpus(i);
    EXPECT_EQ(gpu.numa_node(), i / 4);
    ASSERT_EQ(gpu.near_hcas_size(), 1) << i;
    EXPECT_EQ(gpu.near_hcas(0), absl::StrCat("mlx5_", i));
  }
}

}  // namespace
}  // namespace rollcall
