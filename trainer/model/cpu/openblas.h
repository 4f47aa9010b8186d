// OpenBLAS settings: which of its kernels to use, and with how many threads.
// Environment variables (OPENBLAS_*, OMP_*) take precedence.
//
// Thread rule: the main thread, before any other thread starts.
#ifndef ROLLCALL_TRAINER_MODEL_CPU_OPENBLAS_H_
#define ROLLCALL_TRAINER_MODEL_CPU_OPENBLAS_H_

namespace rollcall {

// On a processor that is newer than the library, OpenBLAS chooses its oldest
// kernels, which are several times slower than what the processor can run. It
// chooses when the library is loaded, before main. After a bad choice, this
// function executes the program again in place (same process, same arguments)
// with the right choice in OPENBLAS_CORETYPE. Does nothing if the choice was
// good, or if that fails.
void ChooseOpenBlasKernels(char** argv);

// Uses one thread per rank if several ranks share a machine. Otherwise each
// rank would start one thread per core.
void ShareCores(int ranks_here);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CPU_OPENBLAS_H_
