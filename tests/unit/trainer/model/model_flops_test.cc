#include "trainer/model/model_flops.h"

#include <gtest/gtest.h>

#include <optional>

#include "trainer/model/sizes.h"

namespace rollcall {
namespace {

// GPT-2 of 124M parameters: (124,439,808 - 1024 * 768) * 6 for the matrices, 12
// * 12 * 768 * 1024 for the attention.
TEST(ModelFlops, OfAToken) {
  const auto config = ConfigOf("gpt2", 50257);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(FlopsPerToken(*config),
            6.0 * (124439808 - 786432) + 12.0 * 12 * 768 * 1024);
}

TEST(ModelFlops, PeakOfADevice) {
  const struct {
    const char* device;
    std::optional<double> flops;
  } kRows[] = {
      {"NVIDIA A100-SXM4-80GB", 312e12},
      {"NVIDIA H100 80GB HBM3", 989e12},
      {"NVIDIA H100 PCIe", 756e12},
      {"NVIDIA H100 NVL", 835e12},
      {"NVIDIA H200", 989e12},
      {"NVIDIA H200 NVL", 835e12},
      {"NVIDIA B200", 2250e12},
      // A seventh of an H100.
      {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", std::nullopt},
      {"NVIDIA H800", std::nullopt},
      {"NVIDIA GeForce RTX 4090", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(PeakFlops(row.device), row.flops) << row.device;
  }
}

}  // namespace
}  // namespace rollcall
