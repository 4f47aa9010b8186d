#include "trainer/model/cpu/openblas.h"

#include <cblas.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

namespace rollcall {

void ChooseOpenBlasKernels(char** argv) {
#ifdef __x86_64__
  constexpr char kVariable[] = "OPENBLAS_CORETYPE";
  if (std::getenv(kVariable) != nullptr) return;
  const char* core = openblas_get_corename();
  if (std::strcmp(core, "Prescott") != 0 && std::strcmp(core, "Generic") != 0) {
    return;
  }
  const char* better = nullptr;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    better = "Haswell";
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      better = "SkylakeX";
    }
  }
  if (better == nullptr || setenv(kVariable, better, 1) != 0) return;
  // Executes the program by its path if possible. The kernel names a process
  // after the executed file, and people and tools look for "rollcall-train".
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (size > 0) {
    path[size] = '\0';
    execv(path, argv);
  }
  execv("/proc/self/exe", argv);
#else
  static_cast<void>(argv);
#endif
}

void ShareCores(int ranks_here) {
  if (ranks_here <= 1) return;
  if (std::getenv("OPENBLAS_NUM_THREADS") != nullptr) return;
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  openblas_set_num_threads(1);
}

}  // namespace rollcall
