#include "daemon/base/text/printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace rollcall {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0: it is not valid.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and values above U+10FFFF.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return size;
}

// The code point of one valid UTF-8 character.
uint32_t CodePoint(std::string_view character) {
  const uint8_t first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7F >> character.size());
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<uint8_t>(c) & 0x3F);
  }
  return code;
}

// Control characters that a terminal could obey, and characters that make a
// text look different from its content: line and paragraph separators, marks
// that change the direction of writing, and invisible characters.
bool IsControl(std::string_view character) {
  static constexpr struct {
    uint32_t first;
    uint32_t last;
  } kRanges[] = {
      {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD},   {0x061C, 0x061C},
      {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},
      {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
  };
  const uint32_t code = CodePoint(character);
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) {
                       return range.first <= code && code <= range.last;
                     });
}

}  // namespace

std::string Printable(std::string_view text, size_t bytes_max, bool multiline) {
  std::string clean;
  clean.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    const std::string_view character =
        text.substr(0, std::max<size_t>(size, 1));
    const bool kept = multiline && (character == "\n" || character == "\t");
    const bool bad = size == 0 || (IsControl(character) && !kept);
    if (clean.size() + (bad ? 1 : character.size()) > bytes_max) break;
    if (bad) {
      clean.push_back('?');
    } else {
      clean.append(character);
    }
    text.remove_prefix(character.size());
  }
  return clean;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace rollcall
