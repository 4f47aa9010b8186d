// RDMA devices as libibverbs reports them; the library is opened at run time.
//
// Each symbol is looked up separately. If an old library lacks one, the value
// is read from the kernel's files instead, or the device is unusable. Layouts
// are those of infiniband/verbs.h.
//
// One thread. The library is never closed. It and its providers may hang or
// crash: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Why a process cannot use an RDMA device.
struct Unusable {
  enum class Why {
    kUsable,
    kNoLibrary,     // libibverbs cannot be opened.
    kNoSymbol,      // The library lacks a symbol that NCCL needs too.
    kNoKernel,      // ENOSYS: no module ib_uverbs, or no RDMA at all.
    kNoNode,        // /dev/infiniband/uverbs* does not exist.
    kNotPermitted,  // No permission to open the node.
    kNoProvider,    // No library for this device's driver.
    kMemlock,       // The limit on locked memory is too low.
    kOther,
  };
  Why why = Why::kUsable;
  // The operation that failed, and the system's error.
  std::string text;
};

struct VerbsDevice {
  std::string name;
  Unusable unusable;
  // Fields that libibverbs does not report are unset.
  std::vector<v1::InfinibandPort> ports;
};

struct VerbsAnswer {
  // Why no device could be asked; kUsable: the list of devices was read.
  Unusable failure;
  std::vector<VerbsDevice> devices;
};

// Opens `library` and asks about all devices. Before each device it calls
// `before` with the device's name and what is known so far. A device for which
// `why_not_opened` gives a reason is not opened: if a device file cannot be
// opened, libibverbs waits 5 s for udev and then reports a misleading reason
// (util/open_cdev.c of rdma-core).
VerbsAnswer AskVerbs(
    const std::string& library,
    const std::function<void(const VerbsAnswer& so_far,
                             absl::string_view device)>& before,
    const std::function<Unusable(const std::string& device)>& why_not_opened);

// Values of verbs.h as texts and numbers of the facts. Pure.
std::string VerbsState(int state);
std::string VerbsPhysicalState(uint8_t state);
// The number of lanes times the lane speed, in whole Gbit/s; 0: unknown.
uint32_t VerbsRateGbps(uint8_t width, uint8_t speed);
// The bytes of an `ibv_mtu`; 0: unknown.
uint32_t VerbsMtuBytes(int mtu);
// Why a device could not be opened, from errno. `memlock_bytes`: the limit on
// locked memory.
Unusable OpenFailure(int error, uint64_t memlock_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_H_
