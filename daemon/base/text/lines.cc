#include "daemon/base/text/lines.h"

#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rollcall {
namespace {

constexpr absl::Duration kBetweenStates = absl::Seconds(1);

// The length of the valid UTF-8 sequence at the front of `text`; 0: it is
// invalid.
size_t SequenceBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and code points above U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

// At most the last `bytes_max` bytes; never begins in the middle of a
// character.
absl::string_view CutFront(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  text.remove_prefix(text.size() - bytes_max);
  while (!text.empty() && (text[0] & 0xc0) == 0x80) text.remove_prefix(1);
  return text;
}

}  // namespace

std::vector<std::string> LineCutter::Take(absl::string_view bytes,
                                          absl::Time now) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    if (returned_ && bytes[0] != '\n' && bytes[0] != '\r') {
      if (!line_.empty() && now - last_state_ >= kBetweenStates) {
        lines.push_back(line_);
        last_state_ = now;
      }
      line_.clear();
    }
    returned_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    absl::string_view plain = bytes.substr(0, end);
    while (line_.size() + plain.size() > kLineBytesMax) {
      const size_t fits = kLineBytesMax - line_.size();
      line_.append(plain.data(), fits);
      plain.remove_prefix(fits);
      lines.push_back(std::exchange(line_, {}));
    }
    line_.append(plain.data(), plain.size());
    if (end == absl::string_view::npos) break;
    if (bytes[end] == '\n') {
      lines.push_back(std::exchange(line_, {}));
    } else {
      returned_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> LineCutter::Finish() {
  std::vector<std::string> lines;
  if (!line_.empty()) lines.push_back(std::exchange(line_, {}));
  returned_ = false;
  return lines;
}

void Tail::Add(absl::string_view line) {
  line = CutFront(line, bytes_max_);
  lines_.emplace_back(line);
  bytes_ += line.size() + 1;
  while (lines_.size() > lines_max_ ||
         (lines_.size() > 1 && bytes_ - lines_.front().size() > bytes_max_)) {
    bytes_ -= lines_.front().size() + 1;
    lines_.pop_front();
  }
}

std::string Tail::Text(absl::string_view open_line) const {
  std::string text;
  const size_t skipped =
      !open_line.empty() && lines_.size() == lines_max_ ? 1 : 0;
  for (size_t i = skipped; i < lines_.size(); ++i) {
    absl::StrAppend(&text, text.empty() && i == skipped ? "" : "\n", lines_[i]);
  }
  if (!open_line.empty()) {
    absl::StrAppend(&text, lines_.size() > skipped ? "\n" : "", open_line);
  }
  return LastBytes(text, bytes_max_);
}

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceBytes(text);
    if (length == 0) {
      valid += '?';
      text.remove_prefix(1);
    } else {
      valid.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

std::string LastBytes(absl::string_view text, size_t bytes_max) {
  return ValidUtf8(CutFront(text, bytes_max));
}

std::vector<std::string> PrefixedPieces(const std::vector<std::string>& lines,
                                        absl::string_view prefix) {
  std::vector<std::string> pieces;
  std::string piece;
  for (const std::string& line : lines) {
    const size_t bytes = prefix.size() + line.size() + 1;
    if (!piece.empty() && piece.size() + bytes > PIPE_BUF) {
      pieces.push_back(std::exchange(piece, {}));
    }
    absl::StrAppend(&piece, prefix, line, "\n");
  }
  if (!piece.empty()) pieces.push_back(std::move(piece));
  return pieces;
}

}  // namespace rollcall
