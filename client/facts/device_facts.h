// Facts from device libraries: RDMA ports, GPUs, NCCL's version; and the space
// in folders. A folder may be on a file system that does not answer.
//
// A library may hang if a GPU has fallen off its bus, and may crash if a
// provider is too old. So an agent runs the hidden command `rollcall facts`
// (AskDeviceFacts), and that process asks each library in a copy of itself
// (GatherDeviceFacts). If a library hangs or crashes, there is a MissingFact
// for it, and the other facts are complete.
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
  // The folder that has /sys, /dev and /proc/driver.
  std::string sysroot = "/";
  // Empty: the loader's search decides. With another sysroot, an empty one
  // means that the library is not asked, because it would report this machine.
  std::string verbs_library;
  std::string nvml_library;
  std::string nccl_library;
  std::vector<std::string> folders;
  absl::Duration timeout = absl::Seconds(5);
};

// Sets infiniband, gpus, gpu_count, folders, missing, and the versions of NCCL,
// CUDA and the driver. Takes at most `timeout` plus one second. The process
// must have one thread.
v1::Facts GatherDeviceFacts(const DeviceFactsOptions& options);

// The facts of GatherDeviceFacts, gathered by the command `self facts` with
// that environment ("NAME=value"; without LD_PRELOAD). Any thread. Never fails:
// if the command cannot be run, does not answer in time or gives a wrong
// answer, there is a MissingFact.
v1::Facts AskDeviceFacts(const std::string& self,
                         const std::vector<std::string>& environment,
                         const DeviceFactsOptions& options);

// Whether a library must be asked: there is an RDMA device or a GPU, or the
// options name a library. Only checks which files exist.
bool HasDevices(const DeviceFactsOptions& options);

// Whether NVML is asked: the driver shows a GPU, or the options name a library.
bool AsksNvml(const DeviceFactsOptions& options);

// The same facts for a node without devices. Opens no library. There is a
// MissingFact only if the PCI bus shows a device. The folders are read in a
// copy of this process, so the process must have one thread if there are
// folders.
v1::Facts WithoutDevices(const DeviceFactsOptions& options);

// The options as the command's arguments, and back. INVALID_ARGUMENT: the
// arguments cannot be parsed.
struct FactsCommand {
  DeviceFactsOptions options;
  // Print all facts of this node as JSON, for people.
  bool json = false;
  // Write what changes from now on (watch/fact_watch.h).
  bool watch = false;
};
std::vector<std::string> FactsArguments(const DeviceFactsOptions& options);
absl::StatusOr<FactsCommand> ParseFactsArguments(
    const std::vector<std::string>& arguments);

// The environment for the command.
std::vector<std::string> WithoutPreload(
    const std::vector<std::string>& environment);

// These gather one part each, in this process, which may hang or crash with the
// library. Before each such step `report` is called with what is known so far;
// see isolated_query.h.
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
