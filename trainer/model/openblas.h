// What OpenBLAS must be told before it is fast: which of its kernels to use and
// with how many threads. The environment's word (OPENBLAS_*, OMP_*) comes
// first.
//
// Thread rule: main's thread, before any other is started.
#ifndef ROLLCALL_TRAINER_MODEL_OPENBLAS_H_
#define ROLLCALL_TRAINER_MODEL_OPENBLAS_H_

namespace rollcall {

// A processor newer than the library gets its oldest kernels, several times
// slower than what the processor can run. The choice falls as the library is
// loaded, before main: so, where it fell badly, this starts the program again
// in place (the same process, the same arguments) with the right one in
// OPENBLAS_CORETYPE. Does nothing where it fell well or that fails.
void ChooseOpenBlasKernels(char** argv);

// Ranks that share a machine would each start a thread a core otherwise.
void ShareCores(int ranks_here);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_OPENBLAS_H_
