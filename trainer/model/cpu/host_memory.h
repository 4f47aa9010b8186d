// How much memory of this machine a process may still allocate.
//
// Only reads files of the kernel. Any thread.
#ifndef ROLLCALL_TRAINER_MODEL_CPU_HOST_MEMORY_H_
#define ROLLCALL_TRAINER_MODEL_CPU_HOST_MEMORY_H_

#include <string>

namespace rollcall {

// In bytes: the available memory of this machine (MemAvailable); or what is
// left in this process's cgroup or one above it, if that is less; or all
// physical memory, if nothing can be read. `root`: the folder that contains
// /proc and /sys; for tests.
double FreeHostBytes(const std::string& root = "");

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CPU_HOST_MEMORY_H_
