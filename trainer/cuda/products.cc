#include "trainer/cuda/products.h"

#include "absl/strings/str_cat.h"

namespace rollcall {

absl::Status KernelStatus(int error, absl::string_view purpose) {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a kernel for ", purpose, ": ",
                                          cuda::ErrorText(error), " (", error,
                                          ")"));
}

absl::Status MultiplyInSteps(Products& products, cuda::Stream stream,
                             const Product& p) {
  Product plain = p;
  plain.epilogue = Epilogue::kNone;
  plain.bias = nullptr;
  plain.before = nullptr;
  auto* out = static_cast<cuda::Bf16*>(p.out);
  if (p.epilogue == Epilogue::kBiasGelu) plain.out = p.before;
  if (absl::Status s = products.Multiply(plain); !s.ok()) return s;
  absl::Status status;
  switch (p.epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return KernelStatus(cuda::AddBias(stream, out, p.bias, p.m, p.n),
                          "a bias");
    case Epilogue::kBiasGelu:
      status = KernelStatus(cuda::AddBias(stream, p.before, p.bias, p.m, p.n),
                            "a bias");
      status.Update(KernelStatus(
          cuda::GeluForward(stream, out, p.before, p.m * p.n), "GELU"));
      return status;
    case Epilogue::kGeluBackward:
      return KernelStatus(cuda::GeluBackward(stream, out, p.before, p.m * p.n),
                          "GELU's gradient");
  }
  return status;
}

}  // namespace rollcall
