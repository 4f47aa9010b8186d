// What the doctor says of facts that the gatherer made, of machines below a
// folder and of the fake libraries. The tables of doctor_test.cc have the
// thresholds; these rows hold the names by which facts are missing.
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
#include "daemon/core/admission.h"
#include "tests/unit/facts_fixture.h"

namespace rollcall {
namespace {

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

  // A machine with 8 HCAs and 8 GPUs.
  void UseEightOfEach() {
    options_.sysroot = Machine("dgx_h100");
    options_.verbs_library = Verbs();
    options_.nvml_library = NvmlLibrary();
  }

  // A machine of this text, and a sysfs in any case.
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

  // As GatherNodeFacts, of devices alone.
  v1::Facts Gather() {
    const v1::Facts facts = HasDevices(options_) ? GatherDeviceFacts(options_)
                                                 : WithoutDevices(options_);
    EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
    return facts;
  }

  // The findings of a check, worst first.
  std::vector<Finding> Of(const std::string& check, const v1::Facts& facts) {
    std::vector<Finding> findings = WorstFirst(Diagnose(facts, doctor_));
    findings.erase(
        std::remove_if(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.check != check; }),
        findings.end());
    return findings;
  }

  // The worst finding of a check, which says `says` somewhere.
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

// NVML fails in one way, and the check that needs the answer says so.
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
      // ECC: the fake's GPU 0 has no error, and GPU N has N.
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
    // The check asks for the version before it looks at any GPU.
    facts.mutable_versions()->set_nccl("2.28.9");
    ExpectOf(facts, row.check, row.severity, row.subject, row.says);
  }
  // The errors of a GPU count whether or not its ECC mode is known.
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
  // One of the two visible ones has gone from the driver's list.
  setenv("FAKE_NVML", "gpus=7", 1);
  setenv("CUDA_VISIBLE_DEVICES", "6,7", 1);
  std::filesystem::remove_all(options_.sysroot +
                              "/proc/driver/nvidia/gpus/0000:df:00.0");
  doctor_.gpus_expected = 2;
  Expect("gpus", kFatal, "node", "1 GPUs are left");
}

}  // namespace
}  // namespace rollcall
