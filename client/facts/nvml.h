// What NVML says of this node's NVIDIA GPUs, opened at run time.
//
// Each symbol is looked up by itself, under the newest name first, as nvml.h
// documents them; what is used of that header is declared here, since it is
// not needed to build. A call that fails leaves its fact unset and adds a
// MissingFact with NVML's own words: `gpus.INDEX.FIELD`, or `gpus.FIELD` where
// the library lacks the call, hence for all GPUs. What a GPU does not have at
// all (NVML_ERROR_NOT_SUPPORTED) is unset without one.
//
// A GPU that NVML refuses (it is lost, its handle cannot be had) is listed, and
// `gpus.INDEX` says why. One where NVML did not answer is not listed, nor are
// those after it.
//
// One thread. The library is not closed again, and may hang or crash where a
// GPU is broken: see device_facts.h.
#ifndef ROLLCALL_CLIENT_FACTS_NVML_H_
#define ROLLCALL_CLIENT_FACTS_NVML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Where the library is looked for: `explicit_path` alone if given; else
// libnvidia-ml.so.1 as the loader finds it, then WSL2's folder.
std::vector<std::string> NvmlLibraryNames(const std::string& explicit_path);

// Sets gpus, versions.driver and versions.cuda. PCI addresses are set, and what
// follows from them (numa_node, near_hcas) is not. `before` is called before
// each GPU is touched.
void AskNvml(const std::vector<std::string>& libraries,
             const std::function<void(absl::string_view gpu)>& before,
             v1::Facts& facts);

// NVML's bits as nvidia-smi names them; an idle GPU has no reason for that.
// Pure.
std::vector<std::string> ThrottleReasons(uint64_t bits);
// 13000 is "13.0". Pure.
std::string CudaVersionText(int version);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NVML_H_
