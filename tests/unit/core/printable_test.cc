#include "daemon/base/text/printable.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace rollcall {
namespace {

TEST(Printable, ReplacesWhatATerminalWouldObey) {
  const struct {
    std::string text;
    std::string line;
    std::string lines;
  } rows[] = {
      {"plain", "plain", "plain"},
      {"a\nb\tc\rd", "a?b?c?d", "a\nb\tc?d"},
      {"\x1b[2J", "?[2J", "?[2J"},
      {"\x7f", "?", "?"},
      {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
      {"\xc2\x9b"
       "1m",
       "?1m", "?1m"},                        // A C1 control.
      {"\xff\xfe", "??", "??"},              // Not UTF-8.
      {"\xc0\xaf", "??", "??"},              // Overlong.
      {"\xed\xa0\x80", "???", "???"},        // A surrogate.
      {"\xf4\x90\x80\x80", "????", "????"},  // Beyond Unicode.
      {"\xe2\x82", "??", "??"},              // Cut off.
      {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
      {std::string("a\0b", 3), "a?b", "a?b"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Printable(row.text, 100), row.line);
    EXPECT_EQ(Printable(row.text, 100, true), row.lines);
  }
}

TEST(Printable, ReplacesWhatMakesATextReadOtherwise) {
  const struct {
    uint32_t first;
    uint32_t last;
  } ranges[] = {
      {0x80, 0x9F},      // C1 controls.
      {0x61C, 0x61C},    // The Arabic letter mark.
      {0x200B, 0x200F},  // Zero width, direction marks.
      {0x2028, 0x202E},  // Line separators, embeddings and overrides.
      {0x2060, 0x2069},  // The word joiner, and isolates.
      {0xFEFF, 0xFEFF},  // The byte order mark.
  };
  const auto utf8 = [](uint32_t code) {
    if (code < 0x800) {
      return std::string{static_cast<char>(0xC0 | code >> 6),
                         static_cast<char>(0x80 | (code & 0x3F))};
    }
    return std::string{static_cast<char>(0xE0 | code >> 12),
                       static_cast<char>(0x80 | (code >> 6 & 0x3F)),
                       static_cast<char>(0x80 | (code & 0x3F))};
  };
  const auto hidden = [&](uint32_t code) {
    for (const auto& range : ranges) {
      if (range.first <= code && code <= range.last) return true;
    }
    return false;
  };
  for (const auto& range : ranges) {
    // The range and its two neighbours, where these are not in another range.
    for (uint32_t code = range.first - 1; code <= range.last + 1; ++code) {
      if (code < 0x80 || code == 0x206A) continue;
      const std::string text = "a" + utf8(code) + "b";
      const std::string expected = hidden(code) ? "a?b" : text;
      EXPECT_EQ(Printable(text, 100), expected) << std::hex << code;
      EXPECT_EQ(Printable(text, 100, true), expected) << std::hex << code;
    }
  }
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(Printable("abc", 2), "ab");
  EXPECT_EQ(Printable("a\xc3\xbc", 2), "a");
  EXPECT_EQ(Printable("a", 0), "");
}

}  // namespace
}  // namespace rollcall
