#include "trainer/model/sizes.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"

namespace rollcall {
namespace {

TEST(Sizes, HaveThePublishedNumbersOfParameters) {
  struct Row {
    const char* name;
    int vocabulary, layers, heads, width, context;
    size_t parameters;
  };
  const Row kRows[] = {
      {"gpt2-nano", 256, 3, 4, 128, 64, 636032},
      {"gpt2", 256, 12, 12, 768, 1024, 86039040},
      {"gpt2", 50257, 12, 12, 768, 1024, 124439808},
      {"gpt2-medium", 50257, 24, 16, 1024, 1024, 354823168},
      {"gpt2-large", 50257, 36, 20, 1280, 1024, 774030080},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const absl::StatusOr<GptConfig> config = ConfigOf(row.name, row.vocabulary);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(config->Validate().ok());
    EXPECT_EQ(config->layers, row.layers);
    EXPECT_EQ(config->heads, row.heads);
    EXPECT_EQ(config->width, row.width);
    EXPECT_EQ(config->context, row.context);
    EXPECT_EQ(config->vocabulary, row.vocabulary);
    EXPECT_EQ(GptLayout(*config).size, row.parameters);
  }
}

TEST(Sizes, NanoIsTheDefault) {
  const GptConfig nano = *ConfigOf("gpt2-nano", kByteVocabulary);
  const GptConfig config;
  EXPECT_EQ(nano.layers, config.layers);
  EXPECT_EQ(nano.heads, config.heads);
  EXPECT_EQ(nano.width, config.width);
  EXPECT_EQ(nano.context, config.context);
  EXPECT_EQ(nano.vocabulary, config.vocabulary);
}

TEST(Sizes, RefusesUnknownNames) {
  struct Row {
    const char* name;
    int vocabulary;
    const char* named;
  };
  const Row kRows[] = {
      {"gpt2-xl", 256, "gpt2-nano, gpt2, gpt2-medium or gpt2-large"},
      {"", 50257, "gpt2-nano, gpt2, gpt2-medium or gpt2-large"},
      {"gpt2", 50304, "50257"},
      {"gpt2", 0, "256"},
  };
  for (const Row& row : kRows) {
    const absl::Status status = ConfigOf(row.name, row.vocabulary).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), row.named)) << status;
  }
}

}  // namespace
}  // namespace rollcall
