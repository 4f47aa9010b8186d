// This node's NVIDIA GPUs as NVML reports them; NVML is opened at run time.
//
// Each symbol is looked up separately, the newest name first, as nvml.h
// documents them; the parts of that header that are used are declared here, so
// that the build does not need it. If a call fails, its fact stays unset and
// there is a MissingFact with NVML's error text: `gpus.INDEX.FIELD`, or
// `gpus.FIELD` if the library lacks the call, hence for all GPUs. A fact that a
// GPU does not support (NVML_ERROR_NOT_SUPPORTED) is unset without a
// MissingFact.
//
// A GPU that NVML gives no access to (it is lost, or has no handle) is listed,
// and `gpus.INDEX` says why. If NVML does not answer for a GPU, that GPU and
// those after it are not listed.
//
// One thread. The library is not closed again, and may hang or crash if a GPU
// is broken: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_NVML_H_
#define ROLLCALL_CLIENT_FACTS_NVML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Names to open the library by: only `explicit_path` if given; else
// libnvidia-ml.so.1 as the loader finds it, then the one in WSL2's folder.
std::vector<std::string> NvmlLibraryNames(const std::string& explicit_path);

// Sets gpus, versions.driver and versions.cuda. Sets PCI addresses, but not
// what follows from them (numa_node, near_hcas). Calls `before` before it
// touches a GPU.
void AskNvml(const std::vector<std::string>& libraries,
             const std::function<void(absl::string_view gpu)>& before,
             v1::Facts& facts);

// NVML's bits by nvidia-smi's names; the bit for an idle GPU gives no reason.
// Pure.
std::vector<std::string> ThrottleReasons(uint64_t bits);
// 13000 is "13.0". Pure.
std::string CudaVersionText(int version);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NVML_H_
