// The rows of the checks of RDMA devices and GPUs, and of missing facts.
#include <vector>

#include "client/doctor/doctor.h"
#include "tests/unit/doctor/doctor_rows.h"

namespace rollcall {

std::vector<DoctorRow> RdmaRows() {
  return {
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
       [](F& f, O&) { Port(f, 2).set_phys_state("LinkErrorRecovery"); },
       kWarning, "mlx5_2 port 1", "LinkErrorRecovery"},
      {"hca-phys-state", "not known",
       [](F& f, O&) { Port(f, 2).clear_phys_state(); }, kUnknown},
      {"hca-phys-state", "no device", NoRdma, kNA},

      {"hca-link-layer", "one", Nothing, kOk, "node", "InfiniBand"},
      {"hca-link-layer", "two",
       [](F& f, O&) { Port(f, 7).set_link_layer("Ethernet"); }, kWarning,
       "node", "Ethernet: mlx5_7 port 1"},
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
      {"hca-lid", "no subnet manager",
       [](F& f, O&) { Port(f, 1).set_sm_lid(0); }, kWarning, "mlx5_1 port 1",
       "SM LID 0"},
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
      {"efa-plugin", "there", [](F& f, O&) { Port(f, 0).set_driver("efa"); },
       kOk},
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
  };
}

std::vector<DoctorRow> GpuRows() {
  return {
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
      {"gpu-ecc", "missing", [](F& f, O&) { Lack(f, "gpus.2", "GPU is lost"); },
       kUnknown, "gpu 2", "GPU is lost"},
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
       [](F& f, O&) {
         f.mutable_gpus(6)->add_throttle_reasons("sw_power_cap");
       },
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
       [](F& f, O&) { f.mutable_gpus(0)->set_compute_capability("99.0"); },
       kOk},
      {"nccl-version", "a GPU of unknown kind",
       [](F& f, O&) { f.mutable_gpus(0)->clear_compute_capability(); },
       kUnknown, "gpu 0"},
      {"nccl-version", "no version",
       [](F& f, O&) { f.mutable_versions()->set_nccl("two"); }, kUnknown},
      {"nccl-version", "no GPU", NoGpu, kNA},

      {"facts", "nothing else is missing", Nothing, kOk},
      {"facts", "something else is",
       [](F& f, O&) { Lack(f, "cpu_count", "no /sys", "mount it"); }, kUnknown,
       "cpu_count", "mount it"},
  };
}

}  // namespace rollcall
