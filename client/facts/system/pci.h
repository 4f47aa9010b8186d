// Positions of devices on the PCI buses, and the RDMA devices near a GPU.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_PCI_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_PCI_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The PCI addresses in the path of a device's folder below /sys/devices, from
// the root port to the device:
// "/sys/devices/pci0000:00/0000:00:02.0/0000:01:00.0/net" becomes
// "0000:00:02.0/0000:01:00.0". Empty: not a PCI device. Pure.
std::string PciPath(absl::string_view sysfs_folder);

// "DDDD:BB:DD.F" in lower-case hex, as sysfs names devices; the domain may have
// more digits. Pure.
std::string PciAddress(uint32_t domain, uint32_t bus, uint32_t device,
                       uint32_t function);

struct PciIds {
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t class_code = 0;  // Class, subclass and interface: 0x020700.
};

// Whether a device can do RDMA once its driver is loaded: any InfiniBand
// controller, a network controller of NVIDIA (Mellanox), EFA. Pure.
bool IsRdma(const PciIds& ids);
// Whether a device is a display or 3D controller of NVIDIA. Pure.
bool IsNvidiaGpu(const PciIds& ids);

// The address of the first PCI device below `root` for which `wanted` is true;
// empty: there is none.
std::string FindPciDevice(const std::string& root,
                          bool (*wanted)(const PciIds& ids));

// PciPath of the target of `link`, a link in sysfs; empty: the link does not
// exist, or its target is not a PCI device.
std::string ReadPciPath(const std::string& link);

// The names of the devices of `ports` that share the most bridges with a GPU at
// `gpu_path`: those on its PCI switch. If no device shares a bridge: those on
// its NUMA node. Each name occurs once, in the order of `ports`. Pure.
std::vector<std::string> NearHcas(
    absl::string_view gpu_path, int32_t gpu_numa_node,
    const google::protobuf::RepeatedPtrField<v1::InfinibandPort>& ports);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_PCI_H_
