#include "client/launch/render/fill.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// The length of the placeholder at `at`, with both @; 0: there is none.
size_t PlaceBytes(absl::string_view text, size_t at) {
  if (text[at] != '@') return 0;
  size_t end = at + 1;
  while (end < text.size() &&
         (absl::ascii_isupper(static_cast<unsigned char>(text[end])) ||
          text[end] == '_')) {
    ++end;
  }
  const bool is_place = end > at + 1 && end < text.size() && text[end] == '@';
  return is_place ? end + 1 - at : 0;
}

const std::string* ValueOf(absl::string_view place, const FillValues& values) {
  const auto value =
      values.find(std::string(place.substr(1, place.size() - 2)));
  return value == values.end() ? nullptr : &value->second;
}

void FillLine(absl::string_view line, const FillValues& values,
              std::string& to) {
  for (size_t at = 0; at < line.size();) {
    const size_t bytes = PlaceBytes(line, at);
    const std::string* value =
        bytes == 0 ? nullptr : ValueOf(line.substr(at, bytes), values);
    if (value == nullptr) {
      to.push_back(line[at++]);
    } else {
      to.append(*value);
      at += bytes;
    }
  }
}

}  // namespace

std::string Fill(absl::string_view text, const FillValues& values) {
  std::string filled;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const absl::string_view line = text.substr(0, end);
    text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
    const absl::string_view word = absl::StripLeadingAsciiWhitespace(line);
    const bool alone = !word.empty() && PlaceBytes(word, 0) == word.size();
    const std::string* value = alone ? ValueOf(word, values) : nullptr;
    if (value == nullptr) {
      FillLine(line, values, filled);
      filled.push_back('\n');
    } else if (!value->empty()) {
      const absl::string_view indent =
          line.substr(0, line.size() - word.size());
      for (absl::string_view part : absl::StrSplit(*value, '\n')) {
        absl::StrAppend(&filled, indent, part, "\n");
      }
    }
  }
  return filled;
}

}  // namespace rollcall
