// The InfiniBand part of the facts: every port of every RDMA device.
//
// The kernel's own view is read below a root folder (sysfs); what libibverbs
// says of the same ports takes its place, since that is what a process can use.
// A device that the kernel has and libibverbs does not open is kept, with the
// reason in `unusable`.
//
// Any thread; but libraries and devices may hang or crash: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_INFINIBAND_H_
#define ROLLCALL_CLIENT_FACTS_INFINIBAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/facts/verbs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// All ports that <root>/sys/class/infiniband shows, by device name in natural
// order, then by port; without GIDs, which ReadGids adds. A file that is not
// there, or that cannot be read, leaves its field unset: see AddUnreadFields.
// At most FactsLimits::devices_max.
std::vector<v1::InfinibandPort> ReadInfinibandPorts(const std::string& root);

// For facts without a port: adds the MissingFact `infiniband` unless it is
// known that there is no device, since sysfs shows none and the PCI bus
// neither.
void SayWhyNoPort(const std::string& root, v1::Facts& facts);

// Adds a MissingFact `infiniband.DEVICE.FIELD` for each field that neither
// `verbs` has told nor sysfs: state, phys_state, link_layer, rate_gbps, lid,
// sm_lid, gids.
void AddUnreadFields(const std::string& root, const VerbsAnswer& verbs,
                     v1::Facts& facts);

// Sets `gids` from sysfs: those that are set. Sets net_device as well.
void ReadGids(const std::string& root, v1::InfinibandPort& port);

// Puts what libibverbs said into the ports of `facts`, which stay sorted: its
// word wins where both speak. Ports of devices that it did not open get
// `unusable`, and a MissingFact says so: `infiniband.memlock` where the limit
// on locked memory is too low, `infiniband.unusable` where all devices have
// another reason in common, else `infiniband.DEVICE`. `why_not_listed` is asked
// of those that libibverbs did not even list. Pure.
void MergeVerbs(
    const VerbsAnswer& answer,
    const std::function<Unusable(const v1::InfinibandPort&)>& why_not_listed,
    v1::Facts& facts);

// Why this process cannot open the node of a device, from what is below `root`:
// it is not there, or may not be opened. kUsable: it can, or sysfs names none.
Unusable WhyNotOpened(const std::string& root, const std::string& device);

// Why libibverbs passes over a device that the kernel shows, from what is below
// `root`: no module ib_uverbs, no device node, no permission, or no provider
// for its driver. (What libibverbs/init.c of rdma-core looks at, in its order.)
Unusable WhyNotListed(const std::string& root, const v1::InfinibandPort& port);

// What a user may do about it; empty: nothing is known. Pure.
std::string UnusableRemedy(Unusable::Why why, absl::string_view driver);

// "4: ACTIVE" is ACTIVE; "<unknown>" and what has no number are empty. Pure.
std::string StateWord(absl::string_view text);
// "100 Gb/sec (4X EDR)" is 100, "2.5 Gb/sec" is 2; 0: not understood. Pure.
uint32_t RateGbps(absl::string_view text);
// sysfs writes all eight groups; inet_ntop's text. Empty: no address, or one
// without an interface part, which is an entry that is not set. Pure.
std::string GidText(absl::string_view text);
// inet_ntop's text of 16 bytes. Pure.
std::string GidTextOfBytes(const unsigned char* bytes);

// EFA's traffic goes through a plugin of NCCL's: tries to open those that NCCL
// would, by `opens`, and adds the MissingFact kEfaPluginFact where none can be.
// Does nothing without an EFA device. `net_plugin`: NCCL_NET_PLUGIN; empty:
// unset.
inline constexpr char kEfaPluginFact[] = "infiniband.efa_plugin";
bool HasEfa(const v1::Facts& facts);
void CheckEfaPlugin(const std::string& net_plugin,
                    const std::function<bool(const std::string&)>& opens,
                    v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_INFINIBAND_H_
