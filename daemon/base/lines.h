// Lines: a rank's output, cut into the lines that a person reads.
//
// Pure: bytes in, lines out; it writes nothing and reads no clock. Thread rule:
// one thread at a time.
#ifndef ROLLCALL_DAEMON_BASE_LINES_H_
#define ROLLCALL_DAEMON_BASE_LINES_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rollcall {

// A line that is longer is cut here and goes on in the next.
inline constexpr size_t kLineBytesMax = 64 << 10;

// Cuts one stream into lines.
//
// A carriage return starts a line again, as on a terminal: of a progress bar's
// states the last one before the newline is the line, and in between one state
// a second at most is given as a line of its own, so that it is seen to move.
class LineCutter {
 public:
  // Takes the next bytes; returns the lines, without their ends, that they
  // completed.
  std::vector<std::string> Take(absl::string_view bytes, absl::Time now);

  // The line that has no end yet, given up: the stream has ended.
  std::vector<std::string> Finish();

  // The line that has no end yet.
  const std::string& open_line() const { return line_; }

 private:
  std::string line_;
  // The last byte was a carriage return: the next decides what it meant.
  bool returned_ = false;
  absl::Time last_state_ = absl::InfinitePast();
};

// The last lines of a stream, few and short enough for a message.
class Tail {
 public:
  Tail(size_t lines_max, size_t bytes_max)
      : lines_max_(lines_max), bytes_max_(bytes_max) {}

  void Add(absl::string_view line);

  // All of them and the line that is still open, joined by newlines; valid
  // UTF-8 of at most bytes_max: what does not fit is cut from the front.
  std::string Text(absl::string_view open_line) const;

 private:
  const size_t lines_max_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::deque<std::string> lines_;
};

// `text` with every byte that is not part of valid UTF-8 replaced by '?'.
std::string ValidUtf8(absl::string_view text);

// The last `bytes_max` bytes of `text`, as valid UTF-8.
std::string LastBytes(absl::string_view text, size_t bytes_max);

// Puts `prefix` before and a newline behind each line, and joins them into
// pieces that a pipe takes whole (PIPE_BUF); a longer line is a piece alone.
std::vector<std::string> PrefixedPieces(const std::vector<std::string>& lines,
                                        absl::string_view prefix);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_LINES_H_
