// The InfiniBand part of the facts: every port of every RDMA device.
//
// Reads the kernel's view, from sysfs below a root folder. verbs_merge replaces
// it by libibverbs' view of the same ports.
//
// Any thread; but libraries and devices may hang or crash: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_INFINIBAND_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_INFINIBAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/facts/devices/verbs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// All ports in <root>/sys/class/infiniband, sorted by device name in natural
// order and then by port; without GIDs, which ReadGids adds. If a file cannot
// be read, its field stays unset: see AddUnreadFields. At most
// FactsLimits::devices_max.
std::vector<v1::InfinibandPort> ReadInfinibandPorts(const std::string& root);

// "ACTIVE, 400 Gb/s"; "gone": the port cannot be read.
std::string ReadPortState(const std::string& root, const std::string& device,
                          uint32_t port);

// For facts without a port: adds the MissingFact `infiniband` if sysfs or the
// PCI bus shows a device.
void SayWhyNoPort(const std::string& root, v1::Facts& facts);

// Adds a MissingFact `infiniband.DEVICE.FIELD` for each of these fields that
// neither `verbs` nor sysfs has: state, phys_state, link_layer, rate_gbps, lid,
// sm_lid, gids.
void AddUnreadFields(const std::string& root, const VerbsAnswer& verbs,
                     v1::Facts& facts);

// Sets net_device of a RoCE port to the interface of its first GID that has
// one. Pure.
void SetNetDevice(v1::InfinibandPort& port);

// Sets `gids` to the non-empty GIDs in sysfs, and net_device.
void ReadGids(const std::string& root, v1::InfinibandPort& port);

// Why this process cannot open the device node of a device, from files below
// `root`: there is no node, or no permission. kUsable: the process can open it,
// or sysfs names no node.
Unusable WhyNotOpened(const std::string& root, const std::string& device);

// Why libibverbs does not list a device that the kernel shows, from files below
// `root`: no module ib_uverbs, no device node, no permission, or no provider
// for its driver. The checks and their order are those of libibverbs/init.c of
// rdma-core.
Unusable WhyNotListed(const std::string& root, const v1::InfinibandPort& port);

// "4: ACTIVE" is ACTIVE; "<unknown>" and text without a number are empty. Pure.
std::string StateWord(absl::string_view text);
// "100 Gb/sec (4X EDR)" is 100, "2.5 Gb/sec" is 2; 0: cannot be parsed. Pure.
uint32_t RateGbps(absl::string_view text);
// A GID from sysfs (all eight groups) in inet_ntop's form. Empty: not an
// address, or an address without an interface part, which is an unset entry.
// Pure.
std::string GidText(absl::string_view text);
// inet_ntop's text of 16 bytes. Pure.
std::string GidTextOfBytes(const unsigned char* bytes);

// NCCL uses EFA through a plugin. Calls `opens` with the plugins that NCCL
// would try, and adds the MissingFact kEfaPluginFact if none can be opened.
// Does nothing without an EFA device. `net_plugin`: NCCL_NET_PLUGIN; empty:
// unset.
inline constexpr char kEfaPluginFact[] = "infiniband.efa_plugin";
bool HasEfa(const v1::Facts& facts);
void CheckEfaPlugin(const std::string& net_plugin,
                    const std::function<bool(const std::string&)>& opens,
                    v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_INFINIBAND_H_
