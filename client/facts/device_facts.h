// The facts that device libraries tell: RDMA ports, GPUs, NCCL's version; and
// the space in folders, which may be on a file system that does not answer.
//
// Libraries hang where a GPU fell off its bus, and crash where a provider is
// too old. So an agent asks by the hidden command `rollcall facts`
// (AskDeviceFacts), and that process asks each part in a copy of itself
// (GatherDeviceFacts): what hangs or crashes becomes a MissingFact, and the
// other parts are whole.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICE_FACTS_H_
#define ROLLCALL_CLIENT_FACTS_DEVICE_FACTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct DeviceFactsOptions {
  // Below which /sys, /dev and /proc/driver are looked for.
  std::string sysroot = "/";
  // Empty: as a process finds them. With another sysroot, an empty one means
  // that the library is not asked: it would tell of this machine.
  std::string verbs_library;
  std::string nvml_library;
  std::string nccl_library;
  std::vector<std::string> folders;
  absl::Duration timeout = absl::Seconds(5);
};

// Sets infiniband, gpus, gpu_count, folders, what versions has of NCCL, CUDA
// and the driver, and missing. Takes at most `timeout` and a second. For a
// process with one thread.
v1::Facts GatherDeviceFacts(const DeviceFactsOptions& options);

// The same by `self facts` with that environment ("NAME=value"; LD_PRELOAD is
// left out). Any thread. Never fails: a command that cannot be run, that does
// not answer in time or answers nonsense is a MissingFact.
v1::Facts AskDeviceFacts(const std::string& self,
                         const std::vector<std::string>& environment,
                         const DeviceFactsOptions& options);

// Whether there is anything that a library could tell of: an RDMA device, a
// GPU, or a library that was named. Looks for files alone.
bool HasDevices(const DeviceFactsOptions& options);

// The same facts of a node without devices: no library is opened. That it has
// none is known, and no MissingFact, unless the PCI bus shows one. Folders are
// asked for in a copy of this process, which then must have one thread.
v1::Facts WithoutDevices(const DeviceFactsOptions& options);

// As arguments of the command, and back. INVALID_ARGUMENT: not understood.
struct FactsCommand {
  DeviceFactsOptions options;
  // For people: all facts of this node as JSON.
  bool json = false;
};
std::vector<std::string> FactsArguments(const DeviceFactsOptions& options);
absl::StatusOr<FactsCommand> ParseFactsArguments(
    const std::vector<std::string>& arguments);

// Each part, in this process: may hang or crash with its library. `report` is
// called with what is known before each step that may; see isolated_query.h.
v1::Facts AskInfiniband(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report);
v1::Facts AskGpus(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report);
v1::Facts AskNccl(const DeviceFactsOptions& options);
v1::Facts AskEfaPlugin(const DeviceFactsOptions& options);
v1::Facts AskFolders(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICE_FACTS_H_
