#include "trainer/cuda/blas.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/library.h"
#include "trainer/cuda/cuda_library_names.h"

namespace rollcall {
namespace {

// The most plans that are cached. A model has about twenty kinds of products
// per batch size.
constexpr size_t kPlansMax = 256;
constexpr int64_t kAlignMax = 256;

int64_t Alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  int64_t alignment = 1;
  while (alignment < kAlignMax && address % (2 * alignment) == 0) {
    alignment *= 2;
  }
  return alignment;
}

cublasLtEpilogue_t ToCublas(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

const void* Added(const Product& p) { return p.add == nullptr ? p.out : p.add; }

}  // namespace

absl::StatusOr<BlasLibrary> BlasLibrary::Open() {
  const absl::StatusOr<Library> library = Library::Open(
      CudaLibraryNames({"libcublasLt.so.13", "libcublasLt.so.12"}));
  if (!library.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuBLASLt, which computes matrix products, was not found: ",
        library.status().message(),
        "; install it (libcublas of the CUDA toolkit, or nvidia-cublas from "
        "PyPI), and add its folder to LD_LIBRARY_PATH"));
  }
  BlasLibrary b{};
  absl::Status status;
  status.Update(library->Find("cublasLtCreate", &b.create));
  status.Update(library->Find("cublasLtDestroy", &b.destroy));
  status.Update(library->Find("cublasLtGetStatusString", &b.status_string));
  status.Update(library->Find("cublasLtMatmul", &b.matmul));
  status.Update(library->Find("cublasLtMatmulAlgoGetHeuristic", &b.heuristic));
  status.Update(library->Find("cublasLtMatmulDescCreate", &b.operation_create));
  status.Update(
      library->Find("cublasLtMatmulDescDestroy", &b.operation_destroy));
  status.Update(
      library->Find("cublasLtMatmulDescSetAttribute", &b.operation_set));
  status.Update(library->Find("cublasLtMatrixLayoutCreate", &b.layout_create));
  status.Update(
      library->Find("cublasLtMatrixLayoutDestroy", &b.layout_destroy));
  status.Update(
      library->Find("cublasLtMatmulPreferenceCreate", &b.preference_create));
  status.Update(
      library->Find("cublasLtMatmulPreferenceDestroy", &b.preference_destroy));
  status.Update(
      library->Find("cublasLtMatmulPreferenceSetAttribute", &b.preference_set));
  if (!status.ok()) return status;
  return b;
}

absl::StatusOr<std::unique_ptr<Blas>> Blas::Create(cuda::Stream stream,
                                                   void* workspace) {
  const absl::StatusOr<BlasLibrary> library = BlasLibrary::Open();
  if (!library.ok()) return library.status();
  std::unique_ptr<Blas> blas(new Blas(*library, stream, workspace));
  absl::Status status =
      blas->Check(library->create(&blas->handle_), "cublasLtCreate", Product());
  if (!status.ok()) return status;
  return blas;
}

Blas::~Blas() {
  for (auto& [key, plan] : plans_) Drop(plan);
  if (handle_ != nullptr) library_.destroy(handle_);
}

absl::Status Blas::Check(cublasStatus_t status, const char* call,
                         const Product& p) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("%s for a product of %d x %d by %d x %d: %s", call, p.m,
                      p.k, p.k, p.n, library_.status_string(status)));
}

Blas::Key Blas::KeyOf(const Product& p) {
  return {p.m,
          p.n,
          p.k,
          p.a_stride,
          p.b_stride,
          p.out_stride,
          p.transpose_a,
          p.transpose_b,
          p.floats,
          static_cast<int64_t>(p.epilogue),
          Alignment(p.a),
          Alignment(p.b),
          Alignment(p.out),
          Alignment(Added(p)),
          Alignment(p.bias),
          Alignment(p.before)};
}

void Blas::Drop(Plan& plan) {
  if (plan.operation != nullptr) library_.operation_destroy(plan.operation);
  for (cublasLtMatrixLayout_t layout : {plan.first, plan.second, plan.out}) {
    if (layout != nullptr) library_.layout_destroy(layout);
  }
}

// cuBLASLt stores the pointers to the bias and to GELU's input in the
// operation's description, so they are set for each product.
absl::Status Blas::SetPointers(const Product& p, const Plan& plan) {
  absl::Status status;
  const auto set = [&](cublasLtMatmulDescAttributes_t which,
                       const auto& value) {
    status.Update(Check(
        library_.operation_set(plan.operation, which, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute", p));
  };
  if (p.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.before != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.before);
  }
  return status;
}

// Matrices are row-major here and column-major in cuBLASLt, so every matrix is
// seen as transposed, and the two factors are swapped.
absl::Status Blas::MakePlan(const Product& p, Plan* plan) {
  absl::Status status =
      Check(library_.operation_create(&plan->operation, CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F),
            "cublasLtMatmulDescCreate", p);
  if (!status.ok()) return status;
  const auto set = [&](cublasLtMatmulDescAttributes_t which,
                       const auto& value) {
    status.Update(Check(
        library_.operation_set(plan->operation, which, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute", p));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, ToCublas(p.epilogue));
  if (p.before != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.out_stride);
  }
  status.Update(SetPointers(p, *plan));
  const auto layout = [&](cublasLtMatrixLayout_t* made, cudaDataType_t type,
                          int64_t rows, int64_t columns, int64_t stride) {
    status.Update(
        Check(library_.layout_create(made, type, rows, columns, stride),
              "cublasLtMatrixLayoutCreate", p));
  };
  layout(&plan->first, CUDA_R_16BF, p.transpose_b ? p.k : p.n,
         p.transpose_b ? p.n : p.k, p.b_stride);
  layout(&plan->second, CUDA_R_16BF, p.transpose_a ? p.m : p.k,
         p.transpose_a ? p.k : p.m, p.a_stride);
  layout(&plan->out, p.floats ? CUDA_R_32F : CUDA_R_16BF, p.n, p.m,
         p.out_stride);
  if (!status.ok()) return status;
  return Choose(p, plan);
}

absl::Status Blas::Choose(const Product& p, Plan* plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  absl::Status status = Check(library_.preference_create(&preference),
                              "cublasLtMatmulPreferenceCreate", p);
  if (!status.ok()) return status;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which,
                       const auto& value) {
    status.Update(
        Check(library_.preference_set(preference, which, &value, sizeof(value)),
              "cublasLtMatmulPreferenceSetAttribute", p));
  };
  const auto alignment = [](const void* pointer) {
    return static_cast<uint32_t>(Alignment(pointer));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(Added(p)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.out));
  if (status.ok()) {
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t asked =
        library_.heuristic(handle_, plan->operation, plan->first, plan->second,
                           plan->out, plan->out, preference, 1, &best, &count);
    if (asked == CUBLAS_STATUS_SUCCESS && count > 0 &&
        best.state == CUBLAS_STATUS_SUCCESS) {
      plan->algorithm = best.algo;
      plan->found = true;
    } else if (asked != CUBLAS_STATUS_SUCCESS &&
               asked != CUBLAS_STATUS_NOT_SUPPORTED) {
      status = Check(asked, "cublasLtMatmulAlgoGetHeuristic", p);
    }
  }
  library_.preference_destroy(preference);
  return status;
}

absl::StatusOr<Blas::Plan*> Blas::PlanFor(const Product& product) {
  const Key key = KeyOf(product);
  if (auto it = plans_.find(key); it != plans_.end()) return &it->second;
  if (plans_.size() >= kPlansMax) {
    for (auto& [other, plan] : plans_) Drop(plan);
    plans_.clear();
  }
  Plan plan;
  if (absl::Status s = MakePlan(product, &plan); !s.ok()) {
    Drop(plan);
    return s;
  }
  return &plans_.emplace(key, plan).first->second;
}

absl::Status Blas::Multiply(const Product& p) {
  const absl::StatusOr<Plan*> plan = PlanFor(p);
  if (!plan.ok()) return plan.status();
  if (!(*plan)->found) {
    if (p.epilogue != Epilogue::kNone) {
      return MultiplyInSteps(*this, stream_, p);
    }
    return absl::UnimplementedError(absl::StrFormat(
        "cuBLASLt has no way to compute a product of %d x %d by %d x %d in "
        "bf16; try another --width or --batch, or --device cpu",
        p.m, p.k, p.k, p.n));
  }
  if (absl::Status s = SetPointers(p, **plan); !s.ok()) return s;
  const float alpha = 1;
  const float beta = p.add == nullptr ? 0 : 1;
  return Check(
      library_.matmul(handle_, (*plan)->operation, &alpha, p.b, (*plan)->first,
                      p.a, (*plan)->second, &beta, Added(p), (*plan)->out,
                      p.out, (*plan)->out, &(*plan)->algorithm, workspace_,
                      kWorkspaceBytes, stream_),
      "cublasLtMatmul", p);
}

}  // namespace rollcall
