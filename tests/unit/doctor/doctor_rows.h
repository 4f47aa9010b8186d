// The table of the doctor's checks: each row changes a healthy node and names
// the finding that follows.
#ifndef ROLLCALL_TESTS_UNIT_DOCTOR_DOCTOR_ROWS_H_
#define ROLLCALL_TESTS_UNIT_DOCTOR_DOCTOR_ROWS_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/doctor/doctor.h"

namespace rollcall {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kGiB = 1 << 30;
inline constexpr uint64_t kUnlimited = ~uint64_t{0};

inline v1::Interface& AddInterface(v1::Facts& facts, const std::string& name,
                                   const std::string& address,
                                   uint32_t mtu = 1500) {
  v1::Interface& interface = *facts.add_interfaces();
  interface.set_name(name);
  interface.set_mtu(mtu);
  interface.set_up(true);
  interface.set_running(true);
  if (!address.empty()) {
    v1::InterfaceAddress& added = *interface.add_addresses();
    added.set_address(address);
    added.set_prefix_length(24);
  }
  return interface;
}

inline void AddPort(v1::Facts& facts, int device,
                    const std::string& link_layer) {
  v1::InfinibandPort& port = *facts.add_infiniband();
  port.set_device(absl::StrCat("mlx5_", device));
  port.set_port(1);
  port.set_state("ACTIVE");
  port.set_phys_state("LinkUp");
  port.set_link_layer(link_layer);
  port.set_rate_gbps(400);
  port.set_driver("mlx5_core");
  if (link_layer == "InfiniBand") {
    port.set_lid(10 + device);
    port.set_sm_lid(1);
    return;
  }
  for (const char* type : {"RoCE v1", "RoCE v2"}) {
    v1::Gid& gid = *port.add_gids();
    gid.set_type(type);
    gid.set_address("fe80::1");
  }
}

inline void AddGpu(v1::Facts& facts, uint32_t index) {
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_index(index);
  gpu.set_name("NVIDIA H100 80GB HBM3");
  gpu.set_driver("580.65.06");
  gpu.set_ecc(true);
  gpu.set_ecc_errors_uncorrected(0);
  gpu.set_retired_pages(0);
  gpu.set_nvlinks(18);
  gpu.set_nvlinks_active(18);
  gpu.set_compute_capability("9.0");
}

// A node with 8 HCAs and 8 GPUs, and nothing wrong.
inline v1::Facts Healthy(const std::string& link_layer = "InfiniBand") {
  v1::Facts facts;
  facts.set_hostname("node7");
  facts.set_boot_id("3f2c");
  facts.set_network_namespace(4026531840);
  v1::Interface& loopback = AddInterface(facts, "lo", "127.0.0.1", 65536);
  loopback.set_loopback(true);
  AddInterface(facts, "eth0", "10.0.0.7");
  AddInterface(facts, "docker0", "172.17.0.1").set_device_type("bridge");
  for (int i = 0; i < 8; ++i) AddPort(facts, i, link_layer);
  for (uint32_t i = 0; i < 8; ++i) AddGpu(facts, i);
  facts.set_gpu_count(8);
  facts.mutable_versions()->set_driver("580.65.06");
  facts.mutable_versions()->set_cuda("13.0");
  facts.mutable_versions()->set_nccl("2.28.9");
  v1::SystemLimits& limits = *facts.mutable_limits();
  limits.set_memlock_bytes(kUnlimited);
  limits.set_nofile(1 << 20);
  limits.set_shm_bytes(64 * kGiB);
  limits.set_transparent_hugepages("madvise");
  limits.set_swap_bytes(0);
  limits.set_swap_used_bytes(0);
  v1::FolderSpace& folder = *facts.add_folders();
  folder.set_path("/data");
  folder.set_free_bytes(500 * kGiB);
  folder.set_size_bytes(1000 * kGiB);
  v1::CommunicationVariable& variable =
      *facts.mutable_communication()->add_variables();
  variable.set_name("NCCL_ALGO");
  variable.set_value("Ring");
  return facts;
}

inline DaemonClock Clock(absl::Duration offset,
                         absl::Duration error = absl::Milliseconds(1)) {
  return {offset, error, ""};
}

inline DoctorOptions HealthyOptions() {
  DoctorOptions options;
  options.gpus_expected = 8;
  options.clock = Clock(absl::Milliseconds(3));
  options.own_name =
      OwnName{"node7", OwnName::Kind::kFound, {"127.0.1.1", "10.0.0.7"}};
  return options;
}

inline void Lack(v1::Facts& facts, const std::string& fact,
                 const std::string& reason = "it was not to be read",
                 const std::string& remedy = "") {
  v1::MissingFact& missing = *facts.add_missing();
  missing.set_fact(fact);
  missing.set_reason(reason);
  missing.set_remedy(remedy);
}

inline v1::InfinibandPort& Port(v1::Facts& facts, int index) {
  return *facts.mutable_infiniband(index);
}

inline std::vector<Finding> Of(const std::vector<Finding>& findings,
                               const std::string& check) {
  std::vector<Finding> of;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(of),
               [&](const Finding& f) { return f.check == check; });
  return of;
}

struct DoctorRow {
  const char* check;
  const char* what;
  std::function<void(v1::Facts&, DoctorOptions&)> change;
  Severity expected;
  // The subject of the check's worst finding; empty: any.
  const char* subject = "";
  // A part of the finding's text or of how to fix it.
  const char* says = "";
};

using F = v1::Facts;
using O = DoctorOptions;
inline constexpr auto kNA = Severity::kNotApplicable;
inline constexpr auto kOk = Severity::kOk;
inline constexpr auto kUnknown = Severity::kUnknown;
inline constexpr auto kWarning = Severity::kWarning;
inline constexpr auto kRetryable = Severity::kRetryable;
inline constexpr auto kFatal = Severity::kFatal;

inline void NoRdma(F& f, O&) { f.clear_infiniband(); }
inline void NoGpu(F& f, O& o) {
  f.clear_gpus();
  f.clear_gpu_count();
  o.gpus_expected = 0;
}
inline void Nothing(F&, O&) {}

// The rows of the table, grouped by what the checks examine.
std::vector<DoctorRow> HostRows();
std::vector<DoctorRow> RdmaRows();
std::vector<DoctorRow> GpuRows();

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_DOCTOR_DOCTOR_ROWS_H_
