// Gemm: the matrix product of the model, computed by OpenBLAS, for float
// (training) and double (tests that need the precision).
//
// Row-major: C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C. `lda`, `ldb`
// and `ldc` are the distances between rows as stored.
#ifndef ROLLCALL_TRAINER_MODEL_CPU_GEMM_H_
#define ROLLCALL_TRAINER_MODEL_CPU_GEMM_H_

#include <cblas.h>

namespace rollcall {

enum class Transpose { kNo, kYes };

inline CBLAS_TRANSPOSE ToCblas(Transpose t) {
  return t == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

inline void Gemm(Transpose ta, Transpose tb, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta,
                 float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ToCblas(ta), ToCblas(tb), m, n, k, alpha, a, lda,
              b, ldb, beta, c, ldc);
}

inline void Gemm(Transpose ta, Transpose tb, int m, int n, int k, double alpha,
                 const double* a, int lda, const double* b, int ldb,
                 double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ToCblas(ta), ToCblas(tb), m, n, k, alpha, a, lda,
              b, ldb, beta, c, ldc);
}

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CPU_GEMM_H_
