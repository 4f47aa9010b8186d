#include "trainer/model/model_flops.h"

#include "absl/strings/match.h"

namespace rollcall {
namespace {

struct DevicePeak {
  const char* name;  // The beginning of the device's name.
  double flops;
};

// From NVIDIA's data sheets of A100, H100, H200 and B200 (nvidia.com/en-us/
// data-center). Those of H100 and newer state bf16 with sparsity, which is
// twice as much as without. A longer name comes before its beginning.
constexpr DevicePeak kPeaks[] = {
    {"NVIDIA A100", 312e12},      {"NVIDIA H100 NVL", 835e12},
    {"NVIDIA H100 PCIe", 756e12}, {"NVIDIA H100 80GB HBM3", 989e12},
    {"NVIDIA H200 NVL", 835e12},  {"NVIDIA H200", 989e12},
    {"NVIDIA B200", 2250e12},
};

}  // namespace

double FlopsPerToken(const GptConfig& config) {
  const double width = config.width;
  const double context = config.context;
  const double weights =
      static_cast<double>(GptLayout(config).size) - context * width;
  return 6 * weights + 12 * config.layers * width * context;
}

std::optional<double> PeakFlops(absl::string_view device) {
  if (absl::StrContains(device, "MIG")) return std::nullopt;
  for (const DevicePeak& peak : kPeaks) {
    if (absl::StartsWith(device, peak.name)) return peak.flops;
  }
  return std::nullopt;
}

}  // namespace rollcall
