// The doctor's checks: a table of facts and the findings of each check.
#include "client/doctor/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/system.h"

namespace rollcall {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;
constexpr uint64_t kUnlimited = ~uint64_t{0};

v1::Interface& AddInterface(v1::Facts& facts, const std::string& name,
                            const std::string& address, uint32_t mtu = 1500) {
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

void AddPort(v1::Facts& facts, int device, const std::string& link_layer) {
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

void AddGpu(v1::Facts& facts, uint32_t index) {
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
v1::Facts Healthy(const std::string& link_layer = "InfiniBand") {
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
  return facts;
}

DaemonClock Clock(absl::Duration offset,
                  absl::Duration error = absl::Milliseconds(1)) {
  return {offset, error, ""};
}

DoctorOptions HealthyOptions() {
  DoctorOptions options;
  options.gpus_expected = 8;
  options.clock = Clock(absl::Milliseconds(3));
  options.own_name =
      OwnName{"node7", OwnName::Kind::kFound, {"127.0.1.1", "10.0.0.7"}};
  return options;
}

void Lack(v1::Facts& facts, const std::string& fact,
          const std::string& reason = "it was not to be read",
          const std::string& remedy = "") {
  v1::MissingFact& missing = *facts.add_missing();
  missing.set_fact(fact);
  missing.set_reason(reason);
  missing.set_remedy(remedy);
}

v1::InfinibandPort& Port(v1::Facts& facts, int index) {
  return *facts.mutable_infiniband(index);
}

std::vector<Finding> Of(const std::vector<Finding>& findings,
                        const std::string& check) {
  std::vector<Finding> of;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(of),
               [&](const Finding& f) { return f.check == check; });
  return of;
}

struct Row {
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
constexpr auto kNA = Severity::kNotApplicable;
constexpr auto kOk = Severity::kOk;
constexpr auto kUnknown = Severity::kUnknown;
constexpr auto kWarning = Severity::kWarning;
constexpr auto kRetryable = Severity::kRetryable;
constexpr auto kFatal = Severity::kFatal;

void NoRdma(F& f, O&) { f.clear_infiniband(); }
void NoGpu(F& f, O& o) {
  f.clear_gpus();
  f.clear_gpu_count();
  o.gpus_expected = 0;
}
void Nothing(F&, O&) {}

const Row kRows[] = {
    {"proc", "mounted", Nothing, kOk},
    {"proc", "not mounted",
     [](F& f, O&) {
       f.clear_boot_id();
       f.clear_network_namespace();
     },
     kFatal, "node", "mount -t proc"},
    {"proc", "no boot id", [](F& f, O&) { f.clear_boot_id(); }, kUnknown},
    {"proc", "no namespace", [](F& f, O&) { f.clear_network_namespace(); },
     kUnknown},

    {"memlock", "unlimited", Nothing, kOk},
    {"memlock", "the kernel's default, with RDMA",
     [](F& f, O&) { f.mutable_limits()->set_memlock_bytes(8 * kMiB); }, kFatal,
     "node", "8 MiB"},
    {"memlock", "more, and still limited",
     [](F& f, O&) { f.mutable_limits()->set_memlock_bytes(kGiB); }, kWarning},
    {"memlock", "registering memory was tried and failed",
     [](F& f, O&) {
       f.mutable_limits()->set_memlock_bytes(12 * kMiB);
       for (auto& port : *f.mutable_infiniband()) port.set_unusable("ENOMEM");
       Lack(f, "infiniband.memlock", "ENOMEM");
     },
     kFatal, "node", "12 MiB"},
    {"memlock", "RDMA that cannot be used as it is",
     [](F& f, O&) {
       f.mutable_limits()->set_memlock_bytes(8 * kMiB);
       for (auto& port : *f.mutable_infiniband()) port.set_unusable("EACCES");
     },
     kWarning},
    {"memlock", "not binding",
     [](F& f, O& o) {
       f.mutable_limits()->set_memlock_bytes(0);
       o.may_lock_memory = true;
     },
     kOk, "node", "CAP_IPC_LOCK"},
    {"memlock", "in a container",
     [](F& f, O&) {
       f.mutable_limits()->set_memlock_bytes(64 << 10);
       f.set_container("docker");
     },
     kFatal, "node", "--ulimit memlock=-1"},
    {"memlock", "the kernel's old default, without RDMA",
     [](F& f, O& o) {
       NoRdma(f, o);
       f.mutable_limits()->set_memlock_bytes(64 << 10);
     },
     kOk, "node", "no RDMA"},
    {"memlock", "RDMA is not known",
     [](F& f, O& o) {
       NoRdma(f, o);
       f.mutable_limits()->set_memlock_bytes(8 * kMiB);
       Lack(f, "infiniband", "no driver for 0000:01:00.0");
     },
     kUnknown, "node", "8 MiB; no driver"},
    {"memlock", "none, without RDMA",
     [](F& f, O& o) {
       NoRdma(f, o);
       f.mutable_limits()->set_memlock_bytes(0);
     },
     kWarning, "node", "0 B"},
    {"memlock", "missing",
     [](F& f, O&) { Lack(f, "limits.memlock_bytes", "EPERM"); }, kUnknown,
     "node", "EPERM"},
    {"memlock", "no limits at all", [](F& f, O&) { f.clear_limits(); },
     kUnknown},

    {"nofile", "many", Nothing, kOk},
    {"nofile", "what Ray asks for",
     [](F& f, O&) { f.mutable_limits()->set_nofile(65535); }, kOk},
    {"nofile", "one less", [](F& f, O&) { f.mutable_limits()->set_nofile(65534); },
     kWarning, "node", "65534"},
    {"nofile", "unlimited",
     [](F& f, O&) { f.mutable_limits()->set_nofile(kUnlimited); }, kOk, "node",
     "unlimited"},
    {"nofile", "not said", [](F& f, O&) { f.mutable_limits()->set_nofile(0); },
     kUnknown},
    {"nofile", "missing", [](F& f, O&) { Lack(f, "limits"); }, kUnknown},

    {"shm", "half of the memory", Nothing, kOk},
    {"shm", "1 GiB", [](F& f, O&) { f.mutable_limits()->set_shm_bytes(kGiB); },
     kOk},
    {"shm", "less", [](F& f, O&) { f.mutable_limits()->set_shm_bytes(kGiB - 1); },
     kWarning, "node", "remount"},
    {"shm", "Docker's default",
     [](F& f, O&) {
       f.mutable_limits()->set_shm_bytes(64 * kMiB);
       f.set_container("docker");
     },
     kWarning, "node", "--shm-size"},
    {"shm", "not there", [](F& f, O&) { f.mutable_limits()->set_shm_bytes(0); },
     kUnknown},

    {"swap", "none", Nothing, kOk},
    {"swap", "hardly used",
     [](F& f, O&) {
       f.mutable_limits()->set_swap_bytes(kGiB);
       f.mutable_limits()->set_swap_used_bytes(64 * kMiB);
     },
     kOk},
    {"swap", "used",
     [](F& f, O&) {
       f.mutable_limits()->set_swap_bytes(kGiB);
       f.mutable_limits()->set_swap_used_bytes(64 * kMiB + 1);
     },
     kWarning},
    {"swap", "not said",
     [](F& f, O&) {
       f.mutable_limits()->clear_swap_bytes();
       f.mutable_limits()->clear_swap_used_bytes();
     },
     kUnknown},

    {"transparent-hugepages", "madvise", Nothing, kOk},
    {"transparent-hugepages", "always",
     [](F& f, O&) { f.mutable_limits()->set_transparent_hugepages("always"); },
     kOk},
    {"transparent-hugepages", "never",
     [](F& f, O&) { f.mutable_limits()->set_transparent_hugepages("never"); },
     kWarning},
    {"transparent-hugepages", "another word",
     [](F& f, O&) { f.mutable_limits()->set_transparent_hugepages("inherit"); },
     kUnknown},
    {"transparent-hugepages", "a kernel without them",
     [](F& f, O&) { f.mutable_limits()->clear_transparent_hugepages(); }, kNA},
    {"transparent-hugepages", "missing",
     [](F& f, O&) {
       f.mutable_limits()->clear_transparent_hugepages();
       Lack(f, "limits.transparent_hugepages", "EACCES");
     },
     kUnknown, "node", "EACCES"},

    {"clock", "3 ms", Nothing, kOk},
    {"clock", "a second in all",
     [](F&, O& o) {
       o.clock = Clock(-absl::Milliseconds(900), absl::Milliseconds(100));
     },
     kOk, "node", "900ms behind the daemon, to within 100ms"},
    {"clock", "ahead",
     [](F&, O& o) { o.clock = Clock(absl::Milliseconds(1002)); }, kWarning,
     "node", "ahead of"},
    {"clock", "behind", [](F&, O& o) { o.clock = Clock(-absl::Hours(9)); },
     kWarning, "node", "9h behind"},
    {"clock", "a slow answer",
     [](F&, O& o) {
       o.clock = Clock(absl::Milliseconds(500), absl::Milliseconds(501));
     },
     kUnknown, "node", "to within 501ms"},
    {"clock", "a slow answer, and far off",
     [](F&, O& o) { o.clock = Clock(-absl::Seconds(30), absl::Seconds(28)); },
     kWarning},
    {"clock", "no answer",
     [](F&, O& o) { o.clock = DaemonClock{{}, {}, "no route"}; }, kUnknown,
     "node", "no route"},
    {"clock", "no daemon", [](F&, O& o) { o.clock.reset(); }, kNA},

    {"free-space", "half", Nothing, kOk},
    {"free-space", "9% of a small disk",
     [](F& f, O&) {
       f.mutable_folders(0)->set_size_bytes(100 * kGiB);
       f.mutable_folders(0)->set_free_bytes(9 * kGiB);
     },
     kWarning, "/data"},
    {"free-space", "9% of a large one",
     [](F& f, O&) {
       f.mutable_folders(0)->set_size_bytes(10'000 * kGiB);
       f.mutable_folders(0)->set_free_bytes(900 * kGiB);
     },
     kOk},
    {"free-space", "full",
     [](F& f, O&) { f.mutable_folders(0)->set_free_bytes(16 * kMiB - 1); },
     kRetryable, "/data"},
    {"free-space", "not known",
     [](F& f, O&) {
       f.mutable_folders(0)->set_size_bytes(0);
       Lack(f, "folders./data", "ESTALE");
     },
     kUnknown, "/data", "ESTALE"},
    {"free-space", "no folder", [](F& f, O&) { f.clear_folders(); }, kNA},

    {"address", "one", Nothing, kOk, "node", "10.0.0.7 on eth0"},
    {"address", "local ones only",
     [](F& f, O&) {
       f.mutable_interfaces(1)->mutable_addresses(0)->set_address(
           "169.254.3.4");
     },
     kFatal, "node", "172.17.0.1 on docker0"},
    {"address", "IPv6 link-local only",
     [](F& f, O&) {
       f.mutable_interfaces(1)->mutable_addresses(0)->set_address("fe80::7");
     },
     kFatal},
    {"address", "down", [](F& f, O&) { f.mutable_interfaces(1)->set_up(false); },
     kFatal, "node", "(down)"},
    {"address", "none at all",
     [](F& f, O&) {
       for (auto& one : *f.mutable_interfaces()) one.clear_addresses();
     },
     kFatal, "node", "no address"},
    {"address", "the platform's",
     [](F& f, O&) {
       f.clear_interfaces();
       f.set_advertised_address("10.9.9.9");
     },
     kOk, "node", "10.9.9.9"},
    {"address", "the daemon is reached",
     [](F& f, O& o) {
       f.clear_interfaces();
       o.daemon_reached = true;
     },
     kNA},
    {"address", "nothing known", [](F& f, O&) { f.clear_interfaces(); },
     kUnknown},
    {"address", "missing",
     [](F& f, O&) {
       f.clear_interfaces();
       Lack(f, "interfaces", "netlink: EPERM");
     },
     kUnknown, "node", "netlink: EPERM"},
    {"address", "those of the interfaces are missing",
     [](F& f, O&) {
       for (auto& one : *f.mutable_interfaces()) one.clear_addresses();
       Lack(f, "interfaces.addresses", "netlink: EPERM");
     },
     kUnknown, "node", "netlink: EPERM"},

    {"own-name", "an own address", Nothing, kOk, "node7", "10.0.0.7"},
    {"own-name", "loopback only",
     [](F&, O& o) { o.own_name->addresses = {"127.0.1.1", "::1"}; }, kWarning,
     "node7", "127.0.1.1"},
    {"own-name", "another node's",
     [](F&, O& o) { o.own_name->addresses = {"10.0.0.8"}; }, kWarning, "node7",
     "no interface here"},
    {"own-name", "not found",
     [](F&, O& o) { o.own_name->kind = OwnName::Kind::kNotFound; }, kWarning},
    {"own-name", "no clear answer",
     [](F&, O& o) { o.own_name->kind = OwnName::Kind::kUnclear; }, kUnknown},
    {"own-name", "no address known", [](F& f, O&) { f.clear_interfaces(); },
     kUnknown},
    {"own-name", "not asked", [](F&, O& o) { o.own_name.reset(); }, kNA},

    {"carrier", "there", Nothing, kOk, "eth0"},
    {"carrier", "gone",
     [](F& f, O&) { f.mutable_interfaces(1)->set_running(false); }, kWarning,
     "eth0"},
    {"carrier", "gone from a bond's port",
     [](F& f, O&) {
       f.mutable_interfaces(1)->set_running(false);
       f.mutable_interfaces(1)->set_master("bond0");
     },
     kWarning, "eth0", "bond0"},
    {"carrier", "of an empty bridge",
     [](F& f, O&) { f.mutable_interfaces(2)->set_running(false); }, kOk, "eth0"},
    {"carrier", "nothing is up",
     [](F& f, O&) { f.mutable_interfaces(1)->set_up(false); }, kNA},
    {"carrier", "missing",
     [](F& f, O&) {
       f.clear_interfaces();
       Lack(f, "interfaces");
     },
     kUnknown},

    {"mtu", "of one interface", Nothing, kNA},
    {"mtu", "the same",
     [](F& f, O&) { AddInterface(f, "eth1", "10.1.0.7"); }, kOk, "eth0"},
    {"mtu", "smaller",
     [](F& f, O&) { AddInterface(f, "eth1", "10.1.0.7", 9000); }, kWarning,
     "eth0", "mtu 9000"},
    {"mtu", "of another speed",
     [](F& f, O&) {
       AddInterface(f, "eth1", "10.1.0.7", 9000).set_speed_mbps(400'000);
     },
     kNA},
    {"mtu", "not known",
     [](F& f, O&) { f.mutable_interfaces(1)->set_mtu(0); }, kUnknown, "eth0"},

    {"hca-usable", "all", Nothing, kOk},
    {"hca-usable", "one is not",
     [](F& f, O&) { Port(f, 3).set_unusable("EACCES"); }, kWarning,
     "mlx5_3 port 1", "ibverbs-providers"},
    {"hca-usable", "one is not, in a container",
     [](F& f, O&) {
       Port(f, 3).set_unusable("no /dev/infiniband");
       f.set_container("docker");
     },
     kWarning, "mlx5_3 port 1", "--device=/dev/infiniband"},
    {"hca-usable", "with a remedy of its own",
     [](F& f, O&) {
       Port(f, 3).set_unusable("no provider");
       Lack(f, "infiniband.mlx5_3", "no provider", "apt install libmlx5-1");
     },
     kWarning, "mlx5_3 port 1", "apt install libmlx5-1"},
    {"hca-usable", "none is, and one reason",
     [](F& f, O&) {
       for (auto& port : *f.mutable_infiniband()) port.set_unusable("ENOENT");
       Lack(f, "infiniband.unusable", "ENOENT", "apt install libmlx5-1");
     },
     kWarning, "mlx5_0 port 1", "apt install libmlx5-1"},
    {"hca-usable", "no device", NoRdma, kNA},
    {"hca-usable", "missing",
     [](F& f, O& o) {
       NoRdma(f, o);
       Lack(f, "infiniband", "ENOSYS");
     },
     kUnknown, "node", "ENOSYS"},

    {"hca-state", "all ACTIVE", Nothing, kOk},
    {"hca-state", "7 of 8",
     [](F& f, O&) {
       Port(f, 5).set_state("DOWN");
       Port(f, 5).set_phys_state("Polling");
     },
     kWarning, "mlx5_5 port 1", "7 of 8"},
    {"hca-state", "waits for the subnet manager",
     [](F& f, O&) { Port(f, 5).set_state("INIT"); }, kRetryable,
     "mlx5_5 port 1", "subnet manager"},
    {"hca-state", "none",
     [](F& f, O&) {
       for (auto& port : *f.mutable_infiniband()) port.set_state("DOWN");
     },
     kRetryable, "mlx5_0 port 1", "0 of 8"},
    {"hca-state", "switched off",
     [](F& f, O&) {
       Port(f, 5).set_state("DOWN");
       Port(f, 5).set_phys_state("Disabled");
     },
     kWarning, "mlx5_5 port 1", "ibportstate"},
    {"hca-state", "not known", [](F& f, O&) { Port(f, 5).clear_state(); },
     kUnknown, "mlx5_5 port 1"},
    {"hca-state", "no device", NoRdma, kNA},

    {"hca-phys-state", "up", Nothing, kOk},
    {"hca-phys-state", "recovers",
     [](F& f, O&) { Port(f, 2).set_phys_state("LinkErrorRecovery"); }, kWarning,
     "mlx5_2 port 1", "LinkErrorRecovery"},
    {"hca-phys-state", "not known",
     [](F& f, O&) { Port(f, 2).clear_phys_state(); }, kUnknown},
    {"hca-phys-state", "no device", NoRdma, kNA},

    {"hca-link-layer", "one", Nothing, kOk, "node", "InfiniBand"},
    {"hca-link-layer", "two",
     [](F& f, O&) { Port(f, 7).set_link_layer("Ethernet"); }, kWarning, "node",
     "Ethernet: mlx5_7 port 1"},
    {"hca-link-layer", "two, one not ACTIVE",
     [](F& f, O&) {
       Port(f, 7).set_link_layer("Ethernet");
       Port(f, 7).set_state("DOWN");
     },
     kOk},
    {"hca-link-layer", "not known",
     [](F& f, O&) { Port(f, 7).clear_link_layer(); }, kUnknown,
     "mlx5_7 port 1"},
    {"hca-link-layer", "no device", NoRdma, kNA},

    {"hca-rate", "the same", Nothing, kOk},
    {"hca-rate", "lower", [](F& f, O&) { Port(f, 6).set_rate_gbps(200); },
     kWarning, "mlx5_6 port 1", "200 Gb/s"},
    {"hca-rate", "lower, not ACTIVE",
     [](F& f, O&) {
       Port(f, 6).set_rate_gbps(10);
       Port(f, 6).set_state("DOWN");
     },
     kOk},
    {"hca-rate", "not known", [](F& f, O&) { Port(f, 6).clear_rate_gbps(); },
     kUnknown, "mlx5_6 port 1"},
    {"hca-rate", "no device", NoRdma, kNA},

    {"hca-lid", "there", Nothing, kOk},
    {"hca-lid", "none", [](F& f, O&) { Port(f, 1).set_lid(0); }, kRetryable,
     "mlx5_1 port 1", "LID 0"},
    {"hca-lid", "no subnet manager", [](F& f, O&) { Port(f, 1).set_sm_lid(0); },
     kWarning, "mlx5_1 port 1", "SM LID 0"},
    {"hca-lid", "missing",
     [](F& f, O&) {
       Port(f, 1).set_lid(0);
       Lack(f, "infiniband.mlx5_1.lid", "EACCES");
     },
     kUnknown, "mlx5_1 port 1", "EACCES"},
    {"hca-lid", "of RoCE",
     [](F& f, O&) {
       for (auto& port : *f.mutable_infiniband()) {
         port.set_link_layer("Ethernet");
         port.set_lid(0);
       }
     },
     kNA},

    {"hca-roce-gid", "of InfiniBand", Nothing, kNA},
    {"hca-roce-gid", "v2", [](F& f, O&) { f = Healthy("Ethernet"); }, kOk},
    {"hca-roce-gid", "v1 only",
     [](F& f, O&) {
       f = Healthy("Ethernet");
       Port(f, 4).mutable_gids()->RemoveLast();
     },
     kWarning, "mlx5_4 port 1", "RoCE v1 only"},
    {"hca-roce-gid", "none",
     [](F& f, O&) {
       f = Healthy("Ethernet");
       Port(f, 4).clear_gids();
     },
     kWarning, "mlx5_4 port 1", "no GID"},
    {"hca-roce-gid", "of unknown type",
     [](F& f, O&) {
       f = Healthy("Ethernet");
       for (auto& gid : *Port(f, 4).mutable_gids()) gid.clear_type();
     },
     kUnknown, "mlx5_4 port 1"},
    {"hca-roce-gid", "missing",
     [](F& f, O&) {
       f = Healthy("Ethernet");
       Port(f, 4).clear_gids();
       Lack(f, "infiniband.mlx5_4.gids");
     },
     kUnknown, "mlx5_4 port 1"},

    {"efa-plugin", "no EFA", Nothing, kNA},
    {"efa-plugin", "there",
     [](F& f, O&) { Port(f, 0).set_driver("efa"); }, kOk},
    {"efa-plugin", "missing",
     [](F& f, O&) {
       Port(f, 0).set_driver("efa");
       Lack(f, "infiniband.efa_plugin", "libnccl-net.so is not there");
     },
     kWarning, "mlx5_0 port 1", "aws-ofi-nccl"},
    {"efa-plugin", "devices are missing",
     [](F& f, O& o) {
       NoRdma(f, o);
       Lack(f, "infiniband", "EACCES");
     },
     kNA},

    {"gpus", "all", Nothing, kOk, "node", "8 GPUs"},
    {"gpus", "the driver lists fewer than at the start",
     [](F& f, O&) {
       f.mutable_gpus()->RemoveLast();
       f.set_gpu_count(7);
     },
     kFatal, "node", "7 GPUs are left"},
    {"gpus", "one is not opened",
     [](F& f, O& o) {
       f.mutable_gpus()->RemoveLast();
       o.gpus_expected = 0;
     },
     kFatal, "node", "NVML opens 7"},
    {"gpus", "none", NoGpu, kNA},
    {"gpus", "missing",
     [](F& f, O& o) {
       NoGpu(f, o);
       Lack(f, "gpus", "no driver");
     },
     kUnknown, "node", "no driver"},
    {"gpus", "no count without NVML",
     [](F& f, O&) {
       f.clear_gpus();
       f.clear_gpu_count();
       Lack(f, "gpus", "nvmlInit: Error");
     },
     kUnknown, "node", "nvmlInit"},

    {"gpu-nvml", "answers", Nothing, kOk},
    {"gpu-nvml", "is not there",
     [](F& f, O&) {
       f.clear_gpus();
       Lack(f, "gpus", "libnvidia-ml.so.1 is not there");
     },
     kWarning, "node", "NVIDIA_DRIVER_CAPABILITIES"},
    {"gpu-nvml", "of another version",
     [](F& f, O&) {
       f.clear_gpus();
       Lack(f, "gpus", "nvmlInit_v2: Driver/library version mismatch");
     },
     kFatal, "node", "kernel module"},
    {"gpu-nvml", "was not asked", [](F& f, O&) { f.clear_gpus(); }, kUnknown},
    {"gpu-nvml", "no GPU", NoGpu, kNA},

    {"gpu-driver", "fits", Nothing, kOk},
    {"gpu-driver", "too old for its CUDA",
     [](F& f, O&) {
       f.mutable_versions()->set_driver("535.104.05");
       for (auto& gpu : *f.mutable_gpus()) gpu.set_driver("535.104.05");
     },
     kWarning, "node", "driver 535.104.05, CUDA 13.0"},
    {"gpu-driver", "two versions",
     [](F& f, O&) { f.mutable_versions()->set_driver("581.1"); }, kWarning},
    {"gpu-driver", "not known",
     [](F& f, O&) { f.mutable_versions()->clear_cuda(); }, kUnknown},
    {"gpu-driver", "no version",
     [](F& f, O&) { f.mutable_versions()->set_cuda("thirteen"); }, kUnknown},
    {"gpu-driver", "no GPU", NoGpu, kNA},

    {"gpu-ecc", "no error", Nothing, kOk},
    {"gpu-ecc", "errors",
     [](F& f, O&) { f.mutable_gpus(2)->set_ecc_errors_uncorrected(1); },
     kWarning, "gpu 2", "1 uncorrected"},
    {"gpu-ecc", "not said",
     [](F& f, O&) { f.mutable_gpus(2)->clear_ecc_errors_uncorrected(); },
     kUnknown, "gpu 2"},
    {"gpu-ecc", "missing",
     [](F& f, O&) { Lack(f, "gpus.2", "GPU is lost"); }, kUnknown, "gpu 2",
     "GPU is lost"},
    {"gpu-ecc", "its mode is missing",
     [](F& f, O&) {
       f.mutable_gpus(2)->set_ecc(false);
       Lack(f, "gpus.2.ecc", "Unknown Error");
     },
     kUnknown, "gpu 2", "Unknown Error"},
    {"gpu-ecc", "off",
     [](F& f, O&) {
       for (auto& gpu : *f.mutable_gpus()) gpu.set_ecc(false);
     },
     kNA},
    {"gpu-ecc", "no GPU", NoGpu, kNA},

    {"gpu-retired-pages", "none", Nothing, kOk},
    {"gpu-retired-pages", "a few",
     [](F& f, O&) { f.mutable_gpus(2)->set_retired_pages(31); }, kOk},
    {"gpu-retired-pages", "many",
     [](F& f, O&) { f.mutable_gpus(2)->set_retired_pages(32); }, kWarning,
     "gpu 2", "32 pages"},
    {"gpu-retired-pages", "missing",
     [](F& f, O&) {
       f.mutable_gpus(2)->clear_retired_pages();
       Lack(f, "gpus.2.retired_pages");
     },
     kUnknown, "gpu 2"},
    {"gpu-retired-pages", "of GPUs that count none",
     [](F& f, O&) {
       for (auto& gpu : *f.mutable_gpus()) gpu.clear_retired_pages();
     },
     kNA},
    {"gpu-retired-pages", "no GPU", NoGpu, kNA},

    {"gpu-throttle", "none", Nothing, kOk},
    {"gpu-throttle", "by work",
     [](F& f, O&) { f.mutable_gpus(6)->add_throttle_reasons("sw_power_cap"); },
     kOk},
    {"gpu-throttle", "by heat",
     [](F& f, O&) {
       f.mutable_gpus(6)->add_throttle_reasons("hw_thermal_slowdown");
       f.mutable_gpus(6)->add_throttle_reasons("sw_power_cap");
     },
     kWarning, "gpu 6", "TEMPERATURE"},
    {"gpu-throttle", "by the power brake",
     [](F& f, O&) {
       f.mutable_gpus(6)->add_throttle_reasons("hw_power_brake_slowdown");
     },
     kWarning, "gpu 6", "power supplies"},
    {"gpu-throttle", "by something new",
     [](F& f, O&) { f.mutable_gpus(6)->add_throttle_reasons("tides"); },
     kUnknown, "gpu 6", "tides"},
    {"gpu-throttle", "missing",
     [](F& f, O&) { Lack(f, "gpus.throttle_reasons"); }, kUnknown, "gpu 0"},
    {"gpu-throttle", "no GPU", NoGpu, kNA},

    {"gpu-nvlink", "all", Nothing, kOk},
    {"gpu-nvlink", "one is down",
     [](F& f, O&) { f.mutable_gpus(1)->set_nvlinks_active(17); }, kWarning,
     "gpu 1", "17 of 18"},
    {"gpu-nvlink", "all of one are down",
     [](F& f, O&) { f.mutable_gpus(1)->set_nvlinks_active(0); }, kWarning,
     "gpu 1"},
    {"gpu-nvlink", "bridges take some",
     [](F& f, O&) {
       for (auto& gpu : *f.mutable_gpus()) gpu.set_nvlinks_active(12);
     },
     kOk},
    {"gpu-nvlink", "the only GPU has some",
     [](F& f, O&) {
       f.mutable_gpus()->DeleteSubrange(1, 7);
       f.mutable_gpus(0)->set_nvlinks_active(17);
     },
     kWarning, "gpu 0"},
    {"gpu-nvlink", "there are none",
     [](F& f, O&) {
       for (auto& gpu : *f.mutable_gpus()) {
         gpu.set_nvlinks(0);
         gpu.set_nvlinks_active(0);
       }
     },
     kNA},
    {"gpu-nvlink", "not said",
     [](F& f, O&) { f.mutable_gpus(1)->clear_nvlinks(); }, kUnknown, "gpu 1"},
    {"gpu-nvlink", "no GPU", NoGpu, kNA},

    {"nccl", "found", Nothing, kOk, "node", "2.28.9"},
    {"nccl", "not found",
     [](F& f, O&) {
       f.mutable_versions()->clear_nccl();
       Lack(f, "versions.nccl", "no libnccl.so.2");
     },
     kWarning, "node", "--nccl-lib"},
    {"nccl", "not looked for",
     [](F& f, O&) { f.mutable_versions()->clear_nccl(); }, kUnknown},
    {"nccl", "no GPU", NoGpu, kNA},
    {"facts", "no NCCL, which is not needed without a GPU",
     [](F& f, O& o) {
       NoGpu(f, o);
       f.mutable_versions()->clear_nccl();
       Lack(f, "versions.nccl", "no libnccl.so.2");
     },
     kOk},

    {"nccl-version", "fits", Nothing, kOk},
    {"nccl-version", "older than the GPU",
     [](F& f, O&) { f.mutable_versions()->set_nccl("2.14.3"); }, kWarning,
     "gpu 0", "2.15.1 or later"},
    {"nccl-version", "the first for it",
     [](F& f, O&) { f.mutable_versions()->set_nccl("2.15.1"); }, kOk},
    {"nccl-version", "a GPU of tomorrow",
     [](F& f, O&) { f.mutable_gpus(0)->set_compute_capability("99.0"); }, kOk},
    {"nccl-version", "a GPU of unknown kind",
     [](F& f, O&) { f.mutable_gpus(0)->clear_compute_capability(); }, kUnknown,
     "gpu 0"},
    {"nccl-version", "no version",
     [](F& f, O&) { f.mutable_versions()->set_nccl("two"); }, kUnknown},
    {"nccl-version", "no GPU", NoGpu, kNA},

    {"facts", "nothing else is missing", Nothing, kOk},
    {"facts", "something else is",
     [](F& f, O&) { Lack(f, "cpu_count", "no /sys", "mount it"); }, kUnknown,
     "cpu_count", "mount it"},
};

TEST(Doctor, EachCheck) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(absl::StrCat(row.check, ": ", row.what));
    v1::Facts facts = Healthy();
    DoctorOptions options = HealthyOptions();
    row.change(facts, options);
    const std::vector<Finding> of =
        WorstFirst(Of(Diagnose(facts, options), row.check));
    ASSERT_FALSE(of.empty());
    const Finding& worst = of.front();
    EXPECT_EQ(Word(worst.severity), Word(row.expected)) << worst.found;
    const std::string subject = row.subject;
    EXPECT_EQ(worst.subject, subject.empty() ? worst.subject : subject);
    const std::string said =
        absl::StrCat(worst.found, " ", worst.expected, " ", worst.mend);
    EXPECT_TRUE(absl::StrContains(said, row.says)) << said;
    for (const Finding& finding : of) {
      const bool bad = finding.severity >= Severity::kWarning;
      EXPECT_FALSE(finding.subject.empty());
      EXPECT_FALSE(finding.found.empty());
      EXPECT_EQ(finding.expected.empty(), !bad);
      EXPECT_EQ(finding.why.empty(), !bad);
      EXPECT_TRUE(!bad || !finding.mend.empty());
    }
  }
}

TEST(Doctor, TheTableHasEachCheckAndWhatItCanSay) {
  std::map<std::string, std::set<Severity>> rows;
  for (const Row& row : kRows) rows[row.check].insert(row.expected);
  for (const Finding& finding : Diagnose(Healthy(), HealthyOptions())) {
    const std::set<Severity>& seen = rows[finding.check];
    EXPECT_TRUE(seen.contains(Severity::kOk)) << finding.check;
    EXPECT_TRUE(seen.contains(Severity::kUnknown) ||
                seen.contains(Severity::kNotApplicable))
        << finding.check;
    const Severity worst =
        seen.empty() ? Severity::kNotApplicable : *seen.rbegin();
    EXPECT_TRUE(worst >= Severity::kWarning || finding.check == "facts")
        << finding.check;
  }
}

TEST(Doctor, AHealthyNodeIsWellAndAnEmptyOneIsNot) {
  for (const char* layer : {"InfiniBand", "Ethernet"}) {
    EXPECT_EQ(Word(Worst(Diagnose(Healthy(layer), HealthyOptions()))), "ok");
  }
  // Unknown facts never count as ok. Only `facts` is ok: no other fact is
  // missing.
  for (const Finding& finding : Diagnose({}, {})) {
    EXPECT_EQ(finding.severity == Severity::kOk, finding.check == "facts")
        << finding.check;
  }
}

TEST(Doctor, NamesTheDeadPortAndNoOther) {
  v1::Facts facts = Healthy();
  Port(facts, 5).set_state("DOWN");
  int bad = 0;
  for (const Finding& finding : Diagnose(facts, HealthyOptions())) {
    if (finding.severity <= Severity::kOk) continue;
    ++bad;
    EXPECT_EQ(finding.subject, "mlx5_5 port 1");
  }
  EXPECT_EQ(bad, 1);
}

// Each missing fact is reported once: by the check that needs it, or by
// `facts`.
TEST(Doctor, ShowsEachMissingFact) {
  v1::Facts facts = Healthy();
  for (const char* fact :
       {"limits.nofile", "gpus.3.retired_pages", "infiniband.mlx5_2.rate_gbps",
        "versions.rollcall", "gpus.33", ""}) {
    Lack(facts, fact, absl::StrCat("no ", fact));
  }
  facts.mutable_gpus(3)->clear_retired_pages();
  Port(facts, 2).clear_rate_gbps();
  std::map<std::string, std::string> shown;
  for (const Finding& finding : Diagnose(facts, HealthyOptions())) {
    if (finding.severity == Severity::kUnknown) {
      EXPECT_TRUE(shown.emplace(finding.found, finding.check).second)
          << finding.found;
    }
  }
  EXPECT_EQ(shown, (std::map<std::string, std::string>{
                       {"no ", "facts"},
                       {"no gpus.3.retired_pages", "gpu-retired-pages"},
                       {"no gpus.33", "facts"},
                       {"no infiniband.mlx5_2.rate_gbps", "hca-rate"},
                       {"no limits.nofile", "nofile"},
                       {"no versions.rollcall", "facts"}}));
}

TEST(Doctor, TheDaemonsClockIsComparedAtTheMiddleOfTheCall) {
  const absl::Time asked = absl::UnixEpoch() + absl::Hours(400'000);
  const absl::Duration trip = absl::Milliseconds(80);
  for (const absl::Duration offset :
       {absl::ZeroDuration(), absl::Seconds(30), -absl::Seconds(30)}) {
    // Whenever the daemon read its clock, the true offset is within the error.
    for (const absl::Duration way : {absl::ZeroDuration(), trip / 2, trip}) {
      const DaemonClock clock =
          CompareClocks(asked, asked + way - offset, asked + trip);
      ASSERT_TRUE(clock.offset.has_value());
      EXPECT_EQ(clock.error, trip / 2);
      EXPECT_EQ(*clock.offset, offset + trip / 2 - way);
      EXPECT_LE(absl::AbsDuration(*clock.offset - offset), clock.error);
    }
  }
  // This node's clock was set back during the call.
  EXPECT_EQ(CompareClocks(asked + trip, asked, asked).error, trip / 2);
  // A daemon may send any time.
  EXPECT_EQ(*CompareClocks(asked, absl::InfiniteFuture(), asked).offset,
            -absl::InfiniteDuration());
}

TEST(Doctor, TrialsComeFirst) {
  DoctorOptions options = HealthyOptions();
  options.trials = {{"process", "node", "", Severity::kFatal, "e", "w", "m"},
                    {"log", "/l", "EROFS", Severity::kWarning, "e", "w", "m"}};
  const std::vector<Finding> findings = Diagnose(Healthy(), options);
  EXPECT_EQ(findings[0],
            (Finding{"process", Severity::kOk, "node", "works", "", "", ""}));
  EXPECT_EQ(findings[1],
            (Finding{"log", Severity::kWarning, "/l", "EROFS", "e", "w", "m"}));
}

TEST(MayLock, NeedsTheCapabilityInTheFirstUserNamespace) {
  // CAP_IPC_LOCK is bit 14.
  const std::string with = "Name:\ta\nCapEff:\t0000000000004000\n";
  const std::string without = "Name:\ta\nCapEff:\t000001ffffffbfff\n";
  const std::string first = "         0          0 4294967295\n";
  EXPECT_TRUE(MayLockMemory(with, first));
  EXPECT_FALSE(MayLockMemory(without, first));
  EXPECT_FALSE(MayLockMemory(with, "0 1000 1\n"));
  EXPECT_FALSE(MayLockMemory(with, ""));
  EXPECT_FALSE(MayLockMemory("", first));
  EXPECT_FALSE(MayLockMemory("CapEff:\tlots\n", first));
}

}  // namespace
}  // namespace rollcall
