#include "client/launch/render/quoting.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/launch/spawn/ssh_process.h"

namespace rollcall {
namespace {

// Texts that YAML 1.1 or 1.2 reads as something other than a text.
constexpr absl::string_view kNoTexts[] = {"true", "false", "yes", "no", "on",
                                          "off",  "null",  "y",   "n"};

bool IsPlain(absl::string_view text) {
  if (text == "--") return true;
  const absl::string_view flag =
      absl::StartsWith(text, "--") ? text.substr(2) : text;
  // A first digit could begin a number, a date or a time.
  if (flag.empty() ||
      !(absl::ascii_isalpha(static_cast<unsigned char>(flag.front())) ||
        flag.front() == '/') ||
      flag.back() == ':') {
    return false;
  }
  if (!std::all_of(flag.begin(), flag.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || absl::StrContains("/._=+:,@%-", c);
      })) {
    return false;
  }
  const std::string lower = absl::AsciiStrToLower(text);
  return std::find(std::begin(kNoTexts), std::end(kNoTexts), lower) ==
         std::end(kNoTexts);
}

// The number of bytes of the first character of `text`, and the character
// itself. `text` is valid UTF-8.
size_t ReadCharacter(absl::string_view text, char32_t& character) {
  const auto byte = [text](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const unsigned first = byte(0);
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                                      : 4;
  character = bytes == 1 ? first : first & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    character = character << 6 | (byte(i) & 0x3Fu);
  }
  return std::min(bytes, text.size());
}

// Code points that a YAML reader, a terminal or an editor might change: control
// characters, line and paragraph separators, the byte order mark, and
// noncharacters.
bool NeedsEscape(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 ||
         c == 0xFEFF || c == 0xFFFE || c == 0xFFFF;
}

std::string InQuotes(absl::string_view text, bool escape_less_than) {
  std::string quoted = "\"";
  while (!text.empty()) {
    char32_t character = 0;
    const size_t bytes = ReadCharacter(text, character);
    const auto code = static_cast<unsigned>(character);
    if (character == '"' || character == '\\') {
      absl::StrAppend(&quoted, "\\", text.substr(0, 1));
    } else if (character == '\n') {
      quoted += "\\n";
    } else if (character == '\t') {
      quoted += "\\t";
    } else if (character == '<' && escape_less_than) {
      quoted += "\\x3c";
    } else if (NeedsEscape(character)) {
      if (code < 0x100) {
        absl::StrAppendFormat(&quoted, "\\x%02x", code);
      } else {
        absl::StrAppendFormat(&quoted, "\\u%04x", code);
      }
    } else {
      absl::StrAppend(&quoted, text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  quoted.push_back('"');
  return quoted;
}

bool NeedsNoShellQuotes(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("/._=+:,@%-", c);
         });
}

}  // namespace

std::string YamlText(absl::string_view text) {
  return IsPlain(text) ? std::string(text) : InQuotes(text, false);
}

std::string YamlTextInTemplate(absl::string_view text) {
  return InQuotes(text, true);
}

std::string YamlList(const std::vector<std::string>& words) {
  return absl::StrJoin(words, "\n", [](std::string* to, const std::string& w) {
    absl::StrAppend(to, "- ", YamlText(w));
  });
}

std::vector<std::string> DollarsDoubled(std::vector<std::string> words) {
  for (std::string& word : words) absl::StrReplaceAll({{"$", "$$"}}, &word);
  return words;
}

std::string ShellLine(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* to, const std::string& w) {
    // A shell would read a first word such as A=b as an assignment.
    const bool plain = NeedsNoShellQuotes(w) && !absl::StrContains(w, '=');
    absl::StrAppend(
        to, plain || (absl::StartsWith(w, "--") && NeedsNoShellQuotes(w))
                ? w
                : ShellWord(w));
  });
}

}  // namespace rollcall
