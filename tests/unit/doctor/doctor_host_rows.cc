// The rows of the checks of the operating system and the network.
#include <vector>

#include "client/doctor/doctor.h"
#include "tests/unit/doctor/doctor_rows.h"

namespace rollcall {

std::vector<DoctorRow> HostRows() {
  return {
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
       [](F& f, O&) { f.mutable_limits()->set_memlock_bytes(8 * kMiB); },
       kFatal, "node", "8 MiB"},
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
      {"nofile", "one less",
       [](F& f, O&) { f.mutable_limits()->set_nofile(65534); }, kWarning,
       "node", "65534"},
      {"nofile", "unlimited",
       [](F& f, O&) { f.mutable_limits()->set_nofile(kUnlimited); }, kOk,
       "node", "unlimited"},
      {"nofile", "not said",
       [](F& f, O&) { f.mutable_limits()->set_nofile(0); }, kUnknown},
      {"nofile", "missing", [](F& f, O&) { Lack(f, "limits"); }, kUnknown},

      {"shm", "half of the memory", Nothing, kOk},
      {"shm", "1 GiB",
       [](F& f, O&) { f.mutable_limits()->set_shm_bytes(kGiB); }, kOk},
      {"shm", "less",
       [](F& f, O&) { f.mutable_limits()->set_shm_bytes(kGiB - 1); }, kWarning,
       "node", "remount"},
      {"shm", "Docker's default",
       [](F& f, O&) {
         f.mutable_limits()->set_shm_bytes(64 * kMiB);
         f.set_container("docker");
       },
       kWarning, "node", "--shm-size"},
      {"shm", "not there",
       [](F& f, O&) { f.mutable_limits()->set_shm_bytes(0); }, kUnknown},

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
       [](F& f, O&) {
         f.mutable_limits()->set_transparent_hugepages("always");
       },
       kOk},
      {"transparent-hugepages", "never",
       [](F& f, O&) { f.mutable_limits()->set_transparent_hugepages("never"); },
       kWarning},
      {"transparent-hugepages", "another word",
       [](F& f, O&) {
         f.mutable_limits()->set_transparent_hugepages("inherit");
       },
       kUnknown},
      {"transparent-hugepages", "a kernel without them",
       [](F& f, O&) { f.mutable_limits()->clear_transparent_hugepages(); },
       kNA},
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
       [](F&, O& o) {
         o.clock = DaemonClock{{}, {}, "no route"};
       },
       kUnknown, "node", "no route"},
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
      {"address", "down",
       [](F& f, O&) { f.mutable_interfaces(1)->set_up(false); }, kFatal, "node",
       "(down)"},
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
       [](F&, O& o) {
         o.own_name->addresses = {"127.0.1.1", "::1"};
       },
       kWarning, "node7", "127.0.1.1"},
      {"own-name", "another node's",
       [](F&, O& o) { o.own_name->addresses = {"10.0.0.8"}; }, kWarning,
       "node7", "no interface here"},
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
       [](F& f, O&) { f.mutable_interfaces(2)->set_running(false); }, kOk,
       "eth0"},
      {"carrier", "nothing is up",
       [](F& f, O&) { f.mutable_interfaces(1)->set_up(false); }, kNA},
      {"carrier", "missing",
       [](F& f, O&) {
         f.clear_interfaces();
         Lack(f, "interfaces");
       },
       kUnknown},

      {"mtu", "of one interface", Nothing, kNA},
      {"mtu", "the same", [](F& f, O&) { AddInterface(f, "eth1", "10.1.0.7"); },
       kOk, "eth0"},
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

      {"communication-variables", "a known one", Nothing, kOk, "node", "1 set"},
      {"communication-variables", "none",
       [](F& f, O&) { f.mutable_communication()->clear_variables(); }, kOk,
       "node", "none"},
      {"communication-variables", "renamed",
       [](F& f, O&) {
         f.mutable_communication()->mutable_variables(0)->set_name(
             "NCCL_BLOCKING_WAIT");
       },
       kWarning, "NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"},
      {"communication-variables", "not reported",
       [](F& f, O&) { f.clear_communication(); }, kUnknown},
  };
}

}  // namespace rollcall
