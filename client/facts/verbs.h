// What libibverbs says of RDMA devices, opened at run time.
//
// Each symbol is looked up by itself; what an old library lacks is asked of the
// kernel's files instead, or makes the device unusable. Layouts are those of
// infiniband/verbs.h.
//
// One thread. The library is not closed again; it and its providers may hang or
// crash: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_VERBS_H_
#define ROLLCALL_CLIENT_FACTS_VERBS_H_

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
    kNoSymbol,      // It lacks one that NCCL needs as well.
    kNoKernel,      // ENOSYS: no module ib_uverbs, or no RDMA at all.
    kNoNode,        // /dev/infiniband/uverbs* is not there.
    kNotPermitted,  // It is there, and may not be opened.
    kNoProvider,    // No library for this device's driver.
    kMemlock,       // Too little memory may be locked.
    kOther,
  };
  Why why = Why::kUsable;
  // What was tried, and what the system answered.
  std::string text;
};

struct VerbsDevice {
  std::string name;
  Unusable unusable;
  // Fields that libibverbs does not tell are unset.
  std::vector<v1::InfinibandPort> ports;
};

struct VerbsAnswer {
  // Why no device could be asked at all; kUsable: the list was read.
  Unusable failure;
  std::vector<VerbsDevice> devices;
};

// Opens `library` and asks all devices. `before` is called with the name of
// each device before it is touched, and what is known by then. A device that
// `why_not_opened` has a reason for is not opened: libibverbs waits 5 s for
// udev where a node may not be opened, and then gives a reason that misleads
// (util/open_cdev.c of rdma-core).
VerbsAnswer AskVerbs(
    const std::string& library,
    const std::function<void(const VerbsAnswer& so_far,
                             absl::string_view device)>& before,
    const std::function<Unusable(const std::string& device)>& why_not_opened);

// Words and numbers of verbs.h as the facts have them. Pure.
std::string VerbsState(int state);
std::string VerbsPhysicalState(uint8_t state);
// Lanes times their speed, in whole Gbit/s; 0: not known.
uint32_t VerbsRateGbps(uint8_t width, uint8_t speed);
// Bytes of an `ibv_mtu`; 0: not known.
uint32_t VerbsMtuBytes(int mtu);
// Why a device could not be opened, from errno. `memlock_bytes`: the limit.
Unusable OpenFailure(int error, uint64_t memlock_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_VERBS_H_
