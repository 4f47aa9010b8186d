// Where CUDA's libraries may be found.
#ifndef ROLLCALL_TRAINER_CUDA_CUDA_LIBRARY_NAMES_H_
#define ROLLCALL_TRAINER_CUDA_CUDA_LIBRARY_NAMES_H_

#include <string>
#include <vector>

namespace rollcall {

// Returns `sonames` as the loader finds them (LD_LIBRARY_PATH), then the paths
// in CUDA's folders.
std::vector<std::string> CudaLibraryNames(
    const std::vector<std::string>& sonames);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_CUDA_LIBRARY_NAMES_H_
