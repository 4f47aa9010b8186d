// Finds the NCCL that a command would load. Only looks at file names; opens and
// runs nothing.
#ifndef ROLLCALL_CLIENT_FACTS_NCCL_SEARCH_H_
#define ROLLCALL_CLIENT_FACTS_NCCL_SEARCH_H_

#include <string>
#include <vector>

namespace rollcall {

// NCCL libraries that a command with this environment ("NAME=value") may load,
// in the order in which it would find them: LD_LIBRARY_PATH, the Python
// environment (VIRTUAL_ENV, CONDA_PREFIX, python3 on PATH), CUDA_HOME,
// /usr/local/cuda. Some may not exist.
std::vector<std::string> NcclLibraryCandidates(
    const std::vector<std::string>& environment);

// `explicit_path` if given; else the first candidate that exists; else the
// plain name, which the loader searches.
std::string FindNcclLibrary(const std::string& explicit_path,
                            const std::vector<std::string>& environment);

// NCCL_VERSION_CODE as text: 22809 is 2.28.9, and 2708 is 2.7.8 (before 2.9 the
// minor version had one digit). Empty: not a version. Pure.
std::string NcclVersionText(int code);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NCCL_SEARCH_H_
