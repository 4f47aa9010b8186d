// WatchGpus: what NVML reports of GPUs while they are used: Xid errors,
// uncorrectable ECC errors, and clocks that the hardware slows down.
//
// NVML announces Xid and ECC errors. It announces no change of the clocks'
// reasons, so these are read every second.
//
// The library is opened at run time, and may hang or crash if a GPU is broken:
// call this in a process that only does this. A call that the library or a GPU
// does not have leaves its fact out.
#ifndef ROLLCALL_CLIENT_FACTS_WATCH_GPU_WATCH_H_
#define ROLLCALL_CLIENT_FACTS_WATCH_GPU_WATCH_H_

#include <string>
#include <vector>

#include "client/facts/watch/fact_reporter.h"

namespace rollcall {

// Returns if the library cannot be opened or lists no GPU.
void WatchGpus(const std::vector<std::string>& libraries,
               FactReporter& reporter);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_GPU_WATCH_H_
