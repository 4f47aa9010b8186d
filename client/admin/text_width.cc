#include "client/admin/text_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// Longer texts do not fit on any screen.
constexpr size_t kTextBytesMax = 4096;

struct Range {
  uint32_t first;
  uint32_t last;
};

// Unicode's combining marks and variation selectors.
constexpr Range kZeroWidth[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F},
    {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
};

// East Asian wide characters (UAX 11) and pictographs.
constexpr Range kDoubleWidth[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},
    {0x23E9, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x26FF},
    {0x2705, 0x27BF},   {0x2B1B, 0x2B55},   {0x2E80, 0x303E},
    {0x3041, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97F},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},
    {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x18DFF}, {0x1B000, 0x1B2FF}, {0x1F004, 0x1F004},
    {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F19A}, {0x1F200, 0x1F265},
    {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD},
};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const Range& r) {
    return r.first <= code && code <= r.last;
  });
}

// Removes the first character from `text`, which is valid UTF-8, and returns
// it.
absl::string_view TakeCharacter(absl::string_view& text) {
  size_t bytes = 1;
  while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;
  const absl::string_view character = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return character;
}

size_t CharacterWidth(absl::string_view character) {
  if (character.size() == 1) return 1;
  uint32_t code = static_cast<uint8_t>(character[0]) &
                  (character.size() < 8 ? 0x7F >> character.size() : 0);
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<uint8_t>(c) & 0x3F);
  }
  if (IsIn(kZeroWidth, code)) return 0;
  return IsIn(kDoubleWidth, code) ? 2 : 1;
}

}  // namespace

size_t TextWidth(absl::string_view text) {
  size_t width = 0;
  while (!text.empty()) width += CharacterWidth(TakeCharacter(text));
  return width;
}

std::string FitText(absl::string_view text, size_t columns) {
  const std::string clean =
      Printable({text.data(), text.size()}, kTextBytesMax);
  std::string fit;
  size_t width = 0;
  absl::string_view left = clean;
  while (!left.empty()) {
    const absl::string_view character = TakeCharacter(left);
    width += CharacterWidth(character);
    if (width > columns) break;
    fit.append(character.data(), character.size());
  }
  return fit;
}

std::string PadText(absl::string_view text, size_t columns) {
  std::string fit = FitText(text, columns);
  fit.append(columns - TextWidth(fit), ' ');
  return fit;
}

}  // namespace rollcall
