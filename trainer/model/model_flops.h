// Model FLOPs: how much arithmetic the training of a model takes, and how much
// a device can do at most. Their ratio is the model FLOPs utilization (MFU).
//
// Pure; any thread.
#ifndef ROLLCALL_TRAINER_MODEL_MODEL_FLOPS_H_
#define ROLLCALL_TRAINER_MODEL_MODEL_FLOPS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// Floating-point operations of one token's forward and backward pass: 6 N + 12
// L H Q T, as in appendix B of the PaLM paper (Chowdhery et al., 2022,
// arXiv:2204.02311). N: the weights that take part in matrix products, so all
// but the table of positions; the table of tokens counts as it is also the
// output matrix. L H Q: layers times width; T: context. Recomputation does not
// count, and neither does the causal mask, which saves half of the last term.
double FlopsPerToken(const GptConfig& config);

// The peak of a GPU in dense bf16 products with sums in fp32, in operations a
// second, by the name that CUDA gives it. nullopt: a GPU that is not in the
// table, or a part of one (MIG).
std::optional<double> PeakFlops(absl::string_view device);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_MODEL_FLOPS_H_
