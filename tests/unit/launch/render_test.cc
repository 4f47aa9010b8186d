// The placeholders in the run specs of `rollcall render`.
#include "client/launch/render/render.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "client/launch/render/fill.h"
#include "client/launch/render/platform_names.h"
#include "client/launch/render/quoting.h"

namespace rollcall {
namespace {

TEST(Quoting, YamlReadsATextAsItIs) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"python3", "python3"},
      {"--nodes=4", "--nodes=4"},
      {"--", "--"},
      {"/a/b.py", "/a/b.py"},
      {"registry.example/a:1", "registry.example/a:1"},
      {"", "\"\""},
      {"-", "\"-\""},
      {"---", "\"---\""},
      {"a b", "\"a b\""},
      {"a:", "\"a:\""},
      {"yes", "\"yes\""},
      {"NULL", "\"NULL\""},
      {"1", "\"1\""},
      {"1:30", "\"1:30\""},
      {".5", "\".5\""},
      {"=", "\"=\""},
      {"<<", "\"<<\""},
      {"a\nb\t", "\"a\\nb\\t\""},
      {"\"\\", "\"\\\"\\\\\""},
      {"\x01\x7f", "\"\\x01\\x7f\""},
      {"\xC3\xA9", "\"\xC3\xA9\""},
      {"\xC2\x85\xE2\x80\xA8\xEF\xBB\xBF", "\"\\x85\\u2028\\ufeff\""},
      {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},
  };
  for (const auto& row : rows) EXPECT_EQ(YamlText(row.text), row.expect);
  EXPECT_EQ(YamlTextInTemplate("a<<B>>"), "\"a\\x3c\\x3cB>>\"");
}

TEST(Quoting, ShellsAndDollars) {
  EXPECT_EQ(ShellLine({"a", "--b=c", "A=b", "", "it's", "$x"}),
            "a --b=c 'A=b' '' 'it'\\''s' '$x'");
  EXPECT_EQ(DollarsDoubled({"$(A)", "a$", "$$"}),
            (std::vector<std::string>{"$$(A)", "a$$", "$$$$"}));
}

TEST(Fill, Places) {
  const FillValues values = {
      {"A", "1"}, {"B", "x\ny"}, {"C", ""}, {"D", "@A@"}};
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"a @A@ @A@b\n", "a 1 1b\n"},
      {"  @B@\nz\n", "  x\n  y\nz\n"},
      {"  @C@\nz @C@|\n", "z |\n"},
      // Placeholders in a value are not replaced, and unknown ones stay.
      {"@D@ me@node3 @UNKNOWN@ @A", "@A@ me@node3 @UNKNOWN@ @A\n"},
  };
  for (const auto& row : rows) EXPECT_EQ(Fill(row.text, values), row.expect);
}

TEST(PlatformNames, WhatThePlatformAllows) {
  const std::string label(63, 'a');
  EXPECT_TRUE(CheckObjectName(label, 0).ok());
  EXPECT_FALSE(CheckObjectName(label, 1).ok());
  for (const char* bad : {"", "a-", "-a", "1a", "A", "a_b", "a.b", "a b"}) {
    EXPECT_FALSE(CheckObjectName(bad, 0).ok()) << bad;
  }
  for (const char* good : {"a", "1", "a.b-c.d"}) {
    EXPECT_TRUE(CheckSecretName(good).ok()) << good;
  }
  for (const char* bad : {"", ".", "a.", "a..b", "A", "a/b"}) {
    EXPECT_FALSE(CheckSecretName(bad).ok()) << bad;
  }
  for (const char* good : {"a", "a/b:1", "h:5000/a/b@sha256:ab", "A/b_c.d"}) {
    EXPECT_TRUE(CheckImageName(good).ok()) << good;
  }
  for (const char* bad : {"", "/a", "a/", "a//b", "a b", "a\n", "${A}"}) {
    EXPECT_FALSE(CheckImageName(bad).ok()) << bad;
  }
}

TEST(Render, EveryPlatformRendersWithItsDefaults) {
  for (const std::string& platform : RenderPlatforms()) {
    const auto text = Render(platform, {});
    ASSERT_TRUE(text.ok()) << platform << ": " << text.status();
    EXPECT_FALSE(text->empty());
    EXPECT_FALSE(Render(platform, {{{"--unknown", "x"}}, {}, {}}).ok());
  }
  EXPECT_TRUE(absl::StrContains(Render("slurn", {}).status().message(),
                                "did you mean slurm?"));
}

}  // namespace
}  // namespace rollcall
