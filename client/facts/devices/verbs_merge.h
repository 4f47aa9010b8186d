// Replaces the kernel's view of the RDMA ports by libibverbs' view, because
// that is what a process can use. A device that the kernel has and libibverbs
// cannot open is kept, with the reason in `unusable`. Pure; any thread.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_MERGE_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_MERGE_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "client/facts/devices/verbs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Merges libibverbs' answer into the ports of `facts`, which stay sorted;
// values of the answer replace those of sysfs. The ports of devices that
// libibverbs could not open get `unusable`, and there is a MissingFact:
// `infiniband.memlock` if the limit on locked memory is too low,
// `infiniband.unusable` if all devices have the same other reason, else
// `infiniband.DEVICE`. `why_not_listed` is called for devices that libibverbs
// did not list.
void MergeVerbs(
    const VerbsAnswer& answer,
    const std::function<Unusable(const v1::InfinibandPort&)>& why_not_listed,
    v1::Facts& facts);

// The provider's NAME in the file name libNAME-rdmav*.so of libibverbs' folder.
std::string ProviderOf(absl::string_view driver);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_VERBS_MERGE_H_
