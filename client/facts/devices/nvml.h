// This node's NVIDIA GPUs as NVML reports them; NVML is opened at run time.
//
// Each symbol is looked up separately, the newest name first, as nvml.h
// documents them. The used parts of that header are declared here, so that the
// build does not need it. If a call fails, its fact stays unset and there is a
// MissingFact with NVML's error text: `gpus.INDEX.FIELD`, or `gpus.FIELD` for
// all GPUs if the library lacks the call. A fact that a GPU does not support
// (NVML_ERROR_NOT_SUPPORTED) is unset without a MissingFact.
//
// A GPU to which NVML gives no access (it is lost, or has no handle) is listed,
// and the MissingFact `gpus.INDEX` has the reason. If NVML does not answer for
// a GPU, that GPU and those after it are not listed.
//
// One thread. The library is never closed. It may hang or crash if a GPU is
// broken: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_NVML_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_NVML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The names by which the library is opened: only `explicit_path` if given; else
// libnvidia-ml.so.1 by the loader's search, then the file in WSL2's folder.
std::vector<std::string> NvmlLibraryNames(const std::string& explicit_path);

// Sets gpus, versions.driver and versions.cuda. Sets PCI addresses, but not the
// fields that are derived from them (numa_node, near_hcas). Calls `before`
// before it accesses a GPU.
void AskNvml(const std::vector<std::string>& libraries,
             const std::function<void(absl::string_view gpu)>& before,
             v1::Facts& facts);

// The names that nvidia-smi uses for NVML's bits. The bit for an idle GPU is
// left out, because idling is not a reason. Pure.
std::vector<std::string> ThrottleReasons(uint64_t bits);
// 13000 becomes "13.0". Pure.
std::string CudaVersionText(int version);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_NVML_H_
